#include "sotto/train/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <exception>
#include <numeric>
#include <optional>

#include "sotto/aggregate/aggregate.h"
#include "sotto/aggregate/aggregator.h"
#include "sotto/comm/mpi.h"
#include "sotto/comm/nccl.h"
#include "sotto/comm/shaped.h"
#include "sotto/core/error.h"
#include "sotto/core/file.h"
#include "sotto/optim/averaged.h"
#include "sotto/optim/schedule.h"
#include "sotto/train/batch_norm.h"
#include "sotto/train/buckets.h"
#include "sotto/train/calendar.h"
#include "sotto/train/capture.h"
#include "sotto/train/groups.h"
#include "sotto/train/identity.h"
#include "sotto/train/optimiser.h"
#include "sotto/train/plan.h"
#include "sotto/train/progress.h"
#include "sotto/train/recorder.h"
#include "sotto/train/run_folder.h"
#include "sotto/train/stop_signal.h"
#include "sotto/train/summary.h"
#include "sotto/train/test_result.h"

namespace sotto {
namespace {

std::unique_ptr<Communicator> connect(const TrainOptions& options, const World& world, const Links& links) {
  const std::chrono::seconds deadline(options.deadline);
  auto communicator = options.backend == "mpi"    ? connect_mpi(world, deadline)
                      : options.backend == "nccl" ? connect_nccl(world, deadline, StopSignal::caught)
                                                  : connect_gloo(world, {.interface = options.interface,
                                                                         .address = options.address,
                                                                         .deadline = deadline,
                                                                         .connect_deadline = deadline,
                                                                         .stop = StopSignal::caught});
  if (options.link.empty()) return communicator;
  return make_shaped(std::move(communicator), links);
}

// A model that is so much worse than guessing has learned nothing, whatever its numbers are.
void require_sense(const TestResult& tested, std::int64_t classes, std::uint64_t step) {
  constexpr double far = 100;
  const double guessing = std::log(static_cast<double>(std::max<std::int64_t>(2, classes)));
  if (std::isfinite(tested.loss) && tested.loss <= far * guessing) return;
  throw NumericError(
      fmt::format("the training diverged: its test loss is {:.3g} after step {}, and guessing has {:.3g}; a smaller "
                  "--lr or a --schedule with warmup may help",
                  tested.loss, step, guessing));
}

// One run, from the meeting of the ranks to the summary; train() below gives the order.
class Trainer {
 public:
  Trainer(const TrainOptions& options, const World& world)
      : options_(options),
        train_(open_dataset(options.data, Split::train)),
        test_(open_dataset(options.data, Split::test)),
        model_(make_model("--model", options.model, train_->shape(), train_->classes(), seed())),
        idle_(idle_ranks("--algorithm", options.algorithm, world.size)),
        loader_(*train_, {seed(), std::max(0, world.rank - idle_), world.size - idle_, size(options.batch_size), 2}),
        optimiser_(chosen_optimiser(options)),
        replica_(*model_, make_step(), loader_, plan_buckets(model_->layout(), options), accumulate(), seed(),
                 world.rank),
        plan_(plan_run(options, loader_.steps_per_epoch(), replica_.optimiser().dense_steps())),
        calendar_(options, loader_.steps_per_epoch(), plan_.steps),
        schedule_(make_schedule("--schedule", options.schedule, plan_.horizon, plan_.steps_per_epoch)),
        method_(method()),
        replicated_(algorithm_entry("--algorithm", options.algorithm).replicated),
        averages_batch_norm_(averages_batch_norm(options, *model_, world.size)),
        capture_(options.capture),
        progress_(world.starter),
        links_(options.link.empty() ? Links{} : parse_links("--link", options.link, world.size)),
        communicator_(connect(options, world, links_)),
        algorithm_(agreed_algorithm()),
        together_(algorithm_->counts_together()) {}

