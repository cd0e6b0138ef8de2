#include "app/launch/host_message.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>

namespace sotto {
namespace {

constexpr std::size_t longest_message = std::size_t{1} << 24;  // an argument may be a long codec

std::string unescaped(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || i + 1 == text.size()) {
      plain += text[i];
      continue;
    }
    const char next = text[++i];
    plain += next == 'n' ? '\n' : next == 'r' ? '\r' : next;
  }
  return plain;
}

}  // namespace

std::string to_line(const HostMessage& message) {
  std::string line = message.kind + ' ';
  for (const char c : message.text) {
    if (c == '\n' || c == '\r' || c == '\\') line += '\\';
    line += c == '\n' ? 'n' : c == '\r' ? 'r' : c;
  }
  return line + '\n';
}

HostMessageReader::HostMessageReader(int descriptor) : descriptor_(descriptor) {
  fcntl(descriptor_, F_SETFL, fcntl(descriptor_, F_GETFL) | O_NONBLOCK);
}

void HostMessageReader::add_to(std::vector<pollfd>& polled) const {
  if (!ended_) polled.push_back({descriptor_, POLLIN, 0});
}

bool HostMessageReader::read() {
  std::array<char, 1 << 14> buffer;
  bool any = false;
  while (!ended_) {
    const ssize_t got = ::read(descriptor_, buffer.data(), buffer.size());
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) break;
    any = any || got > 0;
    ended_ = got <= 0 || pending_.size() > longest_message;
    if (!ended_) pending_.append(buffer.data(), static_cast<std::size_t>(got));
  }
  return any;
}

std::optional<HostMessage> HostMessageReader::next() {
  const std::size_t end = pending_.find('\n');
  if (end == std::string::npos) return std::nullopt;
  const std::string_view line = std::string_view(pending_).substr(0, end);
  const std::size_t blank = line.find(' ');
  HostMessage message{std::string(line.substr(0, blank)),
                      blank == std::string_view::npos ? "" : unescaped(line.substr(blank + 1))};
  pending_.erase(0, end + 1);
  return message;
}

}  // namespace sotto
