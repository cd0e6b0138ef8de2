#include "app/advise/replay.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>

namespace sotto {
namespace {

constexpr double never = std::numeric_limits<double>::infinity();

Clock::duration duration_of(double seconds) {
  return std::chrono::round<Clock::duration>(std::chrono::duration<double>(seconds));
}
Clock::time_point point_of(double seconds) { return Clock::time_point(duration_of(seconds)); }
double seconds_of(Clock::time_point point) { return std::chrono::duration<double>(point.time_since_epoch()).count(); }

// A message on its way: its length, and when it arrives at the receiver.
struct Mail {
  std::size_t bytes = 0;
  Clock::time_point arrives;
};

// Messages between each pair of ranks, in their order.
class Wires {
 public:
  explicit Wires(std::size_t ranks) : ranks_(ranks), mail_(ranks * ranks) {}
  std::deque<Mail>& between(int from, int to) {
    return mail_[static_cast<std::size_t>(from) * ranks_ + static_cast<std::size_t>(to)];
  }

 private:
  std::size_t ranks_;
  std::vector<std::deque<Mail>> mail_;
};

// One rank in virtual time: a thread that computes, and one that exchanges.
class ReplayedRank {
 public:
  ReplayedRank(const ComputeTimes& compute, std::span<const StepTrace> steps, const Links& links, int rank,
               const Speeds& speeds, const HostCost& host, Wires& wires)
      : compute_(compute),
        steps_(steps),
        rank_(rank),
        speeds_(speeds),
        host_(host),
        slowdown_(links.rank(rank).compute),
        delay_(links.rank(rank).delay),
        link_(links, rank, static_cast<int>(steps.front().size())),
        wires_(wires) {
    begin_step();
  }

  bool done() const { return step_ == steps_.size(); }
  // Runs until all steps are done, or a message is needed that no other rank has sent yet. Returns whether anything
  // happened.
  bool advance() {
    bool any = false;
    while (!done()) {
      if (exchanging_ && !arrived_ && !receive()) return any;
      any = true;
      const bool both = computing_ > 0 && working_ > 0;
      const double computes = both ? speeds_.both : speeds_.computing, works = both ? speeds_.both : speeds_.working;
      const double to_compute = computing_ > 0 ? computing_ / computes : never;
      const double to_work = working_ > 0 ? working_ / works : never;
      const double to_arrive = arrived_ ? std::max(0.0, *arrived_ - now_) : never;
      const double next = std::min({to_compute, to_work, to_arrive});
      if (next == never) throw std::logic_error("replay: a rank has nothing to do, and is not done");
      now_ += next;
      if (computing_ > 0) computing_ = to_compute == next ? 0 : computing_ - next * computes;
      if (working_ > 0) working_ = to_work == next ? 0 : working_ - next * works;
      if (to_arrive == next) {
        exchanging_ = false;
        arrived_.reset();
        ++exchange_;
        begin_work();
      } else if (to_work == next) {
        end_work();
      }
      if (to_compute == next) end_computing();
      finish_if_all_is_done();
    }
    return any;
  }

  const std::vector<double>& ends() const { return ends_; }
  const std::vector<double>& waits() const { return waits_; }

 private:
  enum class Phase { backward, waiting, applying };

  const RankTrace& trace() const { return steps_[step_][static_cast<std::size_t>(rank_)]; }
  const Trace& item() const { return item_ == 0 ? trace().agreement : trace().buckets[item_ - 1]; }
  std::size_t items() const { return 1 + trace().buckets.size(); }

  void begin_step() {
    phase_ = Phase::backward;
    posted_ = 1;  // the agreement
    computed_ = 0;
    item_ = exchange_ = 0;
    idle_ = true;
    compute_next();
    start_item();
    finish_if_all_is_done();
  }

  // Begins the next stretch of computing. Stretches of zero seconds end at once, without an event.
  void compute_next() {
    while (phase_ == Phase::backward && computing_ == 0) {
      const bool last = computed_ == compute_.ready.size();
      computing_ = slowdown_ * (last ? compute_.rest : compute_.ready[computed_]) + (computed_ == 0 ? delay_ : 0);
      if (computing_ == 0) end_stretch();
    }
  }
  void end_stretch() {
    if (computed_ == compute_.ready.size()) {
      phase_ = Phase::waiting;
      waits_from_ = now_;
      return;
    }
    ++computed_;
    ++posted_;
    start_item();
  }
  void end_computing() {
    if (phase_ == Phase::applying) return;
    end_stretch();
    compute_next();
  }

  void start_item() {
    if (!idle_ || item_ == items() || item_ >= posted_) return;
    idle_ = false;
    exchange_ = 0;
    begin_work();
  }
  // Begins the work before the next exchange, or the rest after the last one.
  void begin_work() {
    const bool last = exchange_ == item().exchanges.size();
    working_ = last ? item().rest : item().exchanges[exchange_].work;
    if (working_ == 0) end_work();
  }
  void end_work() {
    if (exchange_ < item().exchanges.size()) return send();
    ++item_;
    idle_ = true;
    start_item();
  }

