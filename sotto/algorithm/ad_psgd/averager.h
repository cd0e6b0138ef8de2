#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "sotto/aggregate/aggregator.h"
#include "sotto/algorithm/ad_psgd/pair_note.h"
#include "sotto/algorithm/ad_psgd/pair_plan.h"
#include "sotto/algorithm/ad_psgd/paired_model.h"
#include "sotto/algorithm/ad_psgd/roll.h"
#include "sotto/comm/mailbox.h"

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

  // The model as it is now, in `x`; behind a rest, and at first, `x` becomes the model.
  void read(std::span<float> x);
  // One step, by `apply`. Returns whether this rank is to rest() now. Counted together: as soon as it knows of
  // `meeting` steps a rank on average (0: no matter how many), wishes so, or hears that another rank rests. With
  // PairPlan::each: once this rank or another one wishes to end, each says behind which of its steps it can; the last
  // of these is that of all.
  bool step(const std::function<void(std::span<float>)>& apply, bool wish, Phases& phases, std::uint64_t meeting = 0);
  // Until the request that the last step gave rise to, if any, was answered.
  void wait_for_answer();
  // A meeting of all ranks, behind which nothing is on its way: answers others until all have come, then copies the
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
  struct Asked {
    int peer;
    std::uint32_t number;
    Clock::time_point since;
  };

  // Of the averaging thread.
  void run();
  bool turn();
  void ask();
  int next_peer();
  void take(Mail mail);
  void hear(int sender);
  void naming(int sender, const std::function<void()>& f) const;
  void take_request(Mail mail);
  void answer(const Mail& mail);
  void take_answer(int sender, std::span<const std::byte> model);
  void open(int sender, std::span<const std::byte> model);
  void inquire();
  void watch(Clock::time_point taken);
  bool must_be_questioned(int peer, Clock::time_point taken);

  // Of both.
  bool end(std::unique_lock<std::mutex>& lock, bool wish);
  bool frozen() const { return resting_ && roll_.all_have(Roll::Await::meeting); }
  void offer(PairNote::Kind kind, std::uint32_t number);
  void write_letter(PairNote::Kind kind, std::uint32_t number, std::vector<std::byte>& letter) const;
  void tell(int peer, PairNote::Kind kind);
  void tell_all();
  void wake();
  void wait_for_all(std::unique_lock<std::mutex>& lock, Roll::Await what);
  void rethrow();

  PairPlan plan_;
  Key key_;
  int ranks_;
  std::unique_ptr<Mailbox> mailbox_;  // one rank alone has none

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  PairedModel model_;
  std::span<float> shown_;
  Roll roll_;
  bool quiet_ = true;    // asks nobody
  bool resting_ = true;  // has come to a meeting
  bool due_ = false;     // is to ask
  bool counts_ = false;  // is to ask for a count
  bool alone_ = false;   // all that it asks have left
  bool woken_ = false;   // a message to itself is on its way
  bool ending_ = false, abandoned_ = false;
  Roll::Await awaited_ = Roll::Await::nothing;
  Clock::time_point awaited_since_{};
  std::optional<Asked> asked_;
  std::uint64_t number_ = 0, exchanges_ = 0, notes_ = 0;
  Phases phases_;
  std::exception_ptr error_;

  std::vector<std::byte> letter_;  // these three are the averaging thread's
  std::vector<Mail> held_;         // requests that came at a rest, at most one a peer
  std::vector<Clock::time_point> questioned_;
  Clock::time_point inquired_{};
  PairNote note_;

  int exceptions_ = std::uncaught_exceptions();
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace sotto
