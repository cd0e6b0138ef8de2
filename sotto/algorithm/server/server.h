#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "sotto/algorithm/server/links.h"
#include "sotto/algorithm/server/server_note.h"
#include "sotto/algorithm/server/server_plan.h"

namespace sotto {

// What a server does with its mail. It has no thread, and uses a clock only to tell who is overdue. It adds up
// gradients in rank order, and makes updates with the optimiser of the server's rank.
class Server {
 public:
  using Post = std::function<void(int rank, std::span<const std::byte> bytes)>;
  // `uplink` decodes the workers' messages; `seed` and `generation` are those of the options.
  Server(const ServerPlan& plan, int rank, Shard shard, std::shared_ptr<Codec> uplink, Downlink downlink,
         std::uint64_t seed, std::uint16_t generation, Post post);

  // Rank r is about to take step number steps[r], and all ranks have these parameters. Only the parameters of the first
  // call count.
  void begin(std::span<const std::uint64_t> steps, std::span<const float> parameters, Optimiser& optimiser);
  // Takes a note or message, makes the update that is due with `optimiser`, and posts the answers; the answer to its
  // own rank is the last. Returns the times that this took. WireError names the sender.
  Timings take(int sender, std::span<const std::byte> mail, Optimiser& optimiser);
  bool at_rest() const;
  // Tells clients at rest that the server is alive.
  void remind();

  // The worker that has owed a gradient for the longest time, since `since`. `step` is the number of its step. Rank -1:
  // nobody owes a gradient.
  struct Debtor {
    int rank = -1;
    std::uint64_t step = 0;
    Clock::time_point since = Clock::time_point::max();
  };
  Debtor slowest() const;
  // The number of steps in which every worker was answered. If workers count together: the number that they have made
  // on average.
  std::uint64_t common_steps() const;
  bool meets() const;   // workers that count together have begun to rest
  double loss() const;  // mean over workers of the losses that they last reported

  // At rest: the model that all ranks must have. The caller gives it to them, and then calls all_know().
  std::span<const float> model() const { return plan_.in_step() && !downlink_.sends_models() ? known_ : model_; }
  void all_know();
  void go_on() { stop_ = ServerNote::never; }  // all ranks stopped, and now continue
  // Called in place of the first begin(): all ranks have these parameters.
  void start_from(std::span<const float> parameters);
  bool has_begun() const { return begun_ != 0; }
  std::uint64_t version() const { return version_; }  // how many updates it has made
  void visit_state(StateVisitor& visitor);

 private:
  struct Message {
    std::vector<std::byte> bytes;
    std::unique_ptr<MessageReader> opened;
    bool here = false;
  };
  // A worker; or this rank, if it only serves; at the first server also all other ranks that only serve.
  struct Client {
    enum class State : std::uint8_t {
      at_work,  // it owes a gradient, if it trains
      waits,    // its gradient is here, but not answered
      rests,
    };
    int rank = 0;
    bool trains = true;
    State state = State::at_work;
    std::uint64_t next = 0;         // the next step to be answered
    ServerNote note;                // that came with its last gradient
    std::vector<Message> messages;  // one per part
    std::vector<float> known;       // what this worker knows of the model, unless all know the same
    Clock::time_point since{};
  };

  // What a call of take() works with.
  struct Turn {
    Optimiser& optimiser;
    Timings timings{};
  };

  using State = Client::State;
  using Clients = std::span<Client*>;  // some of them, in rank order

  Client& client(int rank);
  void take_message(Client& from, std::span<const std::byte> bytes);
  void take_note(Client& from, const ServerNote& note, Turn& turn);
  void take_gradient(Client& from, Turn& turn);
  void take_late(Client& from, Turn& turn);
  void update_when_enough(Turn& turn);
  Clients released();
  void update(Clients with, Turn& turn);
  void add_to(std::vector<float>& sum, Client& from);
  void answer(Clients all, Turn& turn);
  void post(const Client& to, ServerNote::Kind kind);
  void post(const Client& to, ServerNote::Kind kind, std::span<std::byte> letter);
  void rest_when_all();
  std::uint64_t made_steps() const;
  // The clients for which `which` holds, in rank order. Valid until the next call.
  template <class Which>
  Clients choose(Which&& which);

  ServerPlan plan_;
  int rank_;
  Shard shard_;
  std::shared_ptr<Codec> uplink_;
  Downlink downlink_;
  std::uint64_t seed_;
  std::uint16_t generation_;
  Post post_;
  std::vector<Client> clients_;  // in rank order
  std::vector<float> model_, mean_;
  std::vector<float> known_;    // in step: what all workers know of the model
  std::vector<float> carried_;  // gradients that came too late, for the next update
  std::uint64_t begun_ = 0;
  std::uint64_t version_ = 0;
  std::uint64_t stop_ = ServerNote::never;
  std::vector<Client*> chosen_;    // buffer of choose()
  std::vector<std::byte> letter_;  // buffer of answer()
};

}  // namespace sotto
