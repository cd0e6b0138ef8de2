#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "sotto/aggregate/aggregator.h"
#include "sotto/algorithm/ad_psgd/averager_state.h"
#include "sotto/algorithm/ad_psgd/pair_note.h"
#include "sotto/algorithm/ad_psgd/pair_plan.h"
#include "sotto/algorithm/ad_psgd/paired_model.h"
#include "sotto/algorithm/ad_psgd/roll.h"
#include "sotto/comm/mailbox.h"
#include "sotto/core/mutex.h"

namespace sotto {

// A copy of a rank's model, and a thread that averages it with those of other ranks, two at a time, while the caller
// takes steps of it (AD-PSGD: Lian, Zhang, Zhang, Liu, ICML 2018). An active rank sends its model, a passive one
// answers with its own. Nobody waits but the active rank's thread for its answer.
//
// One other thread may call: that of the steps. Errors of the averaging thread are thrown by its next call. An object
// that is destroyed without an error ends in peace: its request is waited for.
class Averager {
 public:
  // Collective: opens a mailbox. Messages are made with the seed and generation of `key`.
  Averager(PairPlan plan, PairedModel model, const Key& key, Communicator& communicator);
  ~Averager();
  Averager(const Averager&) = delete;
  Averager& operator=(const Averager&) = delete;

  // The model as it is now, in `x`; after a rest, and at first, `x` becomes the model.
  void read(std::span<float> x);
  // One step, by `apply`. Returns whether this rank is to rest() now. Counted together: as soon as it knows of
  // `meeting` steps a rank on average (0: no matter how many), wishes so, or hears that another rank rests. With
  // PairPlan::each: once some rank wishes to end, each announces the earliest step that it can end after; all end after
  // the latest of these.
  bool step(const std::function<void(std::span<float>)>& apply, bool wish, Timings& timings, std::uint64_t meeting = 0);
  // Until the request that the last step gave rise to, if any, was answered.
  void wait_for_answer();
  // A meeting of all ranks, after which nothing is on its way: answers others until all have come, then copies the
  // model to where read() put it, once. Nothing changes it until the next read().
  void rest();
  // This rank is of no use any more: it is lost to those that wait for it. Nothing but the destructor may follow.
  void abandon();

  // Of each rank, as far as this one has heard; from a rest to the next read(): at that meeting, the same on all ranks.
  std::vector<std::uint64_t> steps() const;
  std::uint64_t known_steps() const;  // of all together, as far as this one has heard
  std::uint64_t exchanges() const;    // that were completed, whoever asked
  std::uint64_t notes_sent() const;   // messages without a model
  Traffic traffic() const;
  void visit_state(StateVisitor& visitor);

 private:
  using State = AveragerState::State;
  // What the averaging thread alone uses; the model's codec is in a checkpoint, at a rest.
  struct Own {
    PairedModel model;
    std::vector<Clock::time_point> questioned;  // by peer, when
    Clock::time_point inquired{};
    std::vector<Mail> held{};  // requests that came at a rest, one a peer at most
    // Memory that is used again:
    PairNote note{};
    std::vector<std::byte> letter{};
  };

  // --- of the averaging thread ---
  void run();
  bool turn();
  void ask();
  int next_peer() SOTTO_REQUIRES(mutex_);
  void take(Mail mail);
  void hear(int sender, const PairNote& note);
  void naming(int sender, const std::function<void()>& f) const;
  void take_request(Mail mail);
  void answer(const Mail& mail);
  void take_answer(int sender, const PairNote& note, std::span<const std::byte> model);
  void open(int sender, const PairNote& note, std::span<const std::byte> model);
  void move() SOTTO_REQUIRES(mutex_);
  void offer(PairNote::Kind kind, std::uint32_t number) SOTTO_REQUIRES(mutex_);  // in own_.letter
  void inquire();
  void watch(Clock::time_point taken);
  bool must_be_questioned(int peer, Clock::time_point taken);

  // --- of both ---
  void write_letter(PairNote::Kind kind, std::uint32_t number, std::vector<std::byte>& letter) const
      SOTTO_REQUIRES(mutex_);
  void tell(int peer, PairNote::Kind kind);
  void tell_all();
  void wake() SOTTO_REQUIRES(mutex_);

  // --- of the thread of the steps ---
  void wait_for_all(Lock& lock, Roll::Await what) SOTTO_REQUIRES(mutex_);
  void rethrow() const SOTTO_REQUIRES(mutex_);

  PairPlan plan_;
  Key key_;
  int ranks_;
  std::unique_ptr<Mailbox> mailbox_;  // one rank alone has none
  mutable Mutex mutex_;
  Condition changed_;
  AveragerState shared_ SOTTO_GUARDED_BY(mutex_);
  Own own_;
  std::span<float> shown_;  // where read() put the model
  int exceptions_ = std::uncaught_exceptions();
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace sotto
