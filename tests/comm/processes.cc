#include "processes.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <stdexcept>

#include "sotto/core/timer.h"

namespace sotto {
namespace {

// Forks; in the child, runs `body` with the writing end of a pipe and never returns.
std::pair<pid_t, int> start(const std::function<void(int to_parent)>& body) {
  std::array<int, 2> ends{};
  if (::pipe(ends.data()) != 0) throw std::runtime_error("pipe");
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) throw std::runtime_error("fork");
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(1);
    ::close(ends[0]);
    int status = 0;
    try {
      body(ends[1]);
    } catch (const std::exception& error) {
      const std::string_view text = error.what();
      status = ::write(ends[1], text.data(), text.size()) < 0 ? 2 : 1;
    }
    ::_exit(status);
  }
  ::close(ends[1]);
  return {pid, ends[0]};
}

std::string read_all(int from) {
  std::string text;
  std::array<char, 4096> part{};
  for (ssize_t count = 0; (count = ::read(from, part.data(), part.size())) > 0;)
    text.append(part.data(), static_cast<std::size_t>(count));
  ::close(from);
  return text;
}

}  // namespace

std::vector<Ended> run_processes(int ranks, double limit_seconds, const std::function<void(int rank)>& body) {
  const Timer timer;
  std::vector<Ended> all(static_cast<std::size_t>(ranks));
  std::vector<std::pair<pid_t, int>> started;
  for (int rank = 0; rank < ranks; ++rank) started.push_back(start([&](int) { body(rank); }));
  std::size_t left = started.size();
  for (bool killed = false; left > 0; ::usleep(2000)) {
    for (std::size_t i = 0; i < started.size(); ++i) {
      int status = 0;
      if (started[i].first == 0 || ::waitpid(started[i].first, &status, WNOHANG) != started[i].first) continue;
      all[i] = {WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status), read_all(started[i].second),
                timer.seconds()};
      started[i].first = 0;
      --left;
    }
    if (!killed && timer.seconds() > limit_seconds) {
      killed = true;
      for (const auto& [pid, pipe] : started) {
        if (pid != 0) ::kill(pid, SIGKILL);
      }
    }
  }
  return all;
}

ServerProcess::ServerProcess(const std::function<void(const std::function<void(int)>& ready)>& serve) {
  const auto [pid, pipe] = start([&](int to_parent) {
    serve([to_parent](int port) {
      if (::write(to_parent, &port, sizeof(port)) != sizeof(port)) ::_exit(2);
      while (true) ::pause();
    });
  });
  pid_ = pid;
  if (::read(pipe, &port_, sizeof(port_)) != sizeof(port_)) port_ = 0;
  ::close(pipe);
}

ServerProcess::~ServerProcess() {
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

}  // namespace sotto
