#include "app/launch/spawn.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "sotto/core/error.h"

namespace sotto {
namespace {

constexpr std::size_t passed = 5;  // descriptors of a request: a file with the texts, then the rank's

// The server of this process: the connection, and its number; 0: none.
Descriptor server;
pid_t server_pid = 0;

constexpr int longest_silence_ms = 30'000;

// A request: one byte, since none would be the end of the connection, and the descriptors.
struct Request {
  Request() {
    message.msg_iov = &text;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
  }
  Request(const Request&) = delete;

  char byte = 0;
  iovec text{&byte, 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(passed * sizeof(int))> control{};
  msghdr message{};
};

bool send_request(int socket, std::span<const int, passed> descriptors) {
  Request request;
  cmsghdr* const header = CMSG_FIRSTHDR(&request.message);
  *header = {.cmsg_len = CMSG_LEN(descriptors.size_bytes()), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
  std::memcpy(CMSG_DATA(header), descriptors.data(), descriptors.size_bytes());
  return TEMP_FAILURE_RETRY(sendmsg(socket, &request.message, MSG_NOSIGNAL)) == 1;
}

// Nothing: the launcher has gone.
std::optional<std::array<int, passed>> receive_request(int socket) {
  Request request;
  std::array<int, passed> descriptors{};
  if (recvmsg(socket, &request.message, 0) != 1) return std::nullopt;
  const cmsghdr* const header = CMSG_FIRSTHDR(&request.message);
  if (header == nullptr || header->cmsg_len != CMSG_LEN(sizeof descriptors)) return std::nullopt;
  std::memcpy(descriptors.data(), CMSG_DATA(header), sizeof descriptors);
  return descriptors;
}

// The number of arguments, the arguments and the environment, each with a NUL after it.
std::string joined(std::span<const std::string> arguments, std::span<const std::string> environment) {
  std::string all = fmt::format("{}", arguments.size()) + '\0';
  for (const auto& list : {arguments, environment}) {
    for (const std::string& text : list) all += text + '\0';
  }
  return all;
}

std::vector<std::string> texts_in(int file) {
  std::string all(static_cast<std::size_t>(std::max<off_t>(0, lseek(file, 0, SEEK_END))), '\0');
  if (pread(file, all.data(), all.size(), 0) != static_cast<ssize_t>(all.size())) _exit(127);
  std::vector<std::string> texts;
  for (std::size_t begin = 0, end; (end = all.find('\0', begin)) != std::string::npos; begin = end + 1) {
    texts.push_back(all.substr(begin, end - begin));
  }
  return texts;
}

[[noreturn]] void run_rank(ProgramMain run, pid_t launcher, std::span<const int, passed> descriptors) {
  std::vector<std::string> texts = texts_in(descriptors[0]);
  become_child(launcher, descriptors.last<passed - 1>());
  const auto environment = texts.begin() + 1 + std::stol(texts.at(0));
  clearenv();
  for (auto text = environment; text != texts.end(); ++text) {
    const std::size_t name = text->find('=');
    setenv(text->substr(0, name).c_str(), text->c_str() + name + 1, 1);
  }
  std::exit(run({texts.begin() + 2, environment}));  // without the program's name
}

// The rank's parent only forks it and ends; then the rank becomes a child of the launcher.
pid_t fork_once(ProgramMain run, pid_t launcher, std::span<const int, passed> descriptors) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return -errno;
  const Descriptor from(ends[0]);
  Descriptor to(ends[1]);
  const pid_t between = fork();
  if (between < 0) return -errno;
  if (between == 0) {
    const pid_t parent = getpid();
    pid_t rank = fork();
    if (rank == 0) {
      while (getppid() == parent) usleep(100);
      run_rank(run, launcher, descriptors);
    }
    if (rank < 0) rank = -errno;
    _exit(write(to.get(), &rank, sizeof rank) == sizeof rank ? 0 : 1);
  }
  to.reset();
  waitpid(between, nullptr, 0);
  pid_t rank = 0;
  const bool told = read(from.get(), &rank, sizeof rank) == sizeof rank;
  return told ? rank : -EIO;
}

[[noreturn]] void serve(ProgramMain run, pid_t launcher, int socket) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != launcher) _exit(0);
  prctl(PR_SET_NAME, "sotto-forks");
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  dup2(socket, first_free_descriptor);
  socket = first_free_descriptor;
  for (int number = 0; number < socket; ++number) dup2(null, number);  // what arrives gets higher ones
  close_range(static_cast<unsigned>(socket) + 1, ~0U, 0);
  while (const auto descriptors = receive_request(socket)) {
    const pid_t rank = fork_once(run, launcher, *descriptors);
    for (const int descriptor : *descriptors) close(descriptor);
    if (write(socket, &rank, sizeof rank) != sizeof rank) break;
  }
  _exit(0);
}

// Whether libraries would read in `environment` what ours have read in our environment. OMP_NUM_THREADS may differ,
// since a rank sets the number of its threads itself.
bool is_like_ours(std::span<const std::string> environment) {
  const auto own = [](std::string_view text) {
    return text.starts_with("SOTTO_") || text.starts_with("OMP_NUM_THREADS=");
  };
  std::ptrdiff_t known = 0;  // how many of our variables it has, too
  for (const std::string& text : environment) {
    if (own(text)) continue;
    const std::size_t end = text.find('=');
    const std::string name = text.substr(0, end), value = text.substr(end + 1);
    const char* const ours = std::getenv(name.c_str());
    if (ours == nullptr || value != ours) return false;
    ++known;
  }
  char** end = environ;
  while (*end != nullptr) ++end;
  return known == (end - environ) - std::count_if(environ, end, own);
}

}  // namespace