  TrainResult run() {
    RunFolder folder(options_, *communicator_);
    folder_ = &folder;
    if (!folder.lock_doubt().empty()) say("warning: " + folder.lock_doubt());
    if (options_.resume) resume(folder);
    done_ = folder.start_step();
    first_steps_ = rank_steps();
    folder.begin(first_steps_);
    if (communicator_->rank() == 0 && !links_.file.empty()) {
      write_file_atomic(folder.path() / "link.toml", links_.file);
    }
    const Links::Rank link = links_.rank(communicator_->rank());
    replica_.slow_down({link.compute, link.delay});
    if (!plan_.remark.empty()) say(plan_.remark);
    if (plan_.only_dense()) {
      say(fmt::format("warning: the codec would begin at step {}, and this run ends at step {}: all of it sends more",
                      plan_.phases.back().first_step, plan_.steps));
    }
    const std::string doubt = doubt_about("--codec", plan_.phases.back().method, replica_.buckets());
    if (!doubt.empty()) say("warning: " + doubt);
    Recorder recorder(folder.path(), communicator_->rank());
    recorder_ = &recorder;

    TrainResult result;
    result.train_dir = folder.path().string();
    const std::uint64_t first = first_steps_[own_rank()];
    std::uint64_t step = first;  // this rank's next one
    meeting_ = calendar_.next_meeting(done_);
    counted_ = traffic();
    for (bool stop = false; done_ < plan_.steps && !stop; ++step) stop = train_step(step);
    result.steps = done_;
    algorithm_->rest();
    if (remark_.empty()) remark_ = algorithm_->remark();  // what the last step chose
    attempt([this] { capture_.finish(); });
    const int urgency = agreed_urgency();
    save(false);
    if (urgency >= StopSignal::failed_rank) end_in_error(urgency - StopSignal::failed_rank);
    if (done_ < plan_.steps) result.signal = std::max(1, StopSignal::of_urgency(urgency));
    if (!is_tested_) evaluate();
    result.test_accuracy = tested_.accuracy;
    if (step > first) {
      summarise(result, folder.start_step());
    } else {
      say("nothing was left to do: summary.json stays as it was");
    }
    if (result.signal == 0) require_sense(tested_, test_->classes(), done_);
    return result;
  }

 private:
  std::unique_ptr<Optimiser> make_step() {
    const std::size_t parameters = model_->layout().size();
    auto optimiser = make_optimiser("--optimiser", optimiser_.sentence, parameters);
    if (options_.average_iterates == 0) return optimiser;
    return std::make_unique<Averaged>(std::move(optimiser), options_.average_iterates, parameters);
  }

  // Before ranks of different algorithms send each other anything.
  std::unique_ptr<Algorithm> agreed_algorithm() {
    require_same_start(options_, links_, *train_, *test_, model_->parameters(), *communicator_);
    return make_algorithm("--algorithm", options_.algorithm,
                          {.codec = options_.codec,
                           .aggregator = options_.aggregator,
                           .topology = options_.topology,
                           .mixing = options_.mixing,
                           .node_size = static_cast<int>(options_.node_size),
                           .overlap = options_.overlap,
                           .seed = seed(),
                           .codec_threads = static_cast<int>(options_.codec_threads),
                           .phases = plan_.phases,
                           .topologies = plan_.topologies},
                          replica_.buckets(), *communicator_);
  }

  static std::size_t size(std::int64_t value) { return static_cast<std::size_t>(value); }
  std::uint64_t seed() const { return static_cast<std::uint64_t>(options_.seed); }
  // A bad one is told before the ranks meet.
  std::string method() const {
    check_phases("--codec", plan_.phases, replica_.buckets());
    return canonical_phases("--codec", plan_.phases);
  }
  std::uint64_t accumulate() const { return static_cast<std::uint64_t>(options_.accumulate); }

  std::size_t own_rank() const { return static_cast<std::size_t>(communicator_->rank()); }
  // The steps that each rank has made. REQUIRES rest().
  std::vector<std::uint64_t> rank_steps() const {
    if (together_) return algorithm_->rank_steps();
    return std::vector<std::uint64_t>(static_cast<std::size_t>(communicator_->size()), done_);
  }
  // A step of the run is one of each rank. Of ranks that count together it is as many steps as there are ranks, whoever
  // made them: this is the one that they have come to.
  std::uint64_t step_of_meeting() const {
    const std::vector<std::uint64_t> steps = rank_steps();
    return calendar_.step_of_meeting(
        meeting_, std::reduce(steps.begin(), steps.end()) / static_cast<std::uint64_t>(communicator_->size()));
  }

