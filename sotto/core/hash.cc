#include "sotto/core/hash.h"

#include <openssl/sha.h>

#include <algorithm>

#include "sotto/core/file.h"
#include "sotto/core/open_file.h"

namespace sotto {
namespace {

void sha256(std::span<const std::byte> bytes, std::byte* digest) {
  const auto* data = reinterpret_cast<const unsigned char*>(bytes.data());
  if (SHA256(data, bytes.size(), reinterpret_cast<unsigned char*>(digest)) == nullptr) {
    throw std::runtime_error("OpenSSL refuses to compute a digest");
  }
}

}  // namespace

void BlockHash::add(std::span<const std::byte> bytes) {
  if (!pending_.empty() || bytes.size() < block) {
    const std::size_t count = std::min(bytes.size(), block - pending_.size());
    pending_.insert(pending_.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(count));
    bytes = bytes.subspan(count);
    if (pending_.size() < block) return;
    digest(pending_);
    pending_.clear();
  }
  const std::size_t whole = bytes.size() / block * block;
  digest(bytes.first(whole));
  pending_.assign(bytes.begin() + static_cast<std::ptrdiff_t>(whole), bytes.end());
}

void BlockHash::digest(std::span<const std::byte> bytes) {
  const std::size_t before = digests_.size(), blocks = (bytes.size() + block - 1) / block;
  digests_.resize(before + blocks * SHA256_DIGEST_LENGTH);
  pool_.run_stretches(bytes.size(), block, [&](std::size_t begin, std::size_t end) {
    sha256(bytes.subspan(begin, end - begin), digests_.data() + before + begin / block * SHA256_DIGEST_LENGTH);
  });
}

std::string BlockHash::hex() {
  digest(pending_);
  pending_.clear();
  return sha256_hex(digests_);
}

std::string block_hash(std::span<const std::byte> bytes, ThreadPool& pool) {
  BlockHash hash(pool);
  hash.add(bytes);
  return hash.hex();
}

std::string block_hash_of_file(const std::filesystem::path& path, ThreadPool& pool) {
  BlockHash hash(pool);
  FileReader file(path);
  std::vector<std::byte> piece(
      std::min(file.size() + 1, 4 * BlockHash::block * static_cast<std::size_t>(pool.threads())));
  for (std::uint64_t at = 0; at < file.size();) {
    const std::size_t count = std::min<std::uint64_t>(piece.size(), file.size() - at);
    file.read(at, std::span(piece).first(count));
    hash.add(std::span(piece).first(count));
    at += count;
  }
  return hash.hex();
}

}  // namespace sotto
