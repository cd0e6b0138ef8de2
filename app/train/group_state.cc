#include "app/train/group_state.h"

#include <fmt/format.h>

#include <cstring>

#include "app/train/run_log.h"
#include "app/train/session.h"
#include "app/train/stop_signal.h"
#include "sotto/aggregate/aggregate.h"
#include "sotto/core/thread.h"

namespace sotto {
namespace {

void visit_replica(StateCopy& state, Replica& replica, RunTotals& totals) {
  Task& task = replica.task();
  totals.visit_state(state);
  state.visit("parameters", task.parameters());
  state.visit("buffers", task.buffers());
  replica.visit_state(state);
  replica.visit_trained(state);
}

// A chunk is a message: its length in bytes, and the bytes.
constexpr std::size_t least_bytes = 1024, most_bytes = std::size_t{1} << 22;
using Length = std::uint64_t;

std::size_t length_of(std::span<const std::byte> message) {
  Length length = 0;
  std::memcpy(&length, message.data(), sizeof length);
  return sizeof length + static_cast<std::size_t>(length);
}

}  // namespace

void Rollback::begin(std::uint64_t generation, Manifest manifest, int rank, int ranks, std::uint64_t step) {
  begun_ = step;
  origin_ = std::make_shared<const Origin>(generation, std::move(manifest), rank, ranks);
  for (Kept& kept : kept_) {
    if (kept.step && *kept.step > step) kept.step.reset();
  }
}

void Rollback::forget() {
  for (Kept& kept : kept_) kept.step.reset();
}

void Rollback::keep(std::uint64_t step, Replica& replica, Algorithm& algorithm, RunTotals totals) {
  if (has(step)) return;
  Kept& kept = *std::ranges::min_element(kept_, {}, &Kept::step);  // the older one
  kept.step.reset();                                               // until it is whole
  kept.origin = origin_;
  kept.state.take();
  visit_replica(kept.state, replica, totals);
  algorithm.visit_state(kept.state);
  kept.step = step;
}

const Rollback::Kept* Rollback::find(std::uint64_t step) const {
  const auto found = std::ranges::find(kept_, step, &Kept::step);
  return found == kept_.end() ? nullptr : &*found;
}

std::optional<std::uint64_t> Rollback::last() const { return std::max(kept_[0].step, kept_[1].step); }

Manifest Rollback::manifest(std::uint64_t step) const {
  Manifest manifest = find(step)->origin->manifest;
  manifest.step = step;
  return manifest;
}

void Rollback::give(std::uint64_t step, Replica& replica, Algorithm& algorithm, RunTotals& totals) {
  Kept& kept = *std::ranges::find(kept_, step, &Kept::step);
  kept.state.give();
  visit_replica(kept.state, replica, totals);
  const FormerRank self{kept.origin->rank, kept.origin->ranks, &kept.state};
  algorithm.elastic()->visit_shared(kept.state);
  algorithm.elastic()->take_over({&self, 1});
}

// Passes the visited values on: from the donor to the first newcomer, and so on.
class NewcomerState::Chain final : public StateVisitor {
 public:
  Chain(Communicator& communicator, int donor, const std::vector<int>& newcomers, const std::atomic<bool>& stop)
      : communicator_(communicator), stop_(stop) {
    std::vector<int> ranks = newcomers;
    ranks.insert(ranks.begin(), donor);
    const auto own = std::ranges::find(ranks, communicator.rank());
    is_in_ = own != ranks.end();
    if (!is_in_) return;
    if (own != ranks.begin()) {
      from_ = *(own - 1);
      chunk_ = most_bytes;  // all that it has
    }
    if (own + 1 != ranks.end()) to_ = *(own + 1);
  }
  bool is_in() const { return is_in_; }
  std::uint64_t bytes() const { return bytes_; }

  void visit(std::string_view /*name*/, std::vector<float>& values) override { pass_vector(values); }
  void visit(std::string_view /*name*/, std::vector<std::uint8_t>& bytes) override { pass_vector(bytes); }
  void visit(std::string_view /*name*/, std::uint64_t& value) override {
    pass(std::as_writable_bytes(std::span(&value, 1)));
  }

 private:
  template <class T>
  void pass_vector(std::vector<T>& values) {
    std::uint64_t size = values.size();
    pass(std::as_writable_bytes(std::span(&size, 1)));
    values.resize(size);
    pass(std::as_writable_bytes(std::span(values)));
  }

