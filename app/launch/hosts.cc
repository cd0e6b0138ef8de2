#include "app/launch/hosts.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <sstream>
#include <system_error>

#include "sotto/core/error.h"
#include "sotto/core/file.h"
#include "sotto/core/options.h"

namespace sotto {
namespace {

constexpr std::int64_t most_ranks = 65535;
constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";  // some programs write it before a text

// Whether the number next to a host counts all ranks of the host, or the ranks of one of its queues.
enum class Counted { nothing, host, queue };
struct SaidHost {
  JobHost host;
  Counted counted = Counted::nothing;
};

std::int64_t read_ranks(const std::string& where, std::string_view text) {
  return parse_int(where + ": the number of ranks", text, {1, most_ranks});
}

// ssh would take a name that begins with a dash for an option.
void require_name(const std::string& where, std::string_view name) {
  const auto fits = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           std::string_view("-._@:%").find(c) != std::string_view::npos;
  };
  const std::string_view host = name.substr(name.rfind('@') + 1);
  if (!host.empty() && host[0] != '-' && name[0] != '-' && name[0] != '@' && std::ranges::all_of(name, fits)) return;
  throw ConfigError(fmt::format("{}: `{}` is no name of a host", where, name));
}

// "node1", "node1:4", "me@[fd00::1]:4", "fd00::1"
SaidHost read_host(const std::string& where, std::string_view word) {
  JobHost host;
  const std::size_t open = word.find('['), close = word.find(']');
  const bool bracketed =
      open != word.npos && close != word.npos && open < close && (open == 0 || word[open - 1] == '@');
  const std::size_t colon = bracketed ? close + 1 : std::min(word.find(':'), word.size());
  const bool is_address = !bracketed && word.find(':', colon + 1) != word.npos;  // its colons begin no number
  std::string_view rest = is_address ? "" : word.substr(colon);
  host.name = bracketed ? fmt::format("{}{}", word.substr(0, open), word.substr(open + 1, close - open - 1))
                        : std::string(is_address ? word : word.substr(0, colon));
  require_name(where, host.name);
  in6_addr unused{};
  if (is_address && inet_pton(AF_INET6, host.name.substr(host.name.rfind('@') + 1).c_str(), &unused) != 1) {
    throw ConfigError(fmt::format("{}: `{}` is no address; say HOST:RANKS, or [fd00::1]:RANKS", where, word));
  }
  if (rest.empty()) return {std::move(host)};
  if (rest[0] != ':') throw ConfigError(fmt::format("{}: `{}` is no host", where, word));
  host.ranks = read_ranks(where, rest.substr(1));
  return {std::move(host), Counted::host};
}

// "slots = 4" as "slots=4"
std::string without_spaces_at_equals(std::string_view line) {
  std::string text;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const std::size_t next = line.find_first_not_of(" \t", i);
    const bool before = next != line.npos && line[next] == '=';
    if (std::isblank(static_cast<unsigned char>(line[i])) != 0 && (before || text.ends_with('='))) continue;
    text += line[i];
  }
  return text;
}

SaidHost read_line(const std::string& where, std::string_view line) {
  std::istringstream words(without_spaces_at_equals(line));
  std::string word;
  words >> word;
  SaidHost said = read_host(where, word);
  for (int place = 2; words >> word; ++place) {
    const std::size_t equals = word.find('=');
    if (place == 2 && word.find_first_not_of("0123456789") == word.npos) {
      said.host.ranks = read_ranks(where, word);
      said.counted = Counted::queue;
    } else if (said.counted == Counted::queue) {  // the queue, and processors
      if (place > 4 || (place == 3 && word.find('@') == word.npos)) {
        throw ConfigError(fmt::format("{}: `{}` is not known here; write one host a line, as {} slots={}", where, word,
                                      said.host.name, said.host.ranks));
      }
    } else if (equals == std::string::npos) {
      continue;  // another name of the host
    } else if (word.starts_with("slots=")) {
      said.host.ranks = read_ranks(where, word.substr(equals + 1));
      said.counted = Counted::host;
    } else if (!word.starts_with("max_slots=") && !word.starts_with("max-slots=")) {
      throw ConfigError(fmt::format("{}: `{}` is not known here, only slots=N", where, word));
    }
  }
  return said;
}

// PBS and Slurm write a host once for each of its ranks, and Grid Engine once for each of its queues.
void add_line(const std::string& where, const SaidHost& said, std::vector<SaidHost>& all) {
  const auto same = std::ranges::find_if(all, [&](const SaidHost& other) { return other.host.name == said.host.name; });
  if (same == all.end()) return all.push_back(said);
  if (same->counted != said.counted || said.counted == Counted::host) {
    throw ConfigError(fmt::format("{}: {} stands there twice; say once how many ranks it has", where, said.host.name));
  }
  same->host.ranks += said.host.ranks;
}

std::vector<JobHost> read_file_of_hosts(const std::string& path) {
  std::string text = read_text(path);
  if (text.starts_with(byte_order_mark)) text.erase(0, byte_order_mark.size());
  std::istringstream file(text);
  std::vector<SaidHost> all;
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    line = line.substr(0, line.find('#'));
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const std::string where = fmt::format("{}: line {}", named("hosts", path), number);
    add_line(where, read_line(where, line), all);
  }
  std::vector<JobHost> hosts;
  for (SaidHost& said : all) hosts.push_back(std::move(said.host));
  return hosts;
}

std::vector<JobHost> read_list(const std::string& text) {
  std::vector<JobHost> hosts;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    JobHost host = read_host(named("hosts", text), std::string_view(text).substr(at, end - at)).host;
    if (std::ranges::find(hosts, host.name, &JobHost::name) != hosts.end()) {
      throw ConfigError(fmt::format("{}: {} stands there twice", named("hosts", text), host.name));
    }
    hosts.push_back(std::move(host));
    at = end + 1;
  }
  return hosts;
}

constexpr std::size_t longest_words = 2000;

// The user's options stand before ours, since ssh takes the first of two. A host that does not answer is an error after
// ten seconds, and a dead connection after thirty. No shared master connection: it would outlive this ssh, which we
// must be able to end.
constexpr std::string_view ssh_options =
    "-T -o BatchMode=yes -o ConnectTimeout=10 -o ServerAliveInterval=10 -o ServerAliveCountMax=3 -o ControlMaster=no "
    "-o ClearAllForwardings=yes";

}  // namespace

std::vector<JobHost> read_hosts(const std::string& text) {
  std::error_code missing;
  const bool is_file = std::filesystem::is_regular_file(text, missing);
  if (!is_file && text.find('/') != std::string::npos) {
    throw ConfigError(named("hosts", text) +
                      (std::filesystem::exists(text, missing) ? ": is no file" : ": there is no such file"));
  }
  std::vector<JobHost> hosts = is_file ? read_file_of_hosts(text) : read_list(text);
  if (hosts.empty()) throw ConfigError(named("hosts", text) + ": the file names no host");
  if (ranks_of(hosts) > most_ranks) {
    throw ConfigError(fmt::format("{}: at most {} ranks make a job", named("hosts", text), most_ranks));
  }
  return hosts;
}

std::int64_t ranks_of(const std::vector<JobHost>& hosts) {
  std::int64_t sum = 0;
  for (const JobHost& host : hosts) sum += host.ranks;
  return sum;
}

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
