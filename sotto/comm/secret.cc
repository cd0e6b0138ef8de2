#include "sotto/comm/secret.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/rand.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "sotto/core/descriptor.h"
#include "sotto/core/error.h"
#include "sotto/core/hex.h"

namespace sotto {
namespace {

constexpr std::size_t digits = 2 * sizeof(Secret);

[[noreturn]] void fail(const std::string& path, std::string_view why) {
  throw ConfigError(fmt::format("{}: {}", named("secret", path), why));
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
  Secret secret;
  const bool is_whole = count == digits || (count == digits + 1 && text[digits] == '\n');
  if (!is_whole || !read_hex({text.data(), digits}, secret)) {
    fail(path, fmt::format("it is no secret: {} hexadecimal digits, as `sotto secret new` writes", digits));
  }
  return secret;
}

}  // namespace sotto
