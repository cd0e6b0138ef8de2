#include "app/launch/coordinator.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <sstream>
#include <utility>

#include "sotto/comm/group/tcp_store.h"
#include "sotto/core/error.h"
#include "sotto/core/file.h"

namespace sotto {
namespace {

using namespace std::chrono_literals;

constexpr auto settle = 1s;                                  // after a rank has come, for others that come with it
constexpr auto silence = 30s;                                // of a rank that is lost
constexpr auto brief_silence = 3s;                           // the same while the group changes and others wait
constexpr auto cut_silence = 1s;                             // the same, if others say that its connections were closed
constexpr auto return_silence = 10s;                         // the same, of members from before a restart
constexpr auto lingering = 2s;                               // for ranks that come while the job ends
constexpr auto between_doubts = 1s, doubts_at_once = 4s;     // a line a second, but for the first ones
constexpr std::string_view heading = "sotto coordinator 2";  // of the file of its state
constexpr std::string_view no_secret = "none";               // in that file

// The store gives out an id before this coordinator hears of it. Since no two ranks may share an id, a later
// coordinator skips this many ids after the last one that it knows of.
constexpr int spare_ids = 100;

// Anybody who reaches the store can give out ids by the million. These limits hold for ids whose ranks have not spoken
// yet, and for ranks, including those that wait.
int most_at_once(std::size_t ranks) { return std::max(1000, static_cast<int>(ranks)); }
std::size_t most_there(std::size_t ranks) { return 2 * ranks + 100; }

struct State {
  std::uint64_t generation = 0;
  int next_id = 0;
  std::optional<std::string> key;
  std::vector<int> members, waiting;
};

// The numbers of the next line.
template <class Number>
std::vector<Number> read_numbers(std::istream& lines) {
  std::string line;
  std::getline(lines, line);
  std::istringstream words(line);
  std::vector<Number> numbers;
  for (Number number = 0; words >> number;) numbers.push_back(number);
  if (!words.eof()) lines.setstate(std::ios::failbit);
  return numbers;
}

// The file has five lines: a heading; the newest generation and the next free id; the public key of the ranks' secret,
// `none` if they have none, or nothing if no rank has come; the ids of members; the ids of ranks that wait.
State read_state(const std::string& path) {
  State state;
  if (path.empty() || !path_exists(path)) return state;
  std::istringstream lines(read_text(path));
  std::string first;
  std::getline(lines, first);
  const auto counts = read_numbers<std::uint64_t>(lines);
  std::string key;
  std::getline(lines, key);
  if (!key.empty()) state.key = key == no_secret ? "" : key;
  state.members = read_numbers<int>(lines);
  state.waiting = read_numbers<int>(lines);
  if (first != heading || lines.fail() || counts.size() != 2 || !std::in_range<int>(counts.back()) ||
      !std::ranges::is_sorted(state.members)) {
    throw ConfigError(
        fmt::format("{}: this is not the state of a coordinator; remove it to begin a new job", named("state", path)));
  }
  state.generation = counts[0];
  state.next_id = static_cast<int>(counts[1]);
  return state;
}

std::string lock_of(const std::string& state) { return state + ".lock"; }

// The lock that gives this process the right to use the state file. The state file itself cannot be locked, since each
// new state is written to a new file. On a file system without locks, nobody is refused.
Descriptor lock_state(const std::string& path) {
  if (path.empty()) return {};
  const std::string name = lock_of(path);
  for (;;) {
    Descriptor file(open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
    if (!file.open()) throw FileError(name + ": " + std::strerror(errno));
    if (flock(file.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
      throw ConfigError(fmt::format("{}: another coordinator works with this file; end it first, or name another file",
                                    named("state", path)));
    }
    struct stat about {};
    if (fstat(file.get(), &about) != 0 || about.st_nlink > 0) return file;  // else its holder has just ended its job
  }
}

}  // namespace

Coordinator::Coordinator(CoordinatorSpec spec, Console& console)
    : spec_(std::move(spec)),
      console_(console),
      lock_(lock_state(spec_.state)),
      store_(TcpStores(spec_.secret), spec_.place.host, spec_.place.port),
      generations_(spec_.least, spec_.most),
      job_(new_job_name()) {
  const State state = read_state(spec_.state);
  generations_ = Generations(spec_.least, spec_.most, state.generation, state.members, spec_.on_failure);
  next_id_ = state.next_id;
  key_ = spec_.secret ? public_key_of(*spec_.secret) : state.key;
  if (state.key && state.key != key_) {
    throw ConfigError(fmt::format("{}: the ranks of the job of {} have {}", named("secret"),
                                  named("state", spec_.state), state.key->empty() ? "none" : "another one"));
  }
  for (const int id : state.members) lives_[id] = {.beat = "", .was_member = true};
  returning_ = {state.waiting.begin(), state.waiting.end()};
  if (!spec_.state.empty()) save();  // so that a file that cannot be written is an error at once
  if (state.generation > 0) roster_.announce(generations_);
  for (const int id : state.members) roster_.admit(id);  // some may not have entered their generation yet
  for (const int id : returning_) roster_.admit(id);
  roster_.give_out(next_id_);
  roster_.open({.least = spec_.least, .most = spec_.most}, job_);
  last_came_ = Clock::now();
}

bool Coordinator::look_after() {
  take_in();
  take_back();
  roster_.hear(generations_);
  listen();
  if (closed_) return is_awaited();
  change();
  if (generations_.over() || !error_.empty()) {
    close();
  } else if (is_unsaved_) {
    try_to_save();
  }
  return true;
}

void Coordinator::close() {
  closed_ = Clock::now();
  roster_.close(error_, !error_.empty() && error_ == generations_.no_progress());
  if (spec_.state.empty()) return;
  std::remove(spec_.state.c_str());  // no later coordinator should wait for these ranks
  std::remove(lock_of(spec_.state).c_str());
}

// Whether some rank may not have heard yet that the job has ended. It would wait long for another coordinator.
bool Coordinator::is_awaited() {
  const auto waited = Clock::now() - *closed_;
  if (waited < lingering) return true;
  const std::vector<int> there = generations_.there();
  if (there.empty() || waited > spec_.patience) return false;
  if (!std::exchange(says_who_is_awaited_, true)) {
    console_.line(stderr, fmt::format("sotto: the job has ended; waiting for {} {} to hear of it",
                                      there.size() == 1 ? "rank" : "ranks", fmt::join(there, ", ")));
  }
  return true;
}

double Coordinator::silent_seconds(int id) const {
  const auto life = lives_.find(id);
  return life == lives_.end() ? 0 : std::chrono::duration<double>(Clock::now() - life->second.heard).count();
}

// Admits ranks that have applied.
void Coordinator::take_in() {
  give_out_ids();
  const bool is_open = generations_.number() == 0 && generations_.there().empty() && returning_.empty();
  if (is_open && !spec_.secret) key_.reset();  // the next rank says which secret the others must have
  std::vector<int> admitted;
  for (auto at = applying_.begin(); at != applying_.end();) {
    const auto [id, since] = *at;
    const bool is_full = generations_.there().size() + admitted.size() >= most_there(spec_.most);
    const auto text = is_full ? std::nullopt : roster_.application(id);
    if (!text && Clock::now() - since < silence) {
      ++at;
      continue;
    }
    at = applying_.erase(at);
    if (text && is_good(id, read_application(*text, job_, id))) admitted.push_back(id);
  }
  if (admitted.empty()) return;
  for (const int id : admitted) {
    console_.line(stderr, fmt::format("sotto: rank {} has come", id));
    lives_[id] = {};
    generations_.come(id);
  }
  last_came_ = Clock::now();
  try_to_save();  // before any of them counts on it
  for (const int id : admitted) roster_.admit(id);
}

void Coordinator::give_out_ids() {
  const int most = most_at_once(spec_.most);
  const auto next = roster_.next_id(next_id_, next_id_ + most - static_cast<int>(applying_.size()));
  if (next) {
    for (; next_id_ < *next; ++next_id_) applying_[next_id_] = Clock::now();
  } else if (may_doubt()) {
    next_id_ += most;  // a rank may just have taken one of these
    if (next_id_ > World::most_ids)
      throw CommError("there are no more ids for ranks, as others write to the port of this job");
    roster_.give_out(next_id_);
    doubt(fmt::format("somebody who is no rank has given out ids of ranks; they continue from {}", next_id_));
  }
}

// Whether this rank may have a place. Otherwise it is told why not.
bool Coordinator::is_good(int id, const std::optional<Application>& application) {
  const auto why = [&]() -> std::string {
    if (!application) return "what it says of its secret is not signed with that secret";
    if (!key_ || application->key == *key_) return "";
    if (application->key.empty()) return "it has no secret, and the ranks of this job have one: give it the same";
    if (key_->empty()) return "it has a secret, and the ranks of this job have none: leave it out";
    return "its secret differs from the secret of this job's ranks: give it the same";
  }();
  if (why.empty()) {
    key_ = application->key;
    return true;
  }
  roster_.turn_away(id, fmt::format("rank {} is refused: {}", id, why));
  doubt(fmt::format("rank {}{} is refused: {}", id, application ? ", " + application->from + "," : "", why));
  return false;
}

bool Coordinator::may_doubt() const { return Clock::now() + doubts_at_once >= next_doubt_; }

// One line a second at most, so that strangers do not fill the log.
void Coordinator::doubt(const std::string& what) {
  if (!may_doubt()) {
    ++doubts_;
    return;
  }
  next_doubt_ = std::max(next_doubt_, Clock::now()) + between_doubts;
  const auto more = std::exchange(doubts_, 0);
  console_.line(stderr, fmt::format("sotto: {}{}", what, more > 0 ? fmt::format(" ({} more before it)", more) : ""));
}

// Admits ranks that waited when a former coordinator ended, once a heartbeat of them comes, however late.
void Coordinator::take_back() {
  const std::size_t came = std::erase_if(returning_, [&](int id) {
    if (!roster_.beat(id)) return false;
    generations_.come(id);
    last_came_ = Clock::now();
    return true;
  });
  if (came > 0) try_to_save();
}

// Finds out which ranks live, which have ended, and which are lost.
void Coordinator::listen() {
  const auto now = Clock::now();
  const auto changing = generations_.changing();
  const std::vector<int> cut_off = changing ? roster_.cut_off(generations_) : std::vector<int>();
  const auto longest = [&](int id, const Life& life) {
    if (!changing || closed_) return silence;
    if (life.beat.empty()) return life.was_member ? return_silence : silence;  // it may be starting
    return std::ranges::find(cut_off, id) == cut_off.end() ? brief_silence : cut_silence;
  };
  for (const int id : generations_.there()) {
    Life& life = lives_[id];
    if (auto beat = roster_.beat(id); beat && *beat != life.beat) life = {.beat = std::move(*beat), .heard = now};
    if (const auto words = roster_.farewell(id)) {
      end(id, *words);
    } else if (const auto most = longest(id, life); now - life.heard > most) {
      lose(id, fmt::format("rank {} has been silent for {} s", id, most.count()));
    }
  }
  if (!changing) return;
  for (const int id : generations_.awaited()) {
    if (now - *changing < roster_.patience(id, spec_.patience)) continue;
    lose(id, fmt::format("rank {} does not leave its group", id));
  }
}

void Coordinator::end(int id, const Farewell& farewell) {
  if (farewell.words.empty() || closed_) return generations_.leave(id);
  const std::string name = fmt::format("rank {}", id);
  const bool says_who = farewell.words.starts_with(name + " ") || farewell.words.starts_with(name + ":");
  const std::string why = says_who ? farewell.words : name + " has ended: " + farewell.words;
  if (farewell.failed) return lose(id, why);
  console_.line(stderr, "sotto: " + why);
  generations_.withdraw(id, why);
  roster_.end(generations_, id, why);
  try_to_save();
}

void Coordinator::lose(int id, const std::string& why) {
  console_.line(stderr, "sotto: " + why);
  generations_.lose(id, why);
  roster_.end(generations_, id, why);
  roster_.turn_away(id, why);  // the rank may wait for a place, and live
  try_to_save();
}

void Coordinator::change() {
  const bool settled = Clock::now() - last_came_ >= settle || generations_.there().size() >= spec_.most;
  // Asks also when a member is lost: the others may not have noticed, or that member may still train.
  const bool wants = generations_.changing() || (settled && generations_.wants_change());
  if (wants && asked_ < generations_.number()) {
    roster_.ask_for_change(generations_);
    asked_ = generations_.number();
  }
  if (!settled || !generations_.next()) {
    const bool ends = spec_.on_failure == OnFailure::stop || generations_.there() == generations_.waiting();
    error_ = ends && !generations_.failure().empty() ? generations_.failure() : generations_.no_progress();
    return;
  }
  console_.line(stderr,
                fmt::format("sotto: {}; generation {}: rank{} {}", generations_.reason(), generations_.number(),
                            generations_.members().size() == 1 ? "" : "s", fmt::join(generations_.members(), ", ")));
  try_to_save();  // before any rank acts on it
  roster_.announce(generations_);
}

void Coordinator::try_to_save() {
  try {
    save();
    is_unsaved_ = false;
  } catch (const FileError& error) {
    if (!std::exchange(is_unsaved_, true)) {
      console_.line(stderr, fmt::format("sotto: warning: {}; if this coordinator ends, no other can continue the job",
                                        error.what()));
    }
  }
}

void Coordinator::save() const {
  if (spec_.state.empty() || closed_) return;
  std::vector<int> waiting = generations_.waiting();
  waiting.insert(waiting.end(), returning_.begin(), returning_.end());
  std::ranges::sort(waiting);
  write_file_atomic(spec_.state,
                    fmt::format("{}\n{} {}\n{}\n{}\n{}\n", heading, generations_.number(), next_id_ + spare_ids,
                                key_ && key_->empty() ? no_secret : key_.value_or(""),
                                fmt::join(generations_.members(), " "), fmt::join(waiting, " ")));
}

}  // namespace sotto
