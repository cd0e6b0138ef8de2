#include "sotto/launch/hosts.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <deque>
#include <filesystem>
#include <optional>
#include <utility>

#include "sotto/cli/commands.h"
#include "sotto/cli/flags.h"
#include "sotto/cli/ssh_flags.h"
#include "sotto/core/error.h"
#include "sotto/core/timer.h"
#include "sotto/launch/console.h"
#include "sotto/launch/share.h"
#include "sotto/report/text_table.h"

namespace sotto {
namespace {

constexpr std::string_view help =
    "Usage: sotto hosts ACTION HOSTS ...\n"
    "\n"
    "HOSTS is what `sotto train --hosts` takes: a list such as node1:4,me@node2:4, or a file with a host a line.\n"
    "\n"
    "Actions:\n"
    "  check   say which hosts ssh reaches, and whether they have this version of sotto, and files\n"
    "  push    copy files to the same path on all hosts\n"
    "  serve   what ssh starts on a host; it talks to `sotto train` alone\n"
    "\n"
    "Example:\n"
    "  sotto hosts check node1:4,node2:4 data/mnist\n";

std::string absolute(const std::string& path) { return std::filesystem::absolute(path).lexically_normal().string(); }

// What one host is asked, and its row of the table. The paths are those that must be there; they are borrowed.
class HostCheck {
 public:
  HostCheck(Remote& remote, const JobHost& host, const std::vector<std::string>& paths)
      : remote_(remote), paths_(paths), row_{host.name, std::to_string(host.ranks), "-", "-", "-"} {}

  // Takes the answers that have come. Returns whether no more are expected.
  bool done() {
    while (!done_) {
      const std::optional<HostMessage> answer = remote_.receive();
      if (!answer) break;
      if (answer->kind == "sotto-share") greeted(*answer);
      if (answer->kind == "seen") seen(answer->text);
      done_ = done_ || seen_ == paths_.size();
    }
    return done_ || remote_.ended();
  }

  // The last cell says what is wrong, if anything.
  std::vector<std::string> row() {
    if (!done_) add_problem(remote_.last_words());
    row_.push_back(problems_);
    return std::move(row_);
  }

 private:
  void greeted(const HostMessage& hello) {
    const bool same = to_line(hello) == greeting(version_text());
    row_[2] = same ? "same" : "other";
    if (same) {
      timer_ = Timer();
      for (const std::string& path : paths_) remote_.send({"look", path});
    } else {  // it need not understand our questions
      add_problem("has " + hello.text);
      done_ = true;
    }
  }

  void seen(const std::string& text) {
    row_[3] = text.substr(0, text.find(' '));
    if (seen_ == 0) row_[4] = fmt::format("{:.1f} ms", 1e3 * timer_.seconds());
    if (!text.ends_with(" yes")) add_problem("no " + paths_[seen_]);
    ++seen_;
  }

  void add_problem(const std::string& text) { problems_ += (problems_.empty() ? "" : "; ") + text; }

