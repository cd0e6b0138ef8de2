#include "app/launch/share.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <system_error>
#include <thread>
#include <utility>

#include "app/launch/launcher.h"
#include "app/launch/spawn.h"
#include "sotto/comm/secret.h"
#include "sotto/comm/world.h"
#include "sotto/core/options.h"
#include "sotto/core/text.h"
#include "sotto/core/timer.h"

namespace sotto {
namespace {

constexpr int protocol = 3;

// An empty file, which is removed with this object.
struct Mark {
  std::string path;
  explicit Mark(std::string name) : path(std::move(name)) {}
  ~Mark() { unlink(path.c_str()); }
  Mark(const Mark&) = delete;
  Mark& operator=(const Mark&) = delete;
};

struct Work {
  LaunchSpec spec{.arguments = {}, .ranks = 1, .master = ""};
  JobShare share;
  std::int64_t hosts = 1;
  bool serves = false;
  Descriptor secret;
  std::optional<Mark> mark;
};

void say(const HostMessage& message) { write_text(stdout, to_line(message)); }

// An anonymous file in memory, which ends with the last process that has it open.
Descriptor secret_file(const std::string& text) {
  Descriptor file(memfd_create("secret", MFD_CLOEXEC));
  if (!file.open() || fchmod(file.get(), S_IRUSR) != 0 ||
      write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    throw Error("there is no memory for a secret");
  }
  return file;
}

void enter(const std::string& folder) {
  std::error_code failed;
  std::filesystem::current_path(folder, failed);
  if (failed) {
    throw ConfigError(fmt::format("the folder {}, from which the job was started, cannot be entered here: {}", folder,
                                  failed.message()));
  }
}

// A word of SSH_CONNECTION, "10.0.0.9 50312 10.0.0.1 22": the client's address and port, then ours. Empty without ssh.
std::string word_of_connection(int number) {
  const char* const connection = std::getenv("SSH_CONNECTION");
  std::istringstream words(connection == nullptr ? "" : connection);
  std::string word;
  for (int i = 0; i <= number; ++i) words >> word;
  return word.substr(0, word.find('%'));
}

// The address at which the launcher's ssh reached this machine: other machines of that network can reach it, too.
std::string meeting_address(std::int64_t hosts) {
  const std::string address = word_of_connection(2);
  if (address.empty() || hosts == 1) return "127.0.0.1:0";
  if (address.starts_with("127.") || address == "::1") {
    throw ConfigError(
        fmt::format("this host, where the ranks meet, was reached at {}, where others cannot come; name it "
                    "in {} as they do, or say where to meet: {}",
                    address, named("hosts"), named("master", "HOST:PORT")));
  }
  return text_of(MeetingPlace{address, 0});
}

void read_order(const HostMessage& message, Work& work) {
  const std::string& text = message.text;
  const auto number = [&] { return parse_int(message.kind, text); };
  if (message.kind == "folder") enter(text);
  if (message.kind == "argument") work.spec.arguments.push_back(text);
  if (message.kind == "first-rank") work.share.first_rank = number();
  if (message.kind == "ranks") work.spec.ranks = number();
  if (message.kind == "all-ranks") work.share.all_ranks = number();
  if (message.kind == "hosts") work.hosts = number();
  if (message.kind == "least-ranks") work.spec.least_ranks = number();
  if (message.kind == "threads") work.spec.threads = number();
  if (message.kind == "secret") {
    work.spec.secret = read_secret_text(text);
    work.secret = secret_file(text);
  }
  if (message.kind == "master") work.spec.master = text;
  if (message.kind == "serve") {
    work.serves = true;
    work.spec.master = text.empty() ? meeting_address(work.hosts) : text;
  }
}

// For `sotto hosts check`.
void answer_look(const std::string& path) {
  std::error_code unknown;
  const bool is_there = std::filesystem::exists(path, unknown);
  say({"seen", fmt::format("{} {}", std::max(1U, std::thread::hardware_concurrency()), is_there ? "yes" : "no")});
}

// For `sotto hosts check`: makes a file of that name. If its folder does not exist yet, the file lies in the nearest
// folder above.
void leave_mark(const std::filesystem::path& path, std::optional<Mark>& mark) {
  std::error_code unknown;
  std::filesystem::path folder = path.parent_path();
  while (folder.has_relative_path() && !std::filesystem::exists(folder, unknown)) folder = folder.parent_path();
  const std::string made = folder / path.filename();
  if (Descriptor(open(made.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR)).open()) {
    mark.emplace(made);
    say({"marked", made});
  } else {
    say({"unmarked", fmt::format("cannot write in {}: {}", folder.string(), std::strerror(errno))});
  }
}

// Reads the job. Returns 0 when it may begin, or the status to end with.
int await(HostMessageReader& orders, Work& work) {
  auto heard = Clock::now();
  for (;;) {
    orders.read();
    while (const auto message = orders.next()) {
      heard = Clock::now();
      if (message->kind == "start") return 0;
      if (message->kind == "stop") return 128 + static_cast<int>(parse_int("stop", message->text, {1, 64}));
      if (message->kind == "look") answer_look(message->text);
      if (message->kind == "mark") leave_mark(message->text, work.mark);
      read_order(*message, work);
    }
    if (orders.ended() || Clock::now() - heard > longest_silence) return 1;
    std::vector<pollfd> polled;
    orders.add_to(polled);
    poll(polled.data(), polled.size(), static_cast<int>(std::chrono::milliseconds(sign_interval).count()));
  }
}

// Whether another user of this host listens at the socket of that name, as far as we can know: any user can take any
// name. Nothing is read from the socket or sent to it.
bool is_of_another(const sockaddr* name, socklen_t size) {
  const Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (connect(socket.get(), name, size) != 0) return false;
  ucred owner{};
  socklen_t length = sizeof owner;
  return getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &owner, &length) == 0 && owner.uid != geteuid();
}

// Waits until the ranks of a former connection from the same launcher have ended; they end when that connection ends or
// is silent. Without this wait a rank could run twice, since the launcher may have given up the first one long before.
// Returns a socket: while it is open, its name keeps later shares waiting. The name is in no file system, and is free
// when this process ends. Returns nothing if the launcher is gone.
Descriptor wait_for_former(HostMessageReader& orders, const Work& work) {
  const std::string name = fmt::format("sotto {} {}", work.spec.master, work.share.first_rank);
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  const std::size_t length = std::min(name.size(), sizeof address.sun_path - 1);
  std::copy_n(name.begin(), length, address.sun_path + 1);
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
  const auto* const wanted = reinterpret_cast<const sockaddr*>(&address);
  Descriptor place(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const auto until = Clock::now() + 2 * longest_silence;
  auto asked = Clock::time_point::min();
  while (bind(place.get(), wanted, size) != 0) {
    if (errno != EADDRINUSE) throw Error(fmt::format("a share cannot get its name: {}", std::strerror(errno)));
    if (Clock::now() >= asked + std::chrono::seconds(1)) {  // each time takes a place in the other's queue
      asked = Clock::now();
      if (is_of_another(wanted, size)) {
        throw Error(
            fmt::format("another user of this host has the socket `@{}`, which this job needs there; end what "
                        "has it, or start the job again, with another port",
                        name));
      }
    }
    if (Clock::now() > until) {
      throw Error(
          fmt::format("ranks of a former connection to this host still run, or another program has the socket "
                      "`@{}`, which this job needs there",
                      name));
    }
    orders.read();
    if (orders.ended()) return {};
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  listen(place.get(), SOMAXCONN);  // so that others can ask whose it is
  return place;
}

int serve(Console& console) {
  HostMessageReader orders(STDIN_FILENO);
  Work work;
  if (const int status = await(orders, work)) return status;
  work.share.orders = &orders;
  work.share.secret = work.secret.get();
  if (work.serves) work.share.serves = [](const std::string& master) { say({"master", master}); };
  work.share.tell = [&](const HostMessage& message) { console.message(message); };
  work.spec.share = &work.share;
  Descriptor place;
  if (work.spec.least_ranks > 0) {
    place = wait_for_former(orders, work);
    if (!place.open()) return 1;
    say({"ready", ""});
  }
  const LaunchResult result = launch(work.spec, console);
  if (!result.error.empty()) console.message({"failed", report_text(result.reason, result.error)});
  return result.status;
}

}  // namespace

std::string greeting(const std::string& version) {
  return to_line({"sotto-share", fmt::format("{}, protocol {}", version, protocol)});
}

int run_share(const std::string& version, const Spelling& spelling) {
  Console console(Console::To::relay);  // ignores SIGPIPE from now on
  write_text(stdout, greeting(version));
  say({"launcher", word_of_connection(0)});
  const auto fail = [](const std::string& error) { say({"failed", report_text(Reason::other, error)}); };
  try {
    return serve(console);
  } catch (const ConfigError& error) {
    fail(error.text(spelling));
    throw;
  } catch (const Error& error) {  // so it is no lost connection
    fail(error.what());
    throw;
  }
}

}  // namespace sotto