void start_fork_server(ProgramMain run) {
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) return;
  Descriptor ours(ends[0]), theirs(ends[1]);
  for (Descriptor* end : {&ours, &theirs}) {  // not where a closed stdout would be
    *end = Descriptor(fcntl(end->get(), F_DUPFD_CLOEXEC, first_free_descriptor + 1));
    if (!end->open()) return;
  }
  if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) return;
  const pid_t launcher = getpid();
  const pid_t pid = fork();
  if (pid == 0) {
    ours.reset();
    serve(run, launcher, theirs.get());
  }
  if (pid < 0) return;
  server = std::move(ours);
  server_pid = pid;
}

void stop_fork_server() {
  if (server_pid == 0) return;
  server.reset();
  kill(server_pid, SIGKILL);
  waitpid(std::exchange(server_pid, 0), nullptr, 0);
}

std::optional<pid_t> fork_rank(std::span<const std::string> arguments, std::span<const std::string> environment,
                               std::span<const int, 4> descriptors) {
  if (!server.open() || !is_like_ours(environment)) return std::nullopt;
  const Descriptor file(memfd_create("sotto", MFD_CLOEXEC));
  const std::string texts = joined(arguments, environment);
  const bool written =
      file.open() && write(file.get(), texts.data(), texts.size()) == static_cast<ssize_t>(texts.size());
  if (!written) return std::nullopt;
  const std::array sent{file.get(), descriptors[0], descriptors[1], descriptors[2], descriptors[3]};
  if (!send_request(server.get(), sent)) {
    stop_fork_server();  // somebody killed it
    return std::nullopt;
  }
  pollfd answer{server.get(), POLLIN, 0};
  pid_t rank = 0;
  const bool answered = TEMP_FAILURE_RETRY(poll(&answer, 1, longest_silence_ms)) == 1 &&
                        TEMP_FAILURE_RETRY(read(server.get(), &rank, sizeof rank)) == sizeof rank;
  if (!answered) {  // there may be a rank, which must not be started twice
    stop_fork_server();
    throw Error("cannot start a process: the process that forks ranks does not answer");
  }
  if (rank < 0) return std::nullopt;
  return rank;
}

}  // namespace sotto
