#include "app/launch/hosts.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <deque>
#include <random>
#include <utility>

#include "app/cli/commands.h"
#include "app/cli/flags.h"
#include "app/cli/train/ranks.h"
#include "app/launch/console.h"
#include "app/launch/share.h"
#include "app/report/text_table.h"
#include "sotto/core/text.h"
#include "sotto/core/timer.h"

namespace sotto {
namespace {

constexpr std::string_view help =
    "Usage: sotto hosts ACTION HOSTS ...\n"
    "\n"
    "HOSTS is what `sotto train --hosts` takes: a list such as node1:4,me@node2:4, or a file with a host a line.\n"
    "\n"
    "Actions:\n"
    "  check   say which hosts ssh reaches, and whether they have this version of sotto, files, and the same run "
    "folder\n"
    "  push    copy files to the same path on all hosts\n"
    "  serve   what ssh starts on a host for `sotto train`; not for users\n"
    "\n"
    "Example:\n"
    "  sotto hosts check node1:4,node2:4 data/mnist --train-dir /shared/run\n";

std::string absolute(const std::string& path) { return std::filesystem::absolute(path).lexically_normal().string(); }

// What the hosts are asked.
struct Wanted {
  std::vector<std::string> paths;  // must exist on each host
  std::string train_dir;           // a folder that all hosts must share, and can write in; empty: none
  std::string mark;  // the beginning of the name of the file that each host makes in train_dir; its number follows
};

// The questions to one host, and its row of the table.
class HostCheck {
 public:
  HostCheck(Remote& remote, const JobHost& host, const Wanted& wanted, std::size_t number)
      : remote_(remote), host_(host), row_{host.name, std::to_string(host.ranks), "-", "-", "-"} {
    for (const std::string& path : wanted.paths) questions_.push_back({path, "no " + path});
    if (!wanted.train_dir.empty()) own_mark_ = fmt::format("{}-{}", wanted.mark, number);
  }

  // Takes the answers that have come. Returns whether all have come.
  bool done() {
    while (!done_) {
      const std::optional<HostMessage> answer = remote_.receive();
      if (!answer) break;
      if (answer->kind == "sotto-share") greeted(*answer);
      if (answer->kind == "seen") seen(answer->text);
      if (answer->kind == "marked") mark_ = answer->text;
      if (answer->kind == "unmarked") add_problem(answer->text);
      if (answer->kind.ends_with("marked")) own_mark_.clear();
      done_ = done_ || (seen_ == questions_.size() && own_mark_.empty());
    }
    return done_ || remote_.ended();
  }

  // The file that this host has made.
  const std::string& mark() const { return mark_; }
  const JobHost& host() const { return host_; }

  void look(const std::string& path, const std::string& problem) {
    questions_.push_back({path, problem});
    remote_.send({"look", path});
    done_ = false;
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
      for (const Question& question : questions_) remote_.send({"look", question.path});
      if (!own_mark_.empty()) remote_.send({"mark", own_mark_});
    } else {  // another version may not understand our questions
      add_problem("has " + hello.text);
      done_ = true;
    }
  }

  void seen(const std::string& text) {
    row_[3] = text.substr(0, text.find(' '));
    if (seen_ == 0) row_[4] = fmt::format("{:.1f} ms", 1e3 * timer_.seconds());
    if (!text.ends_with(" yes")) add_problem(questions_[seen_].problem);
    ++seen_;
  }

  void add_problem(const std::string& text) { problems_ += (problems_.empty() ? "" : "; ") + text; }

  struct Question {
    std::string path, problem;  // `problem`: the text if the path does not exist
  };