  checkpoint::Metadata identity() const {
    return run_identity(options_, method_, optimiser_, model_->layout(), communicator_->size());
  }

  // This rank's step of that number. Returns whether training ends here.
  bool train_step(std::uint64_t step) {
    const std::uint64_t before = done_, rate_step = algorithm_->rate_step(step);
    StepRow row;
    row.step = step;
    row.epoch = calendar_.epochs_at(together_ ? rate_step : step);
    row.lr = optimiser_.lr * schedule_->factor(rate_step);
    const bool captured = communicator_->rank() == idle_ && capture_.due(step) && !error_;
    if (captured) {
      attempt([&] { replica_.copy_next_gradient(capture_.room(model_->gradient().size())); });
    }
    row.report = algorithm_->step(replica_, {step, row.lr, wishes_to_pause(), meeting_});
    is_saved_ = is_tested_ = false;
    if (!together_) done_ = step + 1;
    const bool completes = row.report.stop || row.report.meets || done_ == plan_.steps || averages_batch_norm_ ||
                           calendar_.due(before, done_).any();
    if (completes) {  // others are about to use the communicator, and rows tell what a step needed
      algorithm_->complete(row.report);
      algorithm_->rest();
    }
    if (row.report.meets) {
      done_ = step_of_meeting();
      meeting_ = calendar_.next_meeting(done_);
    }
    if (averages_batch_norm_) average_batch_norm(row.report);
    row.data_seconds = replica_.data_seconds();
    const Traffic now = traffic();
    row.bytes_sent = now.bytes_sent - counted_.bytes_sent;
    row.bytes_received = now.bytes_received - counted_.bytes_received;
    counted_ = now;
    attempt([&] {
      recorder_->add(row);
      if (captured && !error_) capture_.write(step, model_->layout());
    });
    say_of_rows();
    announce_phase(step);
    if (remark_.empty() && !(remark_ = algorithm_->remark()).empty()) say(remark_);

    if (options_.final_average && done_ == plan_.steps) {
      algorithm_->rest();
      algorithm_->agree(replica_);
    }
    const Calendar::Due due = calendar_.due(before, done_);
    if (due.comparison) check_replicas();
    show(row, std::max(done_, together_ ? rate_step : 0));
    if (due.evaluation) evaluate();
    if (due.checkpoint) save(false);
    if (due.evaluation && done_ < plan_.steps && !algorithm_->can_go_on()) save_if_late();
    const bool pauses = row.report.stop || row.report.meets;
    const bool ends = pauses && (done_ == plan_.steps || !goes_on());
    if (completes) counted_ = traffic();  // otherwise what has left since is in the next row
    return ends;
  }

  // What a step of training does beside it, with files, fails later: behind a checkpoint of all ranks.
  template <class F>
  void attempt(F&& f) {
    try {
      f();
    } catch (const FileError&) {
      if (!error_) error_ = std::current_exception();
    }
  }

  bool checkpoint_is_late() const {
    return communicator_->rank() == 0 && options_.checkpoint_minutes > 0 &&
           since_checkpoint_.seconds() > 60 * options_.checkpoint_minutes;
  }

  // Whether this rank would like all to stop behind the same step: to end, or for a checkpoint only.
  bool wishes_to_pause() const {
    return StopSignal::caught() != 0 || error_ || (checkpoint_is_late() && algorithm_->can_go_on());
  }

  // All ranks have stopped together; if nobody wants to end they go on, and make a checkpoint first when it is late.
  bool goes_on() {
    if (agreed_urgency() != 0) return false;
    save_if_late();
    algorithm_->go_on();
    return true;
  }

  void save_if_late() {
    auto late = checkpoint_is_late() ? 1.0F : 0.0F;
    communicator_->all_reduce(std::span(&late, 1), ReduceOp::max);
    if (late > 0) save(true);
  }

  // Of the rank that failed the error is told, of the others that it did.
  void end_in_error(int rank) {
    say(fmt::format("step {}  stopped because of an error of rank {}, with a checkpoint", done_, rank));
    if (error_) std::rethrow_exception(error_);
    throw CommError(fmt::format("rank {} ended the run behind step {} because of an error", rank, done_));
  }

