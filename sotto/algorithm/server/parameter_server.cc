#include "sotto/algorithm/server/parameter_server.h"

#include <fmt/format.h>

#include <exception>
#include <numeric>

#include "sotto/algorithm/server/served_worker.h"
#include "sotto/algorithm/server/server_thread.h"

namespace sotto {
namespace {

ServerPlan plan_of(const ServerOptions& own, int ranks) {
  const auto fail = [](const std::string& why) { throw ConfigError(why); };
  if (own.servers > ranks) fail(fmt::format("servers={} of {} ranks", own.servers, ranks));
  if (own.dedicated && own.servers == ranks) {
    fail(fmt::format("{} of {} ranks serve and do nothing else: nobody is left to train", own.servers, ranks));
  }
  ServerPlan plan{.mode = own.mode == "sync"    ? ServerPlan::Mode::sync
                          : own.mode == "async" ? ServerPlan::Mode::async
                                                : ServerPlan::Mode::stale,
                  .bound = static_cast<std::uint64_t>(own.bound),
                  .carry = own.late == "carry",
                  .servers = static_cast<int>(own.servers),
                  .dedicated = own.dedicated,
                  .ranks = ranks};
  plan.quorum = own.gradients == 0 ? plan.workers() : static_cast<std::size_t>(own.gradients);
  if (plan.quorum > plan.workers()) fail(fmt::format("gradients={} of {} workers", own.gradients, plan.workers()));
  plan.together = own.count == "all" && !plan.in_step();
  return plan;
}

class ParameterServer final : public Algorithm, private Elastic, private OwnSpeed {
 public:
  ParameterServer(const ServerPlan& plan, const StageSpecs& down, const AlgorithmOptions& options,
                  std::span<const BucketPlan> buckets, Communicator& communicator)
      : Algorithm(options, communicator, {.counts_together = plan.together}, this, plan.together ? this : nullptr),
        Elastic(false),
        plan_(plan),
        shards_(share_out(buckets, static_cast<std::size_t>(plan.servers))),
        worker_(plan, options, down, buckets, shards_, communicator),
        steps_(static_cast<std::size_t>(plan.ranks)) {
    const int rank = communicator.rank();
    if (rank >= plan.servers) return;
    // The server has its own codecs, because its thread works at the same time as this rank's worker.
    const auto threads = std::make_shared<ThreadPool>(options.codec_threads);
    server_ = std::make_unique<Server>(
        plan, rank, shards_[static_cast<std::size_t>(rank)], make_codec(options.recipe().stages, threads),
        Downlink(down, threads, buckets), options.seed, options.generation,
        [this](int to, std::span<const std::byte> bytes) { worker_.replies().send(to, bytes); });
    thread_ = std::make_unique<ServerThread>(*server_, worker_.requests(), [this] { worker_.replies().cancel(); });
    remark_ =
        fmt::format("parameter_server: models go back as {}{}", text_of(down),
                    Downlink(down, threads, buckets).sends_models() ? "" : ", of the difference to what workers have");
    if (plan.rate_share() < 1) {
      remark_ += "; with sgd and adam each worker has its own momentum, which looks ahead to that of the others";
    }
  }

  // Closes the mailboxes only at rest: by then all that others wait for was handed over. After a failure the others
  // must notice that this rank is lost.
  ~ParameterServer() override {
    thread_.reset();
    if (rests_ && std::uncaught_exceptions() == exceptions_) worker_.leave();
  }

  AlgorithmStatus status() const override { return {"server", remark_, worker_.traffic()}; }

  // If not all workers have the same model, or some rank has none, all take the servers' model.
  StepCost drain() override {
    if (local_worker_ == nullptr) return {};
    rests_ = false;  // until all of this is done
    if (thread_) thread_->work(steps_, local_worker_->parameters(), local_worker_->optimiser());
    try {
      worker_.rest(own_steps());
      if (thread_) thread_->wait_for_rest();
    } catch (const CommError&) {
      if (thread_) thread_->check();
      throw;
    }
    if (!plan_.in_step() || plan_.dedicated) take_models();
    if (plan_.together) {
      const std::uint64_t own = own_steps();
      communicator_.all_gather(std::as_bytes(std::span(&own, 1)), std::as_writable_bytes(std::span(steps_)));
    }
    rests_ = true;
    return {};
  }

  // The server's thread does nothing at rest, so the server may be changed.
  void go_on() override {
    worker_.go_on();
    if (server_) server_->go_on();
  }

