#include "sotto/core/text.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <ctime>

namespace sotto {

std::string hex_text(std::span<const std::byte> bytes) {
  return fmt::format("{:02x}", fmt::join(bytes.begin(), bytes.end(), ""));
}

bool read_hex(std::string_view text, std::span<std::byte> bytes) {
  bool good = text.size() == 2 * bytes.size();
  for (std::size_t i = 0; good && i < bytes.size(); ++i) {
    const char* const digits = text.data() + 2 * i;
    unsigned value = 0;
    good = std::from_chars(digits, digits + 2, value, 16).ptr == digits + 2;
    bytes[i] = static_cast<std::byte>(value);
  }
  return good;
}

// Bypasses the buffer of the stream: it would keep text that could not be written, and try to write it again with every
// later line.
int write_text(std::FILE* file, std::string_view text) {
  std::fflush(file);
  const int descriptor = ::fileno(file);
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor, text.data(), text.size());
    if (written >= 0) {
      text.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno == EAGAIN) {  // the stream is non-blocking: wait here
      pollfd polled{descriptor, POLLOUT, 0};
      ::poll(&polled, 1, -1);
    } else if (errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

// Blocks SIGPIPE for this write alone. For standard output, SIGPIPE ends the program, as a reader like `head` expects.
void print_error(std::string_view text) {
  sigset_t pipe, before;
  sigemptyset(&pipe);
  sigaddset(&pipe, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &pipe, &before);
  const timespec at_once{};
  if (write_text(stderr, text) == EPIPE && sigismember(&before, SIGPIPE) == 0) sigtimedwait(&pipe, nullptr, &at_once);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void flush_output() {
  if (std::fflush(stdout) != 0) throw std::system_error(errno, std::generic_category(), "standard output");
}

}  // namespace sotto