  // Goes on from the newest checkpoint that is whole.
  void resume(RunFolder& folder) {
    for (const std::string& line : folder.choose_checkpoint(identity())) say("left aside: " + line);
    if (folder.start_step() == 0) return say("no checkpoint yet: starting at step 0");
    algorithm_->enter(folder.start_step());
    folder.load(replica_, *algorithm_);
    is_saved_ = true;
    kept_ = folder.start_step();
    say(fmt::format("resumed from {}", checkpoint::folder(folder.path(), folder.start_step()).string()));
  }

  // REQUIRES a replicated algorithm, and complete().
  void average_batch_norm(StepReport& report) {
    const Timer timer;
    aggregate(model_->buffers(), Op::avg, *communicator_);
    const double seconds = timer.seconds();
    report.phases.network += seconds;
    report.wait += seconds;
    report.seconds += seconds;
  }

  void announce_phase(std::uint64_t step) {
    const auto begins = std::ranges::find(plan_.phases, step, &Phase::first_step);
    if (plan_.phases.size() == 1 || begins == plan_.phases.end()) return;
    say(fmt::format("step {}  codec {}", step, begins->method));
    remark_.clear();  // what it chooses is said again
  }

  Traffic traffic() const {
    Traffic all = communicator_->traffic();
    const Traffic own = algorithm_->traffic();
    all.bytes_sent += own.bytes_sent;
    all.bytes_received += own.bytes_received;
    return all;
  }

  void check_replicas() {
    algorithm_->rest();
    require_same_parameters(model_->parameters(), fmt::format("has other parameters than rank 0 after step {}", done_),
                            *communicator_);
  }

  void save(bool rolling) {
    if (is_saved_ || (rolling && kept_ == done_)) return;
    attempt([this] { recorder_->flush(); });  // rows of checkpointed steps are on the disk before the checkpoint is
    say_of_rows();
    algorithm_->rest();
    algorithm_->enter(done_);
    lend_batch_norm(*model_, idle_, *communicator_);
    folder_->save(done_, rolling, replica_, *algorithm_, identity());
    is_saved_ = true;
    if (!rolling) kept_ = done_;
    since_checkpoint_.lap();
  }

  void evaluate() {
    algorithm_->rest();
    lend_batch_norm(*model_, idle_, *communicator_);
    tested_ = test_together(replica_, replicated_, *test_, size(options_.test_batch_size), *communicator_);
    is_tested_ = true;
    say(fmt::format("step {}  {}", done_, tested_.text()));
  }

  void show(const StepRow& row, std::uint64_t done) {
    if (communicator_->rank() != 0 || !(progress_.due() || done == plan_.steps)) return;
    const StepReport& r = row.report;
    const double remaining = static_cast<double>(plan_.steps - done) * r.seconds;
    progress_.show(fmt::format(
        "step {}/{}  epoch {:.2f}  loss {:.4f}  {:.1f} ms (compute {:.1f}, encode {:.1f}, network {:.1f}, decode "
        "{:.1f})  "
        "{:.1f} KB sent  {:.0f} s left",
        done, plan_.steps, calendar_.epochs_at(done), r.loss, r.seconds * 1e3, r.compute * 1e3, r.phases.encode * 1e3,
        r.phases.network * 1e3, r.phases.decode * 1e3, static_cast<double>(row.bytes_sent) / 1e3, remaining));
  }

  void say_of_rows() {
    if (const std::string remark = recorder_->take_remark(); !remark.empty()) say("warning: " + remark);
  }

  void say(const std::string& line) {
    if (communicator_->rank() == 0) progress_.say(line);
  }

  // What ends the run, on whichever rank it happened: an error, a signal, or 0. Collective.
  int agreed_urgency() {
    auto urgency = static_cast<double>(error_ ? StopSignal::failed_rank + communicator_->rank()
                                              : StopSignal::urgency(StopSignal::caught()));
    communicator_->all_reduce(std::span(&urgency, 1), ReduceOp::max);
    return static_cast<int>(urgency);
  }

