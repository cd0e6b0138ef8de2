#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sotto/algorithm/server/downlink.h"
#include "sotto/algorithm/server/server_note.h"
#include "sotto/algorithm/server/server_plan.h"
#include "sotto/algorithm/server/shard.h"

namespace sotto {

// What a server does with what comes: no threads, no clock but for who is overdue. Updates are made of the gradients in
// rank order, by the optimiser of the server's rank.
class Server {
 public:
  using Post = std::function<void(int rank, std::span<const std::byte> bytes)>;
  // `uplink` decodes the workers' messages, `seed` and `generation` are of the options.
  Server(const ServerPlan& plan, int rank, Shard shard, std::shared_ptr<Codec> uplink, Downlink downlink,
         std::uint64_t seed, std::uint16_t generation, Post post);

  // All ranks are about to take this step, and have these parameters; those of the first time count.
  void begin(std::uint64_t step, std::span<const float> parameters, Optimiser& optimiser);
  // Posts what is to be answered now, to its own rank last. WireError names the sender.
  void take(int sender, std::span<const std::byte> mail);
  bool at_rest() const;
  // Lets those who rest know that they are not forgotten.
  void remind();

  // The worker that owes a gradient for the longest time, and since when; -1: nobody owes one.
  std::pair<int, Clock::time_point> slowest() const;
  std::uint64_t least_step() const;  // that was not answered yet, over workers
  double loss() const;               // mean over workers of what they said last
  std::uint64_t version() const { return version_; }
  Timings& timings() { return timings_; }

  const Shard& shard() const { return shard_; }
  // At rest: what all ranks are to have. all_know(): they do.
  std::span<const float> model() const { return plan_.in_step() && !downlink_.whole() ? known_ : model_; }
  void all_know();
  void go_on() { stop_ = ServerNote::never; }  // all stopped, and do not end
  void visit_state(StateVisitor& visitor);

 private:
  struct Message {
    std::vector<std::byte> bytes;
    std::unique_ptr<Opened> opened;
    bool here = false;
  };
  // A worker; or this rank, where it only serves, and at the first server all that do.
  struct Client {
    enum class State : std::uint8_t {
      at_work,  // it owes a gradient, if it trains
      waits,    // its gradient is here, and not answered
      rests,
    };
    int rank = 0;
    bool trains = true;
    State state = State::at_work;
    std::uint64_t next = 0;         // the step that is answered next
    ServerNote note;                // of its last gradient
    std::vector<Message> messages;  // by part
    std::vector<float> known;       // of this worker alone
    Clock::time_point since{};
  };

  using State = Client::State;
  using Clients = std::span<Client*>;  // some of them, by rank

  Client& client(int rank);
  void take_message(Client& from, std::span<const std::byte> bytes);
  void take_note(Client& from, const ServerNote& note);
  void take_gradient(Client& from);
  void take_late(Client& from);
  void update_when_enough();
  Clients released();
  void update(Clients with);
  void add_to(std::vector<float>& sum, Client& from);
  void answer(Clients all);
  void post(const Client& to, ServerNote::Kind kind);
  void post(const Client& to, ServerNote::Kind kind, std::span<std::byte> letter);
  void rest_when_all();
  // Valid until the next call.
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
  Optimiser* optimiser_ = nullptr;
  std::vector<Client> clients_;  // by rank
  std::vector<float> model_, mean_;
  std::vector<float> known_;    // in step: of all workers
  std::vector<float> carried_;  // shares of what came too late
  std::uint64_t begun_ = 0;
  std::uint64_t version_ = 0;
  std::uint64_t stop_ = ServerNote::never;
  Timings timings_;
  std::vector<Client*> chosen_;    // memory of choose()
  std::vector<std::byte> letter_;  // memory of answer()
};

}  // namespace sotto
