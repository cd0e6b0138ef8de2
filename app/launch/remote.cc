#include "app/launch/remote.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdlib>

namespace sotto {
namespace {

constexpr std::size_t longest_words = 2000;

// The user's options stand before ours, since ssh takes the first of two. A host that does not answer is an error after
// ten seconds, and a dead connection after thirty. No shared master connection: it would outlive this ssh, which we
// must be able to end.
constexpr std::string_view ssh_options =
    "-T -o BatchMode=yes -o ConnectTimeout=10 -o ServerAliveInterval=10 -o ServerAliveCountMax=3 -o ControlMaster=no "
    "-o ClearAllForwardings=yes";

}  // namespace

std::string quoted(const std::string& word) {
  const auto plain = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           std::string_view("-_./:=,@%+").find(c) != std::string_view::npos;
  };
  if (!word.empty() && std::ranges::all_of(word, plain)) return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

Remote::Remote(const Ssh& ssh, const JobHost& host, const std::string& command, int input) {
  Pipe pipe;
  if (input < 0) pipe = make_pipe();
  const std::string line = fmt::format("exec {} {} -- \"$1\" \"$2\"", ssh.command, ssh_options);
  const std::vector<std::string> arguments{"sh", "-c", line, "sh", host.name, command};
  process_ = spawn("/bin/sh", arguments, with_inherited({}), input < 0 ? pipe.read.get() : input);
  in_ = std::move(pipe.write);
  if (in_.open()) fcntl(in_.get(), F_SETFL, O_NONBLOCK);
  out_.emplace(process_.out.get());
}

Remote::~Remote() {
  kill();
  if (!ended_) process_.wait();
}

void Remote::add_to(std::vector<pollfd>& polled) const {
  out_->add_to(polled);
  for (const Descriptor* from : {&process_.end, &process_.err}) {
    if (from->open()) polled.push_back({from->get(), POLLIN, 0});
  }
  if (in_.open() && !waiting_.empty()) polled.push_back({in_.get(), POLLOUT, 0});
}

void Remote::look_after() {
  // Asked before the pipes are read, so that they are read once more after its end.
  const std::optional<int> end = ended_ ? std::nullopt : process_.ended();
  write_waiting();
  out_->read();
  read_available(process_.err, err_);
  if (err_.size() > longest_words) err_.erase(0, err_.size() - longest_words);
  if (end) ended_ = end;
}

std::optional<HostMessage> Remote::receive() { return out_->next(); }

void Remote::send(const HostMessage& message) {
  if (!in_.open()) return;
  waiting_ += to_line(message);
  write_waiting();
}

void Remote::close() { in_.reset(); }

void Remote::kill() {
  if (!ended_) ::kill(process_.pid, SIGKILL);
}

void Remote::write_waiting() {
  while (in_.open() && !waiting_.empty()) {
    const ssize_t written = write(in_.get(), waiting_.data(), waiting_.size());
    if (written < 0 && errno != EAGAIN && errno != EINTR) in_.reset();  // it has ended
    if (written <= 0) return;
    waiting_.erase(0, static_cast<std::size_t>(written));
  }
}

std::string Remote::last_words() const {
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < err_.size();) {
    const std::size_t end = std::min(err_.find_first_of("\r\n", at), err_.size());
    std::string line = err_.substr(at, end - at);
    if (line.starts_with("sotto: ")) line = line.substr(7);
    if (line.ends_with('.')) line.pop_back();
    if (!line.empty()) lines.push_back(std::move(line));
    at = end + 1;
  }
  if (!lines.empty()) return fmt::format("{}", fmt::join(lines, "; "));
  if (!ended_) return "no answer";
  return WIFEXITED(*ended_) ? fmt::format("ssh ended with status {}", WEXITSTATUS(*ended_))
                            : fmt::format("ssh was killed by signal {}", WTERMSIG(*ended_));
}

void wait_for(std::deque<Remote>& remotes, const std::function<bool()>& done) {
  constexpr int longest = 1000;  // milliseconds, since `done` may depend on time
  const auto end = [](const Remote& remote) { return remote.ended().has_value(); };
  while (!done() && !std::ranges::all_of(remotes, end)) {
    std::vector<pollfd> polled;
    for (const Remote& remote : remotes) remote.add_to(polled);
    poll(polled.data(), polled.size(), longest);
    for (Remote& remote : remotes) remote.look_after();
  }
}

std::string share_command(const Ssh& ssh) { return "exec " + quoted(ssh.program) + " hosts serve"; }

}  // namespace sotto