  Remote& remote_;
  const std::vector<std::string>& paths_;
  std::vector<std::string> row_;
  std::string problems_;
  Timer timer_;           // since the first question
  std::size_t seen_ = 0;  // answers about paths
  bool done_ = false;
};

// Asks all hosts at the same time. Returns the rows of the table.
std::vector<std::vector<std::string>> ask(const Ssh& ssh, const std::vector<JobHost>& hosts,
                                          const std::vector<std::string>& paths) {
  constexpr double longest = 60;  // seconds
  std::deque<Remote> remotes;
  std::deque<HostCheck> checks;
  for (const JobHost& host : hosts) {
    checks.emplace_back(remotes.emplace_back(ssh, host, share_command(ssh)), host, paths);
  }
  const auto done = [&] {
    bool all = true;
    for (HostCheck& check : checks) all = check.done() && all;
    return all;
  };
  const Timer start;
  wait_for(remotes, [&] { return done() || start.seconds() > longest; });
  done();  // takes the answers that came with their ends
  std::vector<std::vector<std::string>> rows;
  rows.reserve(checks.size());
  for (HostCheck& check : checks) rows.push_back(check.row());
  return rows;
}

int check(std::span<const std::string> arguments) {
  std::string hosts;
  std::vector<std::string> paths;
  SshFlags ssh;
  Flags flags("hosts check", "Says what is missing for a training on these hosts. Exit status 1 if anything is.",
              "This folder must be on all hosts; so must the files that are named.\n"
              "\nExample:\n  sotto hosts check node1:4,node2:4 data/mnist");
  flags.add_positional("hosts", hosts, "a list, or a file with a host a line", true);
  flags.add_positionals("paths", paths, "files or folders that must be there, too", false);
  if (!flags.read(arguments, ssh)) return 0;
  paths.insert(paths.begin(), ".");
  for (std::string& path : paths) path = absolute(path);

  const std::vector<JobHost> list = read_hosts(hosts);
  Console console;
  TextTable table({"host", "ranks", "sotto", "cores", "latency", "problem"});
  table.left(5);
  bool good = true;
  for (std::vector<std::string>& row : ask(ssh.read(), list, paths)) {
    good = good && row.back().empty();
    table.add(std::move(row));
  }
  fmt::print("{}", table.plain());
  return good ? 0 : 1;
}

// A file that is cut short on its way never has its name on the host.
std::string push_command(const std::string& path, const struct stat& about) {
  constexpr std::string_view script =
      "[ ! -d \"$2\" ] || { echo \"a folder has this name there\" >&2; exit 1; }; "
      "mkdir -p \"$1\" && to=$(readlink -f \"$2\") && umask 077 && temporary=$(mktemp \"$to.XXXXXX\") || exit 1; "
      "cat > \"$temporary\" && [ $(wc -c < \"$temporary\") -eq $3 ] && chmod $4 \"$temporary\" && "
      "mv -f \"$temporary\" \"$to\" || { rm -f \"$temporary\"; exit 1; }";
  return fmt::format("exec sh -c {} sh {} {} {} {:o}", quoted(std::string(script)),
                     quoted(std::filesystem::path(path).parent_path().string()), quoted(path), about.st_size,
                     about.st_mode & 0777);
}

// Copies a file to all hosts at once. Returns whether all have it.
bool push_file(const Ssh& ssh, const std::vector<JobHost>& hosts, const std::string& path) {
  std::deque<Remote> copies;
  for (const JobHost& host : hosts) {
    const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));  // each has its own position
    struct stat about {};
    if (!file.open() || fstat(file.get(), &about) != 0 || !S_ISREG(about.st_mode)) {
      throw ConfigError(fmt::format("hosts push: {} is no file that can be read", path));
    }
    copies.emplace_back(ssh, host, push_command(path, about), file.get());
  }
  wait_for(copies, [] { return false; });
  bool good = true;
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    if (copies[i].ended() == 0) continue;
    good = false;
    fmt::print(stderr, "sotto: {}: {} was not copied: {}\n", hosts[i].name, path, copies[i].last_words());
  }
  return good;
}

int push(std::span<const std::string> arguments) {
  std::string hosts;
  std::vector<std::string> paths;
  SshFlags ssh;
  Flags flags("hosts push", "Copies files to the same path on all hosts, each whole or not at all, with its mode.",
              "Example:\n  sotto hosts push node1,node2 build/release/bin/sotto");
  flags.add_positional("hosts", hosts, "a list, or a file with a host a line", true);
  flags.add_positionals("files", paths, "the files");
  if (!flags.read(arguments, ssh)) return 0;
  const std::vector<JobHost> list = read_hosts(hosts);
  Console console;
  bool good = true;
  for (const std::string& path : paths) good = push_file(ssh.read(), list, absolute(path)) && good;
  return good ? 0 : 1;
}

int serve(std::span<const std::string> /*arguments*/) { return run_share(version_text()); }

constexpr std::array<Command, 3> actions{{{"check", "", check}, {"push", "", push}, {"serve", "", serve}}};

}  // namespace

int run_hosts(std::span<const std::string> arguments) { return run_action("hosts", actions, help, arguments); }

}  // namespace sotto