  Remote& remote_;
  const JobHost& host_;
  std::vector<Question> questions_;
  std::string own_mark_;  // the mark that the host is to make; empty: it has answered, or there is none
  std::string mark_;
  std::vector<std::string> row_;
  std::string problems_;
  Timer timer_;           // since the first question
  std::size_t seen_ = 0;  // answers to questions
  bool done_ = false;
};

// Lets the other hosts look for the mark of the first host that has made one.
void compare_folders(std::deque<HostCheck>& checks, const std::string& train_dir) {
  const auto has_mark = [](const HostCheck& check) { return !check.mark().empty(); };
  const auto first = std::ranges::find_if(checks, has_mark);
  for (auto other = first; other != checks.end(); ++other) {
    if (other != first && has_mark(*other)) {
      other->look(first->mark(), fmt::format("{} is another folder than on {}; all ranks must share it", train_dir,
                                             first->host().name));
    }
  }
}

// Asks all hosts at the same time. Returns the rows of the table.
std::vector<std::vector<std::string>> ask(const Ssh& ssh, const std::vector<JobHost>& hosts, const Wanted& wanted) {
  constexpr double longest = 60, farewell = 5;  // seconds
  std::deque<Remote> remotes;
  std::deque<HostCheck> checks;
  for (const JobHost& host : hosts) {
    checks.emplace_back(remotes.emplace_back(ssh, host, share_command(ssh)), host, wanted, checks.size());
  }
  const auto done = [&] {
    bool all = true;
    for (HostCheck& check : checks) all = check.done() && all;
    return all;
  };
  const Timer start;
  const auto take_answers = [&] {
    wait_for(remotes, [&] { return done() || start.seconds() > longest; });
    done();  // takes answers that came just before a host ended
  };
  take_answers();
  if (!wanted.train_dir.empty()) {
    compare_folders(checks, wanted.train_dir);
    take_answers();
    for (Remote& remote : remotes) remote.close();  // the host then removes its mark
    const Timer end;
    wait_for(remotes, [&] { return end.seconds() > farewell; });
  }
  std::vector<std::vector<std::string>> rows;
  rows.reserve(checks.size());
  for (HostCheck& check : checks) rows.push_back(check.row());
  return rows;
}

int check(std::span<const std::string> arguments) {
  std::string hosts, train_dir;
  std::vector<std::string> paths;
  SshFlags reached;
  Flags flags(
      "hosts check", "Checks that these hosts can train together. Exit status 1 if anything is missing.",
      "This folder must be on all hosts; so must the files that are named. Their contents are not compared. In\n"
      "--train-dir, or the folder above that is there, each host makes an empty file for the others to find, and\n"
      "removes it.\n"
      "\nExample:\n  sotto hosts check node1:4,node2:4 data/mnist --train-dir /shared/run");
  flags.add_positional("hosts", hosts, "a list, or a file with a host a line", true);
  flags.add_positionals("paths", paths, "files or folders that must be there, too", false);
  const Flags::Visit visit = [&](OptionVisitor& v) {
    v.option("train-dir", train_dir, "a run folder; check that all hosts see the same one, and may write in it");
    reached.visit(v);
  };
  if (!flags.read(arguments, visit)) return 0;
  flags.refuse_empty({"train-dir"});
  paths.insert(paths.begin(), ".");
  for (std::string& path : paths) path = absolute(path);
  Wanted wanted{.paths = paths, .train_dir = {}, .mark = {}};
  if (!train_dir.empty()) {
    wanted.train_dir = absolute(train_dir);
    wanted.mark = fmt::format("{}/.sotto-check-{:08x}", wanted.train_dir, std::random_device()());
  }

  const std::vector<JobHost> list = read_hosts(hosts);
  Console console;
  TextTable table({"host", "ranks", "sotto", "cores", "latency", "problem"});
  table.left(5);
  bool good = true;
  for (std::vector<std::string>& row : ask(reached.read(), list, wanted)) {
    good = good && row.back().empty();
    table.add(std::move(row));
  }
  fmt::print("{}", table.plain());
  if (wanted.train_dir.empty() && list.size() > 1) {
    fmt::print("not checked: whether the hosts share the run folder; name it: --train-dir\n");
  }
  return good ? 0 : 1;
}

// The command writes another file and renames it, so a file that is cut short on its way never has the name.
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
    const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));  // for each host: it has a position
    struct stat about {};
    refuse(!file.open() || fstat(file.get(), &about) != 0 || !S_ISREG(about.st_mode),
           "hosts push: {} is no file that can be read", path);
    copies.emplace_back(ssh, host, push_command(path, about), file.get());
  }
  wait_for(copies, [] { return false; });
  bool good = true;
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    if (copies[i].ended() == 0) continue;
    good = false;
    print_error(fmt::format("sotto: {}: {} was not copied: {}\n", hosts[i].name, path, copies[i].last_words()));
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

int serve(std::span<const std::string> /*arguments*/) { return run_share(version_text(), flag_spelling); }

constexpr std::array<Command, 3> actions{{{"check", "", check}, {"push", "", push}, {"serve", "", serve}}};

}  // namespace

int run_hosts(std::span<const std::string> arguments) { return run_action("hosts", actions, help, arguments); }

}  // namespace sotto
