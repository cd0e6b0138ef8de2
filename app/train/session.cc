#include "app/train/session.h"

#include <fmt/format.h>

#include "app/train/folder/weights.h"
#include "app/train/group_state.h"
#include "app/train/identity.h"
#include "app/train/record/gradient_study.h"
#include "sotto/aggregate/aggregate.h"
#include "sotto/comm/emulated/shaped.h"

namespace sotto {
namespace {

// Meets the other ranks over the chosen transport, and adds the emulated links, if any.
std::unique_ptr<Communicator> connect_ranks(const Choices& choices, const World& world) {
  const TrainOptions& options = choices.options;
  TransportOptions transport = options.transport;
  transport.deadline = transport.connect_deadline = std::chrono::seconds(options.deadline);
  transport.stop = world.generation > 1 && !world.ends_at_signal() ? Stop() : StopSignal::caught;
  auto communicator = choices.transport->connect(world, transport);
  return options.link ? make_shaped(std::move(communicator), choices.links) : std::move(communicator);
}

}  // namespace

Session::Session(Choices choices, const World& world, const Rollback* rollback)
    : world_(world),
      choices_(std::move(choices)),
      may_change_(rollback != nullptr),
      idle_(idle_ranks(choices_.algorithm, world.size)),
      task_(make_task(choices_, {std::max(0, world.rank - idle_), world.size - idle_})),
      weights_doubt_(start_from_weights(options(), *task_)),
      replica_(*task_, make_optimiser(choices_.optimiser, task_->layout()),
               plan_buckets(task_->layout(), choices_.buckets), static_cast<std::uint64_t>(options().accumulate),
               static_cast<std::uint64_t>(options().seed), world.rank),
      course_(task_->epochs(), step_size()),
      plan_(plan_run(choices_, course_, replica_.optimiser().dense_steps())),
      calendar_(options(), course_, plan_.steps),
      schedule_(make_schedule(choices_.schedule, plan_.horizon, plan_.epoch)),
      method_(planned_method()),
      averages_batch_norm_(sotto::averages_batch_norm(choices_, *task_, world.size)),
      interruption_(!may_change_ && world.rank > 0 ? 0 : options().checkpoint_minutes, world.rank,
                    may_change_ ? rollback->since_checkpoint : Timer()) {
  if (may_change_ && rollback->last()) former_run_ = rollback->manifest(*rollback->last()).run;
  if (Plateau* plateau = schedule_.plateau()) replica_.keep(*plateau);
  if (scales_loss(choices_.amp)) replica_.scale_loss(choices_.amp.options.as<LossScaleOptions>());
  if (clips(choices_.optimiser.clip, "before")) replica_.clip_gradients(choices_.optimiser.clip);
}

void Session::meet() {
  communicator_ = connect_ranks(choices_, world_);
  // Comes first, before ranks with different algorithms could send each other anything.
  require_same_start(choices_, *task_, *communicator_, may_change_);
  algorithm_ = make_planned_algorithm();
  identity_ = run_identity(choices_, method_, *task_, ranks());
  folder_.emplace(choices_, *communicator_, world_.generation, former_run_);
  check_captured_memory(choices_, *algorithm_, replica_.buckets());
  const Links::Rank link = choices_.links.rank(rank());
  replica_.slow_down({link.compute, link.delay});
}

std::unique_ptr<Algorithm> Session::make_planned_algorithm() {
  made_method_ = method_;
  return make_algorithm(choices_.algorithm,
                        {.phases = plan_.phases,
                         .topology = choices_.topology,
                         .mixing = choices_.mixing,
                         .node_size = static_cast<int>(options().node_size),
                         .overlap = options().overlap,
                         .seed = static_cast<std::uint64_t>(options().seed),
                         .codec_threads = static_cast<int>(options().codec_threads),
                         .topologies = plan_.topologies},
                        replica_.buckets(), *communicator_);
}

// A bad method is reported before the ranks meet.
std::string Session::planned_method() const {
  check_phases(plan_.phases, replica_.buckets());
  return text_of(plan_.phases);
}

void Session::set_followers(std::vector<int> ranks) {
  followers_ = std::move(ranks);
  identity_["ranks"] = std::to_string(trainers() + idle_);
}

bool Session::follows() const { return std::ranges::find(followers_, rank()) != followers_.end(); }

// The first rank that is no follower.
int Session::first_trainer() const {
  int rank = idle_;
  while (std::ranges::find(followers_, rank) != followers_.end()) ++rank;
  return rank;
}

StepSize Session::step_size() const {
  return {static_cast<std::uint64_t>(trainers()), static_cast<std::uint64_t>(options().batch_size),
          static_cast<std::uint64_t>(options().accumulate)};
}

std::vector<std::string> Session::doubts() {
  return {weights_doubt_, groups_doubt("group", choices_.optimiser.groups, task_->layout()),
          plan_.doubt(choices_.algorithm, replica_.buckets())};
}

void Session::take_up(const Manifest& manifest, bool in_memory) {
  const std::string folder = checkpoint::folder(folder_->path(), manifest.step).string();
  const bool same = require_resumable(choices_, folder, manifest, identity_, in_memory);

  Course course(Epochs::of(task_->epochs().each), step_size());
  if (!manifest.course.empty()) course = Course::of_text(manifest.course);
  if (course.start().position > manifest.step * course.size().accumulate) {
    throw FileError(folder + ": its course begins after its step");
  }
  take_course(same ? std::move(course) : course.changed(manifest.step, step_size()));
  require_identity(folder, manifest.identity, {{"codec", method_}});
}

// From now on, the data, the plan and the schedule follow this course.
void Session::take_course(Course course) {
  const auto before = static_cast<int>(std::ranges::count_if(followers_, [&](int other) { return other < rank(); }));
  const Share share{std::clamp(rank() - idle_ - before, 0, trainers() - 1), trainers()};  // followers read no examples
  task_->go_on(course.start(), share);
  course.set_epochs(task_->epochs());
  course_ = std::move(course);
  plan_ = plan_run(choices_, course_, replica_.optimiser().dense_steps());
  calendar_ = Calendar(options(), course_, plan_.steps);
  schedule_ = make_schedule(choices_.schedule, plan_.horizon, plan_.epoch);
  identity_["codec"] = method_ = planned_method();
}

void Session::enter(std::uint64_t step) {
  if (method_ != made_method_) algorithm_ = make_planned_algorithm();  // the course has changed the phases
  algorithm_->enter(step);
}

void Session::resume(RunTotals& totals, const std::function<void(const std::string&)>& say) {
  const auto left_aside = folder_->choose_checkpoint([this](const Manifest& manifest) { take_up(manifest, false); });
  for (const std::string& line : left_aside) say("left aside: " + line);
  const std::uint64_t step = folder_->start_step();
  const int written_by = folder_->written_by();
  if (step == 0) return say("no checkpoint yet: starting at step 0");
  if (written_by != ranks()) {
    say(
        fmt::format("rank count changed from {} to {}: what is left of epoch {} comes first, what ranks held back "
                    "becomes their mean, schedules continue by examples",
                    written_by, ranks(), course_.epoch_of(step)));
  }
  enter(step);
  folder_->load(replica_, *algorithm_, totals);
  if (written_by != ranks() && algorithm_->own_speed() != nullptr) algorithm_->own_speed()->begin_at(step);
  say(fmt::format("resumed from {}", checkpoint::folder(folder_->path(), step).string()));
}

Manifest Session::manifest() const {
  return {.run = folder_->run(), .course = course_.text(), .identity = identity_, .parts = {}};
}

Manifest Session::manifest_of_all(std::uint64_t step) const {
  Manifest manifest = this->manifest();
  manifest.step = step;
  if (followers_.empty()) return manifest;
  StepSize all = course_.size();
  all.ranks += followers_.size();
  manifest.course = course_.changed(step, all).text();
  manifest.identity["ranks"] = std::to_string(ranks());
  return manifest;
}

}  // namespace sotto