  // Messages leave one after the other, as in the transport below `shaped`.
  void send() {
    begun_ = sent_ = point_of(now_);
    for (const auto& [peer, bytes] : item().exchanges[exchange_].sends) {
      sent_ = std::max(sent_, link_.send(peer, bytes, begun_));
      wires_.between(rank_, peer).push_back({bytes, sent_ + duration_of(host_.of(bytes))});
    }
    exchanging_ = true;
  }
  // Computes when all messages of the exchange have arrived; false if one has not been sent yet.
  bool receive() {
    const auto& receives = item().exchanges[exchange_].receives;
    taken_.clear();
    for (const int peer : receives) {
      const auto before = static_cast<std::size_t>(std::ranges::count(taken_, peer, &Taken::peer));
      const auto& mail = wires_.between(peer, rank_);
      if (mail.size() <= before) return false;
      // A single message is received after this rank has sent its own; if there are several, each has a thread from the
      // beginning.
      taken_.push_back(
          {peer, mail[before].bytes, std::max(mail[before].arrives, receives.size() == 1 ? sent_ : begun_)});
    }
    std::ranges::stable_sort(taken_, {}, &Taken::arrives);
    Clock::time_point end = sent_;
    for (const Taken& taken : taken_) {
      end = std::max(end, link_.receive(taken.peer, taken.bytes, taken.arrives));
      wires_.between(taken.peer, rank_).pop_front();
    }
    arrived_ = seconds_of(end);
    return true;
  }

  void finish_if_all_is_done() {
    if (phase_ == Phase::waiting && idle_ && item_ == items()) {
      waits_.push_back(now_ - waits_from_);
      phase_ = Phase::applying;
      computing_ = slowdown_ * compute_.apply;
    }
    if (phase_ != Phase::applying || computing_ > 0) return;
    ends_.push_back(now_);
    if (++step_ < steps_.size()) begin_step();
  }

  struct Taken {
    int peer = 0;
    std::size_t bytes = 0;
    Clock::time_point arrives;
  };

  const ComputeTimes& compute_;
  std::span<const StepTrace> steps_;
  int rank_;
  Speeds speeds_;
  HostCost host_;
  double slowdown_, delay_;
  Link link_;
  Wires& wires_;

  double now_ = 0;
  std::size_t step_ = 0;
  std::vector<double> ends_, waits_;  // of each step

  Phase phase_ = Phase::backward;
  double computing_ = 0;      // seconds left of the current stretch
  std::size_t computed_ = 0;  // buckets that are ready
  double waits_from_ = 0;

  std::size_t posted_ = 0;  // items that may begin
  std::size_t item_ = 0, exchange_ = 0;
  bool idle_ = true;    // whether the thread that exchanges waits for an item
  double working_ = 0;  // seconds left of its current work
  bool exchanging_ = false;
  std::optional<double> arrived_;     // when the current exchange ends, once all its messages were sent
  Clock::time_point begun_, sent_{};  // when the current exchange began, and when its last message left
  std::vector<Taken> taken_;
};

}  // namespace

double ComputeTimes::total() const { return std::reduce(ready.begin(), ready.end(), rest + apply); }

Speeds speeds_of(double cores, double compute_threads, double codec_threads) {
  const auto speed = [cores](double threads) { return std::min(1.0, cores / threads); };
  return {speed(compute_threads), speed(codec_threads), speed(compute_threads + codec_threads)};
}

Replayed replay(const ComputeTimes& compute, std::span<const StepTrace> steps, const Links& links, const Speeds& speeds,
                const HostCost& host) {
  if (steps.empty()) throw std::logic_error("replay: no steps");
  const std::size_t count = steps.front().size();
  Wires wires(count);
  std::vector<std::unique_ptr<ReplayedRank>> ranks;
  for (std::size_t r = 0; r < count; ++r) {
    ranks.push_back(std::make_unique<ReplayedRank>(compute, steps, links, static_cast<int>(r), speeds, host, wires));
  }
  const auto all_done = [&] { return std::ranges::all_of(ranks, [](const auto& rank) { return rank->done(); }); };
  while (!all_done()) {
    bool any = false;
    for (const auto& rank : ranks) any = rank->advance() || any;
    if (!any) throw std::logic_error("replay: ranks wait for messages that nobody sends");
  }
  Replayed result;
  const std::size_t first = steps.size() > 1 ? 1 : 0;
  const auto counted = static_cast<double>(steps.size() - first);
  for (const auto& rank : ranks) {
    const double begin = first == 0 ? 0 : rank->ends().front();
    result.seconds = std::max(result.seconds, (rank->ends().back() - begin) / counted);
    const auto waits = std::span(rank->waits()).subspan(first);
    result.waiting = std::max(result.waiting, std::reduce(waits.begin(), waits.end()) / counted);
  }
  return result;
}

}  // namespace sotto
