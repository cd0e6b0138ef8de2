#include "sotto/core/output.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>

namespace sotto {

// Past the stream's own buffer, which would keep what could not be written and try again with every later line.
int write_text(std::FILE* file, std::string_view text) {
  std::fflush(file);
  const int descriptor = ::fileno(file);
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor, text.data(), text.size());
    if (written >= 0) {
      text.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno == EAGAIN) {  // whoever gave us the stream does not want to wait; we do
      pollfd polled{descriptor, POLLOUT, 0};
      ::poll(&polled, 1, -1);
    } else if (errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

}  // namespace sotto