  // A newcomer receives one chunk, and passes on the bytes received so far.
  void pass(std::span<std::byte> bytes) {
    bytes_ += bytes.size();
    std::size_t had = from_ ? 0 : bytes.size(), passed = to_ ? 0 : bytes.size();
    while (had < bytes.size() || passed < bytes.size()) {
      if (stop_) throw CommError("the group changes");
      const std::span<std::byte> next = bytes.subspan(passed, had > passed ? std::min(had - passed, chunk_) : 0);
      if (!next.empty()) fill(out_, next);
      in_.resize(sizeof(Length) + std::min(most_bytes, bytes.size() - had));
      std::array<Send, 1> send{Send{to_.value_or(0), out_}};
      std::array<Recv, 1> recv{Recv{.peer = from_.value_or(0), .buffer = in_, .length = length_of}};
      const Timer timer;
      communicator_.exchange(std::span(send).first(next.empty() ? 0 : 1),
                             std::span(recv).first(had < bytes.size() ? 1 : 0));
      if (!from_) choose_chunk(next.size(), timer.seconds());
      passed += next.size();
      if (had < bytes.size()) had += take(bytes.subspan(had));
    }
  }

  static void fill(std::vector<std::byte>& message, std::span<const std::byte> bytes) {
    const Length length = bytes.size();
    message.resize(sizeof length + bytes.size());
    std::memcpy(message.data(), &length, sizeof length);
    std::ranges::copy(bytes, message.begin() + sizeof length);
  }

  // Returns how many bytes came.
  std::size_t take(std::span<std::byte> room) {
    const std::size_t bytes = length_of(in_) - sizeof(Length);
    if (bytes == 0 || bytes > std::min(room.size(), most_bytes)) {
      throw CommError(fmt::format("rank {} sent a chunk of {} bytes", *from_, bytes));
    }
    std::ranges::copy(std::span(in_).subspan(sizeof(Length), bytes), room.begin());
    return bytes;
  }

  // Messages of training wait for a chunk on the same link, so a chunk should not take much longer than the shortest
  // message.
  void choose_chunk(std::size_t bytes, double seconds) {
    least_seconds_ = std::min(least_seconds_, seconds);
    const double wanted = std::max(0.02, 4 * least_seconds_);
    const double fits = static_cast<double>(bytes) * wanted / std::max(seconds, 1e-6);
    if (bytes < chunk_ && fits > static_cast<double>(chunk_)) return;  // it was the end of a vector
    chunk_ = static_cast<std::size_t>(std::clamp(std::min(fits, 2.0 * static_cast<double>(bytes)),
                                                 static_cast<double>(least_bytes), static_cast<double>(most_bytes)));
  }