  void visit_state(StateVisitor& visitor) override {
    ScopedState own(visitor, "parameter_server");
    for (std::size_t rank = 0; plan_.together && rank < steps_.size(); ++rank) {
      own.visit(fmt::format("steps/{}", rank), steps_[rank]);
    }
    worker_.visit_state(own);
    ScopedState servers(own, "server");
    if (server_) server_->visit_state(servers);
  }

 private:
  void run_step(Worker& worker, Step& now) override {
    begin(worker, now);
    try {
      plan_.trains(communicator_.rank()) ? worker_.step(worker, now) : serve(now);
    } catch (const CommError&) {
      if (thread_) thread_->check();  // the server knows the cause
      throw;
    }
    if (thread_) now.timings += thread_->take_timings();
    own_steps() = now.step + 1;
    if (!plan_.together) std::ranges::fill(steps_, now.step + 1);
    ++answered_;
  }

  // A worker keeps its memory. A server that has the same shard as before keeps its model and buffers.
  void take_over(std::span<const FormerRank> each) override {
    const FormerRank& self = each.front();
    ScopedState own(*self.state, "parameter_server");
    if (plan_.trains(self.rank) && plan_.trains(communicator_.rank())) worker_.visit_state(own);
    trained_ = plan_.trains(self.rank);
    ServerPlan former = plan_;
    former.ranks = self.ranks;
    former_share_ = former.rate_share();
    if (!server_ || self.rank != communicator_.rank()) return;
    ScopedState servers(own, "server");
    server_->visit_state(servers);
    serves_on_ = server_->has_begun();
  }

  // A shard whose server is lost continues from the mean of the models that workers have.
  void sync_after_change(Worker& worker, bool is_new) override {
    if (!plan_.in_step()) {  // otherwise all workers have the same model
      float workers = trained_ ? 1.0F : 0.0F;
      communicator_.all_reduce(std::span(&workers, 1));
      average_members(worker.parameters(), communicator_, workers > 0 ? trained_ : !is_new);
    }
    struct Server {
      std::uint64_t serves_on, version;
    };
    std::vector<Server> all(static_cast<std::size_t>(plan_.ranks));
    const Server own{serves_on_, serves_on_ ? server_->version() : 0};
    communicator_.all_gather(std::as_bytes(std::span(&own, 1)), std::as_writable_bytes(std::span(all)));
    std::vector<std::uint64_t> versions;
    for (int rank = 0; rank < plan_.servers; ++rank) {
      const Server& server = all[static_cast<std::size_t>(rank)];
      versions.push_back(server.version);
      if (server.serves_on != 0) take_model(rank, worker.parameters());
    }
    worker_.follow(versions);
    if (server_ && !serves_on_) server_->start_from(worker.parameters());
    if (keeps_buffers(worker.optimiser())) return;
    EachVector zero([](std::vector<float>& values) { std::ranges::fill(values, 0.0F); });
    worker.optimiser().visit_buffers(zero);
  }

  std::uint64_t rate_step() const override {
    const auto trained = std::span(steps_).subspan(static_cast<std::size_t>(plan_.first_worker()));
    const std::uint64_t met = std::reduce(trained.begin(), trained.end());
    return std::max(met, worker_.made_steps()) / plan_.workers();
  }
  std::vector<std::uint64_t> rank_steps() const override { return steps_; }
  std::uint64_t exchange_count() const override { return answered_; }
  std::uint64_t exchange_bytes() const override { return worker_.traffic().bytes_sent; }
  void abandon() override {
    thread_.reset();
    worker_.requests().cancel();
    worker_.replies().cancel();
  }

  void begin_at(std::uint64_t steps) override { std::ranges::fill(steps_, steps); }

  std::uint64_t& own_steps() { return steps_[static_cast<std::size_t>(communicator_.rank())]; }

  // Whether the optimiser of this rank continues with its buffers, which are of its server's shard, or of its own
  // gradients. A new rank does not, because it has the buffers of another rank.
  bool keeps_buffers(Optimiser& optimiser) const {
    const auto are_of_workers = [&](double share) {
      optimiser.take_shares(share);
      return optimiser.offer_makes_buffers();
    };
    const bool before = are_of_workers(former_share_), now = are_of_workers(plan_.rate_share());
    if (!before && !now) return serves_on_;
    // With a single worker the server makes the momentum: it stays where server and worker are the same rank.
    return trained_ && plan_.trains(communicator_.rank()) && (now || server_ != nullptr);
  }

  // Gives this rank the model of one server, which is that rank.
  void take_model(int rank, std::span<float> parameters) {
    const Shard& shard = shards_[static_cast<std::size_t>(rank)];
    shard_model_.resize(shard.size());
    if (rank == communicator_.rank()) std::ranges::copy(server_->model(), shard_model_.begin());
    communicator_.broadcast(std::as_writable_bytes(std::span(shard_model_)), rank);
    shard.scatter(shard_model_, parameters);
  }