  void summarise(const TrainResult& result, std::uint64_t first_step) {
    const bool alike = all_in_step("--algorithm", options_.algorithm, communicator_->size());
    Recorder::Figures figures = recorder_->means();
    const AlgorithmEntry& entry = algorithm_entry("--algorithm", options_.algorithm);
    const bool own_speed = entry.own_speed || (entry.replicated && !alike);
    const std::vector<std::uint64_t> steps = rank_steps();
    if (own_speed) {  // what is sent belongs to no step, and rows end before it does
      const std::uint64_t made = steps[own_rank()] - first_steps_[own_rank()];
      figures.bytes_sent = static_cast<double>(algorithm_->traffic().bytes_sent) / static_cast<double>(made);
    }
    const auto exchanges = algorithm_->exchange_count();
    const std::array<std::uint64_t, 3> mine = {traffic().bytes_sent, static_cast<std::uint64_t>(figures.bytes_sent),
                                               exchanges.value_or(0)};
    std::vector<std::uint64_t> all(mine.size() * static_cast<std::size_t>(communicator_->size()));
    communicator_->all_gather(std::as_bytes(std::span(mine)), std::as_writable_bytes(std::span(all)));
    if (communicator_->rank() != 0) return;

    Summary summary;
    summary.options = options_;
    summary.method = method_;
    summary.optimiser = optimiser_.sentence;
    summary.lr = optimiser_.lr;
    summary.aggregator = algorithm_->aggregator();
    summary.remark = remark_;
    summary.step = figures;
    summary.median_step_ms = recorder_->median_step_ms();
    summary.first_step = first_step;
    summary.steps = result.steps;
    if (entry.own_speed) summary.rank_steps = steps;
    summary.signal = result.signal;
    summary.tested = tested_;
    for (std::size_t i = 0; i < all.size(); i += mine.size()) {
      summary.bytes_sent.push_back(all[i]);
      summary.bytes_per_step.push_back(all[i + 1]);
      if (exchanges) summary.exchanges.push_back(all[i + 2]);
    }
    summary.dense_bytes_per_step = communicator_->all_reduce_bytes(model_->layout().size(), DType::f32);
    summary.parameters = model_->layout().numel();
    summary.parameters_sha256 = folder_->parameters_sha256();
    summary.seconds = total_.seconds();
    write_summary(folder_->path() / "summary.json", summary);
  }

  Timer total_;
  StopSignal signals_;
  TrainOptions options_;
  std::unique_ptr<Dataset> train_, test_;
  std::unique_ptr<Model> model_;
  int idle_;  // so many ranks, the first ones, train nothing
  Loader loader_;
  ChosenOptimiser optimiser_;
  Replica replica_;
  RunPlan plan_;
  Calendar calendar_;
  std::unique_ptr<Schedule> schedule_;
  std::string method_;
  bool replicated_;
  bool averages_batch_norm_;
  Capture capture_;
  Progress progress_;
  Links links_;
  std::unique_ptr<Communicator> communicator_;
  std::unique_ptr<Algorithm> algorithm_;
  bool together_;  // Algorithm::counts_together()

  std::uint64_t done_ = 0, meeting_ = 0;    // steps of the run, and those behind which ranks meet next
  std::vector<std::uint64_t> first_steps_;  // of each rank, since the last start
  RunFolder* folder_ = nullptr;
  Recorder* recorder_ = nullptr;
  std::exception_ptr error_;  // of this rank, which ends the run behind the step at hand
  Timer since_checkpoint_;
  Traffic counted_;     // that is in rows, or in none of them
  std::string remark_;  // what was chosen, once it was said
  TestResult tested_;
  bool is_saved_ = false, is_tested_ = false;  // the model as it is
  std::optional<std::uint64_t> kept_;          // the step of the last checkpoint that stays
};

}  // namespace

TrainResult train(const TrainOptions& options, const World& world) {
  // Our launcher sets the variables of OpenMP before torch can read them; another starter must do so itself.
  if (options.threads > 0 && world.starter != "sotto") {
    throw ConfigError(fmt::format("--threads {}: {} started this rank; set OMP_NUM_THREADS there instead",
                                  options.threads, world.starter));
  }
  return Trainer(with_groups(options, world), world).run();
}

}  // namespace sotto
