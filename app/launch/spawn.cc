#include "app/launch/spawn.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "sotto/core/error.h"

namespace sotto {
namespace {

constexpr int unknown_end = W_EXITCODE(1, 0);  // of a process whose status somebody else took

[[noreturn]] void fail(const char* what) {
  throw Error(fmt::format("cannot start a process: {}: {}", what, std::strerror(errno)));
}

// Duplicates a descriptor to a number above the child's descriptors.
Descriptor high(int fd, const char* what) {
  Descriptor copy(fcntl(fd, F_DUPFD_CLOEXEC, first_free_descriptor));
  if (!copy.open()) fail(what);
  return copy;
}

std::vector<char*> pointers(std::span<const std::string> texts) {
  std::vector<char*> pointers;
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

pid_t execute(const std::string& program, std::span<const std::string> arguments,
              std::span<const std::string> environment, std::span<const int, 4> descriptors) {
  const auto argv = pointers(arguments);
  const auto envp = pointers(environment);
  const pid_t parent = getpid();
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // a handler of ours must not run in the child
  const pid_t pid = fork();
  if (pid == 0) {
    become_child(parent, descriptors);
    execve(program.c_str(), argv.data(), envp.data());
    _exit(127);  // reported as such
  }
  const int error = errno;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  errno = error;
  if (pid < 0) fail("fork");
  return pid;
}

}  // namespace

std::vector<std::string> with_inherited(std::vector<std::string> variables) {
  const auto given = static_cast<std::ptrdiff_t>(variables.size());
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    const std::string_view name = text.substr(0, text.find('=') + 1);
    const auto overrides = [&](const std::string& ours) { return ours.starts_with(name); };
    if (std::none_of(variables.begin(), variables.begin() + given, overrides)) variables.emplace_back(text);
  }
  return variables;
}

Pipe make_pipe() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) fail("pipe");
  Pipe pipe{Descriptor(ends[0]), Descriptor(ends[1])};
  pipe.write = high(pipe.write.get(), "pipe");
  return pipe;
}

void read_available(Descriptor& from, std::string& text) {
  std::array<char, 1 << 14> buffer;
  while (from.open()) {
    const ssize_t got = read(from.get(), buffer.data(), buffer.size());
    if (got == 0) from.reset();
    if (got <= 0) return;
    text.append(buffer.data(), static_cast<std::size_t>(got));
  }
}

std::optional<int> Process::ended() {
  int status = 0;
  const pid_t found = TEMP_FAILURE_RETRY(waitpid(pid, &status, WNOHANG));
  if (found == 0) return std::nullopt;
  end.reset();
  return found == pid ? status : unknown_end;
}

int Process::wait() {
  int status = 0;
  const pid_t found = TEMP_FAILURE_RETRY(waitpid(pid, &status, 0));
  end.reset();
  return found == pid ? status : unknown_end;
}

void Process::add_to(std::vector<pollfd>& polled) const {
  for (const Descriptor* from : {&end, &out, &err, &report}) {
    if (from->open()) polled.push_back({from->get(), POLLIN, 0});
  }
}

void become_child(pid_t parent, std::span<const int, 4> descriptors) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);  // it died before it could take us with it
  struct sigaction action {};
  action.sa_handler = SIG_DFL;
  for (const int number : {SIGINT, SIGTERM, SIGUSR1, SIGCHLD, SIGPIPE}) sigaction(number, &action, nullptr);
  struct sigaction hang_up {};
  sigaction(SIGHUP, nullptr, &hang_up);
  if (hang_up.sa_handler != SIG_IGN) sigaction(SIGHUP, &action, nullptr);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  for (int number = 0; number <= report_descriptor; ++number) {
    if (dup2(descriptors[static_cast<std::size_t>(number)], number) < 0) _exit(127);
  }
  close_range(report_descriptor + 1, ~0U, 0);
}

Process spawn(const std::string& program, std::span<const std::string> arguments,
              std::span<const std::string> environment, int input) {
  Pipe out = make_pipe(), err = make_pipe(), report = make_pipe();
  const Descriptor null(open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!null.open()) fail("/dev/null");
  const Descriptor in = high(input < 0 ? null.get() : input, "stdin");
  const std::array descriptors{in.get(), out.write.get(), err.write.get(), report.write.get()};
  const auto forked = program.empty() ? fork_rank(arguments, environment, descriptors) : std::nullopt;
  const std::string path = program.empty() ? "/proc/self/exe" : program;
  const pid_t pid = forked ? *forked : execute(path, arguments, environment, descriptors);
  for (Pipe* pipe : {&out, &err, &report}) fcntl(pipe->read.get(), F_SETFL, O_NONBLOCK);
  Descriptor end(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  return {pid, std::move(end), std::move(out.read), std::move(err.read), std::move(report.read)};
}

}  // namespace sotto