  // Gives this rank the model of all servers.
  void take_models() {
    for (int rank = 0; rank < plan_.servers; ++rank) take_model(rank, local_worker_->parameters());
    if (server_) server_->all_know();
  }

  void begin(Worker& worker, const StepInput& input) {
    if (local_worker_ == nullptr) {
      if (worker.optimiser().dense_steps() > 0) {
        throw ConfigError(named("optimiser") + ": what it offers depends on means that servers alone have; take adam");
      }
      if (!worker.optimiser().to_evaluate().empty()) {
        throw ConfigError(named("ema") + " and " + named("average-iterates") +
                          ": servers alone see all iterates, and a rank has no mean of them; leave them out with "
                          "parameter_server");
      }
    }
    if (local_worker_ == nullptr) worker.optimiser().take_shares(plan_.rate_share());
    // All ranks begin at the same step, unless they have counted together before.
    const bool begins = local_worker_ == nullptr && std::ranges::max(steps_) == 0;
    if (begins || !plan_.together) std::ranges::fill(steps_, input.step);
    local_worker_ = &worker;
    rests_ = false;
    communicator_.at_step(input.step);
    if (thread_) thread_->work(steps_, worker.parameters(), worker.optimiser());
  }

  // The step of a rank that only serves ends when all workers have made it or, if they count together, have made as
  // many on average.
  void serve(Step& now) {
    const Timer timer;
    now.loss = thread_->wait_for_step(now.step);
    worker_.end_idle_step(now);
    now.wait = timer.seconds();
  }

  ServerPlan plan_;
  std::vector<Shard> shards_;
  ServedWorker worker_;
  Worker* local_worker_ = nullptr;  // this rank's, after its first step
  // The next step of each rank. If all make the same steps, it is this rank's next step for all. Otherwise the next
  // step of another rank is as of the last meeting.
  std::vector<std::uint64_t> steps_;
  std::uint64_t answered_ = 0;  // steps since the start
  bool rests_ = false;
  bool trained_ = false;     // this rank was a worker of a former group
  double former_share_ = 1;  // the rate_share() of that group
  bool serves_on_ = false;   // this rank's server continues as a server of that group
  int exceptions_ = std::uncaught_exceptions();
  std::vector<float> shard_model_;
  std::string remark_;
  std::unique_ptr<Server> server_;
  std::unique_ptr<ServerThread> thread_;  // last: it is destroyed before what it uses
};

}  // namespace

std::string ServerOptions::problem() const {
  if (mode != "sync" && gradients != 0) return "gradients is for mode=sync: the other modes wait for no gradients";
  if (mode != "stale" && bound != ServerOptions{}.bound) return "bound is of mode=stale";
  if (count != "all" && mode == "sync" && gradients == 0) return "count is for workers that do not wait for all others";
  if (late != "drop" && gradients == 0) {
    return "late is for gradients=K: if an update waits for all workers, no gradient comes late";
  }
  return "";
}

std::unique_ptr<Algorithm> make_parameter_server(const ServerOptions& own, const AlgorithmOptions& options,
                                                 std::span<const BucketPlan> buckets, Communicator& communicator) {
  const ServerPlan plan = plan_of(own, communicator.size());
  if (static_cast<std::size_t>(plan.servers) > buckets.size()) {
    throw ConfigError(fmt::format("{}: servers={} of {} buckets: each owns whole ones; take fewer, or a smaller {}",
                                  named("algorithm"), plan.servers, buckets.size(), named("buckets")));
  }
  check_uplink(options.recipe(), buckets);
  const StageSpecs down = downlink_codec(own.down_stages, options.recipe().stages, buckets);
  return std::make_unique<ParameterServer>(plan, down, options, buckets, communicator);
}

AnyOptions read_parameter_server(const AnyOptions& own) {
  ServerOptions options = own.as<ServerOptions>();
  if (options.down) options.down_stages = read_downlink(*options.down);
  return options;
}

OptionTraits parameter_server_with(const AnyOptions& own) {
  const auto& options = own.as<ServerOptions>();
  return {.elastic = options.mode == "sync" ? options.gradients == 0 && !options.dedicated : options.count == "all"};
}

Roles parameter_server_roles(const AnyOptions& own, int ranks) {
  const ServerPlan plan = plan_of(own.as<ServerOptions>(), ranks);
  return {.idle = plan.first_worker(), .in_step = plan.in_step()};
}

}  // namespace sotto