  Communicator& communicator_;
  const std::atomic<bool>& stop_;
  bool is_in_ = false;
  std::uint64_t bytes_ = 0;
  std::optional<int> from_, to_;  // the ranks before and after this one in the chain
  std::size_t chunk_ = least_bytes;
  double least_seconds_ = 1;
  std::vector<std::byte> out_, in_;
};

NewcomerState::NewcomerState(std::unique_ptr<Communicator> communicator, int donor, const std::vector<int>& newcomers,
                             const Visit& visit)
    : communicator_(std::move(communicator)) {
  Chain chain(*communicator_, donor, newcomers, stop_);
  if (!chain.is_in()) return;
  visit(state_);  // a newcomer's state tells the names
  passing_ = begin_work([this, chain]() mutable {
    try {
      const Timer timer;
      state_.visit_all(chain);
      bytes_ = chain.bytes();
      seconds_ = timer.seconds();
    } catch (const std::exception& error) {
      if (!stop_) communicator_->give_up(error.what());  // otherwise others know why the group changes
      throw;
    }
  });
}

NewcomerState::~NewcomerState() { stop_ = true; }

bool NewcomerState::wait_for(std::chrono::milliseconds time) {
  if (!passing_.valid()) return true;
  if (passing_.wait_for(time) != std::future_status::ready) return false;
  passing_.get();
  return true;
}

void NewcomerState::give(const Visit& visit) {
  state_.give();
  visit(state_);
}

// A follower would have to know at once the scale of the loss, the choices of a plateau, and batch-norm statistics if
// they are averaged in each step. With local steps a newcomer starts with the donor's optimiser of some rounds ago. Its
// mean of iterates would lack the iterates of these rounds. And Adam corrects the bias of its moments by the number of
// steps, so it would take moments of the first steps for moments of later ones.
bool Newcomers::may_follow(std::uint64_t step) {
  constexpr std::uint64_t first_steps = 1000;
  Session& run = session_;
  const Optimiser& optimiser = run.replica().optimiser();
  const bool may_be_old = optimiser.to_evaluate().empty() && (optimiser.may_reset_buffers() || step >= first_steps);
  return run.algorithm().elastic()->following() != nullptr && run.world().failure.empty() && run.idle() == 0 &&
         run.options().partition == "iid" && !run.averages_batch_norm() && run.replica().loss_scale() == nullptr &&
         run.schedule().plateau() == nullptr && optimiser.offers_gradient() && (run.replicated() || may_be_old) &&
         std::ranges::all_of(run.plan().phases,
                             [&](const Phase& phase) { return ignores_zeros(phase.recipe, run.replica().buckets()); });
}

std::vector<int> Newcomers::ranks() {
  const std::vector<int> is_new = session_.gather(is_new_ ? 1 : 0);
  std::vector<int> ranks;
  for (std::size_t rank = 0; rank < is_new.size(); ++rank) {
    if (is_new[rank] != 0) ranks.push_back(static_cast<int>(rank));
  }
  return ranks;
}

void Newcomers::give_state(int donor, const std::vector<int>& ranks, std::uint64_t step) {
  state_ = std::make_unique<NewcomerState>(session_.communicator().clone(), donor, ranks,
                                           [this](StateCopy& state) { visit_shared(state); });
  if (session_.followers().empty()) {
    bring_up_to_date(step);
    state_.reset();
  } else {
    const auto all = static_cast<float>(session_.ranks());
    session_.algorithm().elastic()->following()->set_weight(
        session_.follows() ? 0 : all / static_cast<float>(session_.trainers()),
        [this] { return wishes_to_join() || StopSignal::caught() != 0; });
  }
}

// Visits the state that newcomers get from others.
void Newcomers::visit_shared(StateCopy& state) {
  Task& task = session_.task();
  if (!session_.algorithm().elastic()->meets_models()) state.visit("parameters", task.parameters());
  state.visit("buffers", task.buffers());
  session_.replica().visit_state(state);
  session_.algorithm().elastic()->visit_shared(state);
}

void Newcomers::bring_up_to_date(std::uint64_t done) {
  Communicator& communicator = session_.communicator();
  for (float waits = 1; waits > 0;) {
    waits = is_up_to_date(communicator.deadlines().least() / 4) ? 0 : 1;
    communicator.all_reduce(std::span(&waits, 1), ReduceOp::max);
  }
  log_.say(fmt::format("newcomers have the state: {:.3f} MB in {:.2f} s", static_cast<double>(state_->bytes()) / 1e6,
                       state_->seconds()));
  if (session_.followers().empty()) return;
  Task& task = session_.task();
  const bool follows = session_.follows();
  std::vector<float> others(task.buffers().begin(), task.buffers().end());  // others keep their own buffers
  if (!others.empty()) communicator.broadcast(std::as_writable_bytes(std::span(others)), session_.first_trainer());
  if (follows) std::ranges::copy(others, task.buffers().begin());
  if (done == 0 || session_.algorithm().exchanges(done - 1)) return;
  // Within a round of local steps a newcomer counts as the mean of the others, so the mean of all is that.
  others.assign(task.parameters().begin(), task.parameters().end());
  if (follows) std::ranges::fill(others, 0.0F);
  aggregate(others, Op::avg, communicator, session_.trainers());
  if (follows) std::ranges::copy(others, task.parameters().begin());
}

// Receives, passes on and catches up for about `time`. Returns whether this rank is done with all three.
bool Newcomers::is_up_to_date(std::chrono::milliseconds time) {
  const auto until = Clock::now() + time;
  if (!state_->wait_for(time)) return false;
  if (is_new_ && !has_state_) state_->give([this](StateCopy& state) { visit_shared(state); });
  has_state_ = true;
  return !session_.follows() || session_.algorithm().elastic()->catch_up(session_.replica(), until);
}

bool Newcomers::wishes_to_join() {
  if (!state_) return false;
  constexpr std::size_t most_bytes = std::size_t{1} << 30;
  const bool arrived = state_->wait_for({});
  return session_.follows() && (arrived || session_.algorithm().elastic()->following()->kept_bytes() > most_bytes);
}

}  // namespace sotto
