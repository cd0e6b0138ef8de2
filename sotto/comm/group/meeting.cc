#include "sotto/comm/group/meeting.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <csignal>
#include <tuple>

namespace sotto {
namespace {

// Of those that end a rank. glibc itself knows such names from 2.32 on, and this runs with 2.28.
std::string name_of(int signal) {
  switch (signal) {
    case SIGINT: return "SIGINT";
    case SIGTERM: return "SIGTERM";
    case SIGUSR1: return "SIGUSR1";
    default: return fmt::format("signal {}", signal);
  }
}

using namespace std::chrono_literals;

// The keys of a meeting, beneath its name.
constexpr const char* ranks_key = "ranks";  // "4 2": rank 2 came first and expects 4 ranks
constexpr const char* transport_key = "transport";
constexpr const char* arrived_key = "arrived";  // how many ranks have come
constexpr const char* settled_key = "settled";  // how many ranks wanted to write the outcome; the first one wrote it
constexpr const char* outcome_key = "outcome";  // "met", or "failed"
constexpr const char* missed_key = "missed";    // reports of those who waited in vain, for ranks that come later
constexpr const char* failed_key = "failed";    // who failed last; "failed/2" is "1 ERROR", of rank 2 because of rank 1

std::string key(std::string_view what, int rank) { return fmt::format("{}/{}", what, rank); }

// For an answer of the store. A rank that gave up the store before it left a note would be in another meeting than the
// others, and both would wait.
constexpr auto grace = 10s;

double seconds(std::chrono::milliseconds time) { return std::chrono::duration<double>(time).count(); }

// Parses "NUMBER TEXT" or "NUMBER", as ranks write them. Returns nothing if there is no number, since others may write
// into a store, too.
std::optional<std::pair<int, std::string>> read_numbered(const std::string& text) {
  int number = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (status != std::errc()) return std::nullopt;
  const std::string_view rest(end, static_cast<std::size_t>(text.data() + text.size() - end));
  return std::pair(number, std::string(rest.substr(std::min<std::size_t>(1, rest.size()))));
}

std::optional<std::pair<int, std::string>> read_numbered(Store& store, const std::string& key) {
  return read_numbered(visible(store.get(key)));
}

// "rank 2 gave up: ERROR", of the rank that failed last; nothing if none has failed.
std::optional<std::string> failure_beneath(Store& store, const std::string& prefix) {
  if (!store.check(prefix + failed_key)) return std::nullopt;
  const int who = read_numbered(store, prefix + failed_key).value_or(std::pair(-1, std::string())).first;
  const auto said = read_numbered(store, prefix + key(failed_key, who));
  return fmt::format("rank {} gave up: {}", who, said ? said->second : "(unreadable)");
}

bool appears(Store& store, const std::string& key, Clock::time_point end) {
  for (Patience patience(50ms); !store.check(key); patience.pause(end)) {
    if (Clock::now() >= end) return false;
  }
  return true;
}

}  // namespace

std::string this_process() {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  return fmt::format("{} (process {})", host.data(), ::getpid());
}

Meeting::Meeting(const World& world, std::string_view transport, std::chrono::milliseconds deadline, const Stop& stop)
    : rank_(world.rank),
      size_(world.size),
      transport_(transport),
      owned_(world.size > 1),
      place_(fmt::format("{}:{}", world.host, world.port)),
      prefix_(world.prefix) {
  if (size_ == 1) {
    store_ = std::make_shared<BoundedStore>(make_memory_store(), place_, deadline);
    return;
  }
  const auto end = Clock::now() + deadline;
  try {
    open(world, deadline, stop);
    meet(end, deadline, stop);
  } catch (const Stopped& stopped) {
    const std::string error =
        fmt::format("rank {}: stopped by {} while the ranks met at {}", rank_, name_of(stopped.signal()), place_);
    if (store_ && has_met(error)) return;  // the others count on this rank, and may stop with it
    leave();
    throw Stopped(error, stopped.signal());
  } catch (...) {
    leave();  // a store that this rank serves must deliver the reason before it closes
    throw;
  }
}

Meeting::Meeting(const StorePtr& store, std::chrono::milliseconds limit, int rank, int size, std::string_view transport)
    : rank_(rank),
      size_(size),
      transport_(transport),
      owned_(false),
      place_("the process group's store"),
      prefix_("sotto") {
  store_ = std::make_shared<BoundedStore>(store, place_, limit);
  try {
    join_next();
  } catch (const std::exception&) {
    throw CommError(fmt::format("rank {}: {} does not answer; has the rank that serves it ended?", rank_, place_));
  }
}

// Ranks that waited in vain left a note in the meeting; if they try again, they come to the next one. This rank goes
// there, too, whether it is late or never tried to come.
void Meeting::join_next() {
  const std::string all = prefix_;
  for (;;) {
    prefix_ = all + "/" + next_name("meeting");
    const StorePtr store = until(Clock::time_point::max());
    if (!store->check(missed_key)) return;
    missed_ = visible(store->get(missed_key));
    prefix_ = all;
  }
}

void Meeting::open(const World& world, std::chrono::milliseconds deadline, const Stop& stop) {
  const auto use = [&](StorePtr store) {
    store_ = std::make_shared<BoundedStore>(std::move(store), "the ranks' meeting place at " + place_, deadline);
  };
  const StoreService& stores = world.store_service();
  if (!world.host_store) return use(stores.join(world.host, world.port, deadline, stop));
  try {
    use(stores.serve(world.host, world.port, deadline, stop).store);
    serves_ = true;
  } catch (const PortInUse&) {
    // If a rank with the same number has the port, the error must say so; otherwise another program has it.
    bool twice = false;
    try {
      use(stores.join(world.host, world.port, std::min<std::chrono::milliseconds>(deadline, 2s), stop));
      twice = appears(*until(Clock::now() + 3s, stop), key("came", rank_), Clock::now() + 2s);
    } catch (const Stopped&) {
      throw;
    } catch (const std::exception&) {  // another program
    }
    if (!twice) throw;
  }
}

StorePtr Meeting::until(Clock::time_point end, const Stop& stop) const {
  return part_of(store_->until(end, stop), prefix_);
}

void Meeting::meet(Clock::time_point end, std::chrono::milliseconds deadline, const Stop& stop) {
  try {
    const auto all = store_->until(end + grace, stop);  // a request made just before `end` is still answered
    const StorePtr store = part_of(all, prefix_);
    arrive(*store);
    for (Patience patience(100ms); !store->check(outcome_key); patience.pause(end)) {
      throw_if_stopped(stop);
      if (const auto why = all->why_no_progress()) throw CommError(fmt::format("rank {}: {}", rank_, *why));
      if (Clock::now() < end) continue;
      const StorePtr late = until(Clock::now() + grace);
      if (late->check(outcome_key)) break;
      const std::string error = fmt::format(
          "rank {}: {} did not come within {:g} s at {}{}", rank_, missing(*late), seconds(deadline), place_,
          missed_.empty() ? "" : fmt::format(" (this rank missed an earlier meeting: {})", missed_));
      late->set(missed_key, error);
      refuse(*late, error);
    }
    if (visible(store->get(outcome_key)) == "met") return;
    throw CommError(fmt::format("rank {}: {}", rank_, failure_beneath(*store, "").value_or("another rank gave up")));
  } catch (const MissingKey&) {
    throw CommError(fmt::format("rank {}: another rank gave up at {}, and has not said why", rank_, place_));
  }
}

// Registers this rank, unless it should not be here.
void Meeting::arrive(Store& store) {
  const auto first = read_numbered(visible(store.compare_set(ranks_key, {}, fmt::format("{} {}", size_, rank_))));
  if (!first || first->first != size_) {
    refuse(store, fmt::format("rank {} was started as one of {} ranks, and rank {} as one of {}, at {}", rank_, size_,
                              first ? first->second : "?", first ? first->first : 0, place_));
  }
  const std::string theirs = visible(store.compare_set(transport_key, {}, transport_));
  if (theirs != transport_) {
    refuse(store, fmt::format("rank {} uses {}, and another rank {}; all ranks need the same transport", rank_,
                              transport_, theirs));
  }
  if (store.add(key("came", rank_), 1) > 1) {
    const bool known = appears(store, key("here", rank_), Clock::now() + 1s);
    const std::string other = known ? visible(store.get(key("here", rank_))) : "?";
    const std::string twice =
        other == this_process() ? "has connected before in this process; clone() of that communicator makes another one"
                                : fmt::format("was started twice, as {} and as {}", other, this_process());
    refuse(store, fmt::format("rank {} {}", rank_, twice));
  }
  store.set(key("here", rank_), this_process());
  if (store.add(arrived_key, 1) == size_ && store.add(settled_key, 1) == 1) store.set(outcome_key, "met");
}

// Whether all ranks met before this one was stopped. If not, they never will in this meeting, and are told `error`.
bool Meeting::has_met(const std::string& error) {
  try {
    const StorePtr store = until(Clock::now() + 3s);
    const bool first = store->add(settled_key, 1) == 1;
    if (!first && visible(store->get(outcome_key)) == "met") return true;
    tell(*store, rank_, error);
    if (first) store->set(outcome_key, "failed");
  } catch (const std::exception&) {  // the store is gone; treated as no answer
  }
  return false;
}

// Ends the wait of ranks that come or wait; ranks that have already met are not affected.
void Meeting::refuse(Store& store, const std::string& error) {
  if (!store.check(outcome_key)) tell(store, rank_, error);
  throw CommError(error);
}

void Meeting::tell(Store& store, int peer, const std::string& error) {
  store.set(key(failed_key, rank_), fmt::format("{} {}", peer, error));
  store.set(failed_key, std::to_string(rank_));
  if (store.add(settled_key, 1) == 1) store.set(outcome_key, "failed");
}

// The rank that comes last must not write that all have met, so this writes the outcome before it can.
void Meeting::end_for(StoreServer& store, const std::string& prefix, int rank, const std::string& error) {
  const auto set = [&](const std::string& name, const std::string& value) { store.set(prefix + "/" + name, value); };
  set(key(failed_key, rank), fmt::format("{} {}", rank, error));
  set(failed_key, std::to_string(rank));
  set(settled_key, "1");
  set(outcome_key, "failed");
}

std::vector<int> Meeting::closed(StoreServer& store, const std::string& prefix, std::size_t size) {
  std::vector<int> closed, spoke;
  for (int rank = 0; rank < static_cast<int>(size); ++rank) {
    const auto said = read_numbered(store.find(prefix + "/" + key(failed_key, rank)).value_or(""));
    if (!said) continue;
    spoke.push_back(rank);
    if (said->first != rank && said->second.ends_with(peer_ended)) closed.push_back(said->first);
  }
  std::erase_if(closed, [&](int rank) { return std::ranges::binary_search(spoke, rank); });
  return closed;
}

// "rank 3", or "ranks 2, 3"
std::string Meeting::missing(Store& store) const {
  std::vector<int> ranks;
  for (int rank = 0; rank < size_; ++rank) {
    if (!store.check(key("here", rank))) ranks.push_back(rank);
  }
  return fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", fmt::join(ranks, ", "));
}

Meeting::~Meeting() { leave(); }

void Meeting::leave() {
  if (!owned_ || !store_) return;
  try {
    const auto end = Clock::now() + 2s;
    const StorePtr store = until(end + 500ms);
    store->add("gone", 1);
    for (Patience patience(50ms); serves_ && store->add("gone", 0) < size_ && Clock::now() < end;) patience.pause(end);
  } catch (const std::exception&) {  // the store is gone; treated as no answer
  }
}

StorePtr Meeting::section(const std::string& name) const {
  auto watched = store_->unless([all = prefix_ + "/"](Store& store) { return failure_beneath(store, all); });
  return part_of(std::move(watched), prefix_ + "/" + name);
}

std::string Meeting::next_name(const std::string& name) {
  const std::string counter = key("names/" + name, rank_);  // no key of the section `name`
  return fmt::format("{}.{}", name, until(Clock::time_point::max())->add(counter, 1) - 1);
}

std::string Meeting::report(int peer, const std::string& error) {
  std::string cause;
  try {
    const StorePtr store = until(Clock::now() + 3s);
    if (peer < 0) {
      const bool known = appears(*store, failed_key, Clock::now() + 500ms);
      peer = known ? read_numbered(*store, failed_key).value_or(std::pair(rank_, std::string())).first : rank_;
    }
    tell(*store, peer, error);
    int next = peer;
    for (int hop = 0; hop < size_ && next != rank_; ++hop) {
      if (!appears(*store, key(failed_key, next), Clock::now() + 500ms)) break;
      const auto said = read_numbered(*store, key(failed_key, next));
      if (!said) break;
      std::tie(next, cause) = *said;
    }
  } catch (const std::exception&) {  // the store is gone; treated as no answer
  }
  return cause;
}

std::optional<std::string> Meeting::failure_of(int rank, Clock::time_point end) const {
  const StorePtr store = until(end);
  if (!store->check(key(failed_key, rank))) return std::nullopt;
  const auto said = read_numbered(*store, key(failed_key, rank));
  return said ? said->second : "(unreadable)";
}

std::string reason_with(const std::string& reason, const std::string& cause) {
  if (cause.empty() || reason.ends_with(cause)) return reason;
  return fmt::format("{} (because of {})", reason == peer_ended ? "it gave up" : reason, cause);
}

}  // namespace sotto
