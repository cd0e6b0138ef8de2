#include "sotto/comm/secret.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <random>
#include <span>

#include "sotto/core/error.h"
#include "sotto/core/open_file.h"
#include "sotto/core/text.h"

namespace sotto {
namespace {

constexpr std::size_t digits = 2 * sizeof(Secret);

[[noreturn]] void fail(const std::string& path, std::string_view why) {
  throw ConfigError(fmt::format("{}: {}", named("secret", path), why));
}

using Key = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;
using Context = std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)>;
using PublicKey = std::array<std::byte, 32>;
using Signature = std::array<std::byte, 64>;

constexpr std::string_view no_secret = "none";
constexpr std::string_view purpose = "sotto coordinator";  // the same secret also serves as the key of TLS

unsigned char* raw(std::span<std::byte> bytes) { return reinterpret_cast<unsigned char*>(bytes.data()); }
const unsigned char* raw(std::string_view text) { return reinterpret_cast<const unsigned char*>(text.data()); }

void require(bool done) {
  if (!done) throw CommError("OpenSSL cannot sign with the secret of the job (Ed25519)");
}

Key private_key(const Secret& secret) {
  std::array<unsigned char, 32> seed{};
  unsigned length = seed.size();
  require(HMAC(EVP_sha256(), secret.data(), secret.size(), raw(purpose), purpose.size(), seed.data(), &length) !=
          nullptr);
  Key key(EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, nullptr, seed.data(), seed.size()), EVP_PKEY_free);
  require(key != nullptr);
  return key;
}

PublicKey public_part(EVP_PKEY& key) {
  PublicKey bytes;
  std::size_t length = bytes.size();
  require(EVP_PKEY_get_raw_public_key(&key, raw(bytes), &length) == 1);
  return bytes;
}

std::string signed_text(std::string_view job, int id, std::string_view from) {
  return fmt::format("{}\n{}\n{}\n{}", purpose, job, id, from);
}

bool is_signed(const PublicKey& by, const Signature& signature, std::string_view text) {
  const Key key(EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, nullptr,
                                            reinterpret_cast<const unsigned char*>(by.data()), by.size()),
                EVP_PKEY_free);
  const Context context(EVP_MD_CTX_new(), EVP_MD_CTX_free);
  return key && context && EVP_DigestVerifyInit(context.get(), nullptr, nullptr, nullptr, key.get()) == 1 &&
         EVP_DigestVerify(context.get(), reinterpret_cast<const unsigned char*>(signature.data()), signature.size(),
                          raw(text), text.size()) == 1;
}

// Takes the text before the next blank away.
std::string_view next_word(std::string_view& text) {
  const std::size_t end = text.find(' ');
  const std::string_view word = text.substr(0, end);
  text.remove_prefix(end == text.npos ? text.size() : end + 1);
  return word;
}

}  // namespace

Secret new_secret() {
  Secret secret;
  if (RAND_bytes(reinterpret_cast<unsigned char*>(secret.data()), static_cast<int>(secret.size())) != 1) {
    throw CommError("the system gives no random numbers for a secret");
  }
  return secret;
}

std::string secret_text(const Secret& secret) { return hex_text(secret) + '\n'; }

void write_secret(const Secret& secret, const std::string& path) {
  const std::string text = secret_text(secret);
  const Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR));
  if (!file.open() && errno == EEXIST) fail(path, "there is such a file already, and a job may need it");
  if (!file.open()) fail(path, std::strerror(errno));
  if (::write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size())) return;
  const std::string why = std::strerror(errno);
  ::unlink(path.c_str());
  fail(path, why);
}

Secret read_secret(const std::string& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat found {};
  if (!file.open() || ::fstat(file.get(), &found) != 0) fail(path, std::strerror(errno));
  if ((found.st_mode & (S_IRWXG | S_IRWXO)) != 0) fail(path, "others may read it; `chmod 600` it");
  std::array<char, digits + 2> text{};  // and a newline, and a character too many
  const ssize_t count = ::read(file.get(), text.data(), text.size());
  const auto secret = read_secret_text({text.data(), static_cast<std::size_t>(std::max<ssize_t>(count, 0))});
  if (secret) return *secret;
  fail(path, fmt::format("it is no secret: {} hexadecimal digits, as `sotto secret new` writes", digits));
}

std::optional<Secret> read_secret_text(std::string_view text) {
  if (text.ends_with('\n')) text.remove_suffix(1);
  Secret secret;
  if (text.size() != digits || !read_hex(text, secret)) return std::nullopt;
  return secret;
}

std::string new_job_name() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}{:08x}{:08x}", random(), random(), random(), random());
}

std::string public_key_of(const Secret& secret) { return hex_text(public_part(*private_key(secret))); }

std::string application_text(const std::optional<Secret>& secret, std::string_view job, int id, std::string_view from) {
  if (!secret) return fmt::format("{} {}", no_secret, from);
  const Key key = private_key(*secret);
  const Context context(EVP_MD_CTX_new(), EVP_MD_CTX_free);
  const std::string text = signed_text(job, id, from);
  Signature signature;
  std::size_t length = signature.size();
  require(context && EVP_DigestSignInit(context.get(), nullptr, nullptr, nullptr, key.get()) == 1 &&
          EVP_DigestSign(context.get(), raw(signature), &length, raw(text), text.size()) == 1);
  return fmt::format("{} {} {}", hex_text(public_part(*key)), hex_text(signature), from);
}

std::optional<Application> read_application(std::string_view text, std::string_view job, int id) {
  const std::string key(next_word(text));
  if (key == no_secret) return Application{.key = "", .from = std::string(text)};
  PublicKey by;
  Signature signature;
  if (!read_hex(key, by) || !read_hex(next_word(text), signature)) return std::nullopt;
  if (!is_signed(by, signature, signed_text(job, id, text))) return std::nullopt;
  return Application{.key = key, .from = std::string(text)};
}

}  // namespace sotto
