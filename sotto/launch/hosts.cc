#include "sotto/launch/hosts.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <sstream>
#include <string_view>
#include <system_error>

#include "sotto/core/error.h"
#include "sotto/core/file.h"
#include "sotto/core/options.h"

namespace sotto {
namespace {

constexpr std::int64_t most_ranks = 65535;

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
JobHost read_host(const std::string& where, std::string_view word) {
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
  if (rest.empty()) return host;
  if (rest[0] != ':') throw ConfigError(fmt::format("{}: `{}` is no host", where, word));
  host.ranks = read_ranks(where, rest.substr(1));
  return host;
}

JobHost read_line(const std::string& where, const std::string& line) {
  std::istringstream words(line);
  std::string word;
  words >> word;
  JobHost host = read_host(where, word);
  while (words >> word) {
    const std::size_t equals = word.find('=');
    if (equals == std::string::npos) continue;  // another name of the host
    const std::string key = word.substr(0, equals);
    if (key == "slots") {
      host.ranks = read_ranks(where, word.substr(equals + 1));
    } else if (key != "max_slots" && key != "max-slots") {
      throw ConfigError(fmt::format("{}: `{}` is not known here, only slots=N", where, word));
    }
  }
  return host;
}

std::vector<JobHost> read_file_of_hosts(const std::string& path) {
  std::istringstream lines(read_text(path));
  std::vector<JobHost> hosts;
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    line = line.substr(0, line.find('#'));
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    hosts.push_back(read_line(fmt::format("{}: line {}", named("hosts", path), number), line));
  }
  return hosts;
}

std::vector<JobHost> read_list(const std::string& text) {
  std::vector<JobHost> hosts;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    hosts.push_back(read_host(named("hosts", text), std::string_view(text).substr(at, end - at)));
    at = end + 1;
  }
  return hosts;
}

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
  for (auto host = hosts.begin(); host != hosts.end(); ++host) {
    const auto is_same = [&](const JobHost& other) { return other.name == host->name; };
    if (std::find_if(host + 1, hosts.end(), is_same) != hosts.end()) {
      throw ConfigError(fmt::format("{}: {} stands there twice", named("hosts", text), host->name));
    }
  }
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

}  // namespace sotto
