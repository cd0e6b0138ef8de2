#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "sotto/aggregate/aggregator.h"
#include "sotto/algorithm/ad_psgd/pair_note.h"
#include "sotto/algorithm/ad_psgd/pairs.h"
#include "sotto/algorithm/ad_psgd/roll.h"
#include "sotto/comm/mailbox.h"
#include "sotto/core/thread.h"
#include "sotto/core/timer.h"

namespace sotto {

// The state that both threads of an Averager share, under its lock.
struct AveragerState {
  enum class State : std::uint8_t {
    resting,  // after a meeting, or before the first step: the caller has the model, and may change it
    at_work,  // this rank takes steps, and asks others for their models
    quiet,    // it asks nobody any more, and comes to a meeting once its last request is answered
    meeting,  // it has come to a meeting; answers others until all ranks, and a model that it answered early, have come
    ending,   // as quiet; then its thread ends
    ended,    // it answers nobody any more
  };
  // An exchange in which this rank's model is on its way to a peer, and the peer's model has not come yet.
  struct Exchange {
    int peer;
    std::uint32_t number;
    Clock::time_point since;
  };

  std::vector<float> x;  // the model
  Roll roll;
  RollTree tree;
  State state = State::resting;
  bool due = false;                            // a step caused a request
  bool counts = false;                         // a step wants to know the others' steps
  bool alone = false;                          // all peers that this rank asks have left
  bool woken = false;                          // a message to itself is on its way
  Roll::Await awaited = Roll::Await::nothing;  // what the thread of the steps waits for
  Clock::time_point awaited_since{};
  std::optional<Exchange> asked{};     // the request that is not answered yet
  std::optional<Exchange> answered{};  // the request that was answered before its model came
  std::uint64_t requests = 0, exchanges = 0, exchange_bytes = 0, notes = 0;
  Timings timings{};
  std::exception_ptr error{};  // of the averaging thread

  // Whether nothing may change the model.
  bool frozen() const {
    return state == State::ended || state == State::resting ||
           (state == State::meeting && roll.all_have(Roll::Await::meeting));
  }
};

// A rank's model, and a thread that averages it with the models of other ranks, one at a time, while the caller takes
// steps on it (AD-PSGD: Lian, Zhang, Zhang, Liu, ICML 2018). An active rank sends its model, and a passive one answers
// with its own, early if it can: both models then travel at the same time. While ranks take steps only the active one
// waits, and only for its answer. At a meeting a passive rank waits for the models that it has answered early.
//
// One other thread may call: the one that takes the steps. If the averaging thread fails, the next call throws that
// error. If there is no error, the destructor waits for the answer to the last request.
class Averager {
 public:
  // Collective: opens a mailbox. Messages are made with the seed and generation of `key`.
  Averager(PairPlan plan, PairedModel model, const Key& key, Communicator& communicator);
  ~Averager();
  Averager(const Averager&) = delete;
  Averager& operator=(const Averager&) = delete;

  // Copies the model, as it is now, to `x`. The first call, and the first after a rest, make `x` the model instead.
  void read(std::span<float> x);
  // Takes one step, by `apply`. Returns whether this rank must rest() now. If the steps of all count together, it must
  // rest in three cases: it knows of `meeting` steps per rank on average (0: not in this case), it wishes to (`wish`),
  // or it hears that another rank rests. With PairPlan::each: once some rank wishes to end, each rank announces the
  // earliest step after which it can end, and all end after the latest of these steps.
  bool step(const std::function<void(std::span<float>)>& apply, bool wish, Timings& timings, std::uint64_t meeting = 0);
  // Waits for the answer to the request that the last step caused, if any.
  void wait_for_answer();
  // A meeting of all ranks, after which nothing is on its way. Answers others until all have come, and then copies the
  // model to `x`, unless this rank is at rest already. Nothing changes the model until the next read().
  void rest(std::span<float> x);
  // After an error: ranks that wait for this one see that it is lost. Copies the model to `x`, unless this rank is at
  // rest. Only visit_state() and the destructor may follow.
  void abandon(std::span<float> x);
  // Called before the first read(). Reads the states of ranks of another group, but keeps only the state of the codec.
  void take_over(std::span<const FormerRank> each);
  // Called before the first read(): each rank has made `steps` steps.
  void begin_at(std::uint64_t steps);

  // The steps of each rank, as far as this one has heard. From a rest to the next read(): those at that meeting, which
  // are the same on all ranks.
  std::vector<std::uint64_t> steps() const;
  std::uint64_t known_steps() const;     // sum over all ranks, as far as this one has heard
  std::uint64_t exchanges() const;       // completed ones, whoever asked
  std::uint64_t exchange_bytes() const;  // of messages with a model
  std::uint64_t notes_sent() const;      // messages without a model
  Traffic traffic() const;
  void visit_state(StateVisitor& visitor);

 private:
  using State = AveragerState::State;
  // Only the averaging thread uses this. The codec of the model is in checkpoints, which are made at rest.
  struct Own {
    PairedModel model;
    std::vector<Clock::time_point> questioned;  // when each peer was asked for news
    Clock::time_point inquired{}, watched{};
    std::vector<Mail> held{};         // models that came at a rest, and must be answered; at most one per peer
    std::vector<std::uint64_t> late;  // the exchange before which a peer is not answered early
    int meanwhile = 0;                // exchanges since this rank gave an early answer
    // Buffers that are reused:
    PairNote note{};
    std::vector<std::byte> letter{};        // with this rank's model; of the open request, if this rank asks
    std::vector<std::byte> early_letter{};  // of AveragerState::answered
  };

  // --- on the averaging thread ---
  void run();
  bool turn();
  void ask();
  int next_peer() SOTTO_REQUIRES(mutex_);
  void take(Mail mail);
  void hear(int sender, const PairNote& note);
  void naming(int sender, const std::function<void()>& f) const;
  void take_request(int sender);
  void take_model(Mail& mail, std::span<const std::byte> model);
  bool answer_now(Mail& mail);
  bool may_answer(const PairNote& note) const SOTTO_REQUIRES(mutex_);
  void open(int sender, const PairNote& note, std::span<const std::byte> model);
  // Writes a letter with the model as it is now.
  void offer(std::uint32_t number, std::vector<std::byte>& letter) SOTTO_REQUIRES(mutex_);
  // Moves towards the model that was opened last. `letter` is the letter that the rank of that model got from this
  // rank.
  void move(std::span<const std::byte> letter) SOTTO_REQUIRES(mutex_);
  void inquire();
  void watch(Clock::time_point taken);
  bool forget(int peer);
  bool waits() const;
  bool must_be_questioned(int peer, Clock::time_point taken);

  // --- on both threads ---
  // `number` is PairNote::number; for a note of kind met, the meeting.
  void write_letter(PairNote::Kind kind, std::uint64_t number, std::vector<std::byte>& letter) const
      SOTTO_REQUIRES(mutex_);
  void tell(int peer, PairNote::Kind kind);
  void tell_all();
  // Letters that tell others of meetings and ends, as the roll is now; they are sent without the lock.
  using Letters = std::vector<std::pair<int, std::vector<std::byte>>>;
  Letters letters_due() SOTTO_REQUIRES(mutex_);
  void send(const Letters& letters);
  void wake() SOTTO_REQUIRES(mutex_);

  // --- on the thread that takes the steps ---
  Letters announcement() SOTTO_REQUIRES(mutex_);  // what this rank has just decided
  void wait_for_all(Lock& lock, Roll::Await what) SOTTO_REQUIRES(mutex_);
  void rethrow() const SOTTO_REQUIRES(mutex_);

  PairPlan plan_;
  Key key_;
  int ranks_;
  std::unique_ptr<Mailbox> mailbox_;  // null if there is only one rank
  mutable Mutex mutex_;
  Condition changed_;
  AveragerState shared_ SOTTO_GUARDED_BY(mutex_);
  Own own_;
  int exceptions_ = std::uncaught_exceptions();
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace sotto
