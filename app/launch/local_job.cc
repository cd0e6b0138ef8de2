#include "app/launch/local_job.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <thread>
#include <utility>

#include "adapters/c10d/compute_threads.h"
#include "app/launch/share.h"
#include "sotto/comm/group/tcp_store.h"
#include "sotto/core/error.h"
#include "sotto/core/options.h"

namespace sotto {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds grace{1000};       // after the first failure, to end by themselves
constexpr milliseconds last_grace{1500};  // until those that SIGTERM did not end are killed
constexpr std::size_t longest_line = 1 << 16;

}  // namespace

LocalJob::LocalJob(const LaunchSpec& spec, Console& console, OnProgress on_progress)
    : Job(spec, console, std::move(on_progress)), plan_(0, std::numeric_limits<std::size_t>::max()) {
  choose_meeting_place();
  try {
    begin();
  } catch (const Error&) {
    kill_and_wait();
    throw;
  }
  if (spec_.share != nullptr) console_.while_blocked([this] { return hears_launcher(); });
}

void LocalJob::begin() {
  if (is_planned()) return begin_plan();
  ranks_.resize(static_cast<std::size_t>(spec_.ranks));
  if (is_ordered()) return begin_empty();
  if (is_elastic()) {
    group_.emplace(spec_, *store_, static_cast<RankStarter&>(*this), console_);
    group_->begin(ranks_.size());
  }
  for (std::size_t r = 0; r < ranks_.size(); ++r) start(r, 1);
}

// All ranks are started later.
void LocalJob::begin_empty() {
  for (Rank& rank : ranks_) {
    rank.lost = true;
    rank.ended = 0;
  }
}

void LocalJob::choose_meeting_place() {
  const bool elsewhere = spec_.share != nullptr && !spec_.share->serves;
  if (elsewhere || spec_.coordinated) {
    master_ = spec_.master;
    return;
  }
  const std::string& asked = spec_.master;
  const auto [host, port] = asked.empty()
                                ? MeetingPlace{"127.0.0.1", 0}
                                : read_meeting_place(named("master", asked), asked, spec_.share == nullptr ? 1 : 0);
  store_.emplace(TcpStores(spec_.secret), host, port);
  master_ = text_of(MeetingPlace{host, store_->port()});
  if (spec_.share != nullptr) spec_.share->serves(master_);
}

void LocalJob::start(std::size_t rank, std::uint64_t generation) {
  std::vector<std::string> arguments{"sotto"};
  arguments.insert(arguments.end(), spec_.arguments.begin(), spec_.arguments.end());
  Rank started;
  started.process =
      spawn(spec_.program, arguments, environment(rank, generation), spec_.share == nullptr ? -1 : spec_.share->secret);
  ranks_[rank] = std::move(started);
}

LocalJob::~LocalJob() {
  kill_and_wait();
  if (spec_.share != nullptr) console_.while_blocked(nullptr);
}

void LocalJob::kill_and_wait() {
  kill_all(SIGKILL);
  for (Rank& rank : ranks_) {
    if (!rank.ended && rank.process.pid > 0) rank.ended = rank.process.wait();
  }
}

bool LocalJob::running() const {
  const bool awaits_orders = is_ordered() && !dismissed_ && !failed_ && killing_ == 0 && stop_ == 0;
  return awaits_orders || std::ranges::any_of(ranks_, [](const Rank& rank) { return !rank.ended; });
}

void LocalJob::add_to(std::vector<pollfd>& polled) const {
  for (const Rank& rank : ranks_) rank.process.add_to(polled);
  if (spec_.share != nullptr) spec_.share->orders->add_to(polled);
}

std::optional<Clock::time_point> LocalJob::next_step() const {
  if ((group_ || is_planned()) && !failed_) return Clock::now() + poll_interval;
  if (killing_ == SIGKILL) return std::nullopt;
  // What has ended is polled no more.
  if (!failed_ && spec_.share != nullptr) return spec_.share->orders->ended() ? Clock::now() : heard_ + longest_silence;
  if (!failed_) return std::nullopt;
  return *failed_ + (killing_ == 0 ? grace : last_grace);
}

void LocalJob::pass_on(int number) {
  if (number == SIGUSR1 && (stop_ != 0 || killing_ != 0)) return;
  if ((stop_ != 0 && stop_ != SIGUSR1) || killing_ != 0) {
    kill_all(SIGKILL);
    return;
  }
  stop_ = number;
  if (group_) group_->stop("the job was stopped by " + name_of_signal(number));
  for (const Rank& rank : ranks_) {
    if (!rank.ended) kill(rank.process.pid, number);
  }
}

// The launcher is on another machine. When nothing is heard from it any more, nobody waits for this job or reads what
// its ranks print.
bool LocalJob::hears_launcher() {
  HostMessageReader& orders = *spec_.share->orders;
  if (orders.read()) heard_ = Clock::now();
  return !orders.ended() && Clock::now() - heard_ <= longest_silence;
}

void LocalJob::follow_orders() {
  const bool alone = !hears_launcher();
  while (const auto order = spec_.share->orders->next()) {
    if (order->kind == "stop") pass_on(static_cast<int>(parse_int("stop", order->text, {1, 64})));
    if (is_ordered()) follow_group_order(*order);
  }
  if (alone && killing_ != SIGKILL) kill_all(SIGKILL);
}

void LocalJob::look_after() {
  if (spec_.share != nullptr) follow_orders();
  read_all();
  reap();
  if (group_) look_after_group();
  if (is_planned()) follow_plan();
  escalate();
}

LaunchResult LocalJob::result() {
  read_all();
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    if (!ranks_[r].out.empty()) show_line(r, stdout, ranks_[r].out);
    if (!ranks_[r].err.empty()) show_line(r, stderr, ranks_[r].err);
  }
  LaunchResult result = decide();
  if (result.status != 0) result.lines.assign(held_.begin(), held_.end());
  result.warnings = warnings_;
  return result;
}

std::vector<std::string> LocalJob::environment(std::size_t rank, std::uint64_t generation) const {
  const std::size_t id = rank;
  if (is_planned()) {
    const std::vector<int>& ids = spec_.groups.at(generation - 1).ids;
    rank = static_cast<std::size_t>(std::ranges::find(ids, static_cast<int>(id)) - ids.begin());
  }
  const std::int64_t cores = std::max(1U, std::thread::hardware_concurrency());
  const std::int64_t threads = spec_.threads.value_or(std::max<std::int64_t>(1, cores / (spec_.ranks * spec_.beside)));
  const auto& coordinated = spec_.coordinated;
  std::vector<std::string> variables{
      fmt::format("SOTTO_RANK={}", coordinated ? rank : number(rank)),
      fmt::format("SOTTO_RANKS={}", coordinated ? coordinated->most : all_ranks()),
      fmt::format("SOTTO_LOCAL_RANK={}", rank),
      fmt::format("SOTTO_LOCAL_RANKS={}", spec_.ranks),
      fmt::format("SOTTO_MASTER={}", master_),
      fmt::format("{}={}", report_variable, report_descriptor),
      fmt::format("OMP_NUM_THREADS={}", threads),
  };
  if (spec_.share != nullptr && spec_.share->secret >= 0) variables.emplace_back("SOTTO_SECRET=/proc/self/fd/0");
  if (coordinated) {
    variables.insert(variables.end(),
                     {fmt::format("SOTTO_COORDINATED={}", coordinated->id),
                      fmt::format("SOTTO_COORDINATOR_WAIT={}", coordinated->wait.count()), "SOTTO_GENERATION=1"});
  } else if (is_elastic() || is_planned()) {
    variables.push_back(fmt::format("SOTTO_GENERATION={}", generation));
  }
  if (is_planned()) {
    std::vector<std::uint64_t> ends;
    for (const PlannedGroup& group : spec_.groups) ends.push_back(group.end);
    variables.insert(variables.end(),
                     {fmt::format("SOTTO_ID={}", id), fmt::format("SOTTO_ENDS={}", fmt::join(ends, " "))});
  }
  // Threads that spin until there is work again make a step up to 1.7 times as fast; with more threads than cores they
  // make it 20 times slower. A single thread waits for no other.
  if (const SpinVariable* brief = brief_spins(); brief != nullptr && threads > 1) {
    const bool all_have_cores = threads * spec_.ranks * spec_.beside <= cores;
    variables.push_back(all_have_cores ? fmt::format("{}={}", brief->name, brief->value) : "OMP_WAIT_POLICY=passive");
  }
  return with_inherited(std::move(variables));
}

void LocalJob::read_all() {
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    Rank& rank = ranks_[r];
    read_lines(rank.process.out, rank.out, r, stdout);
    read_lines(rank.process.err, rank.err, r, stderr);
    read_available(rank.process.report, rank.report);
  }
}

void LocalJob::read_lines(Descriptor& from, std::string& pending, std::size_t rank, std::FILE* to) {
  read_available(from, pending);
  std::size_t begin = 0;
  for (std::size_t end; (end = pending.find_first_of("\r\n", begin)) != std::string::npos; begin = end + 1) {
    const std::string_view line = std::string_view(pending).substr(begin, end - begin);
    if (pending[end] == '\n') {
      show_line(rank, to, line);
    } else {
      on_progress_(line);
    }
  }
  pending.erase(0, begin);
  if (pending.size() > longest_line) show_line(rank, to, std::exchange(pending, ""));
}

void LocalJob::show_line(std::size_t rank, std::FILE* to, std::string_view line) {
  if (!spec_.show_lines && line.starts_with("warning:") && warnings_.size() < held_lines &&
      std::ranges::find(warnings_, line) == warnings_.end()) {
    warnings_.emplace_back(line);
  }
  show(to, all_ranks() == 1 ? std::string(line) : fmt::format("[{}] {}", number(rank), line));
}

void LocalJob::reap() {
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    if (ranks_[r].ended) continue;
    const std::optional<int> ended = ranks_[r].process.ended();
    if (!ended) continue;
    const int status = *ended;
    ranks_[r].ended = status;
    ranks_[r].by_us = killing_ != 0;
    if (is_planned() && WIFEXITED(status)) plan_.leave(static_cast<int>(r));
    if (is_elastic() && goes_on_without(r)) continue;
    order_.push_back(r);
    read_available(ranks_[r].process.report, ranks_[r].report);
    const bool orderly = is_done(ranks_[r]) || (WIFEXITED(status) && is_stop(ranks_[r]));
    if (!orderly && !failed_) failed_ = Clock::now();
  }
}

void LocalJob::escalate() {
  if (!failed_) return;
  const auto passed = Clock::now() - *failed_;
  if (killing_ == 0 && passed >= grace) kill_all(SIGTERM);
  if (killing_ != SIGKILL && passed >= last_grace) kill_all(SIGKILL);
}

void LocalJob::kill_all(int number) {
  killing_ = number;
  for (const Rank& rank : ranks_) {
    if (!rank.ended && rank.process.pid > 0) kill(rank.process.pid, number);
  }
}

std::size_t LocalJob::number(std::size_t rank) const {
  if (spec_.coordinated) return static_cast<std::size_t>(spec_.coordinated->id);
  return rank + (spec_.share == nullptr ? 0 : static_cast<std::size_t>(spec_.share->first_rank));
}

std::size_t LocalJob::place_of(int id) const {
  return static_cast<std::size_t>(id) -
         (spec_.share == nullptr ? 0 : static_cast<std::size_t>(spec_.share->first_rank));
}

std::int64_t LocalJob::all_ranks() const { return spec_.share == nullptr ? spec_.ranks : spec_.share->all_ranks; }

// Whether the rank came to its end and wrote all that it had to write, even if somebody killed it then.
bool LocalJob::is_done(const Rank& rank) const {
  return *rank.ended == 0 || (WIFSIGNALED(*rank.ended) && reason_of(rank.report) == Reason::done);
}

// Whether the rank ended because somebody asked for it, not because something failed.
bool LocalJob::is_stop(const Rank& rank) const {
  if (WIFSIGNALED(*rank.ended)) return WTERMSIG(*rank.ended) == stop_;
  return is_stop_status(WEXITSTATUS(*rank.ended));
}

Ending LocalJob::ending(const Rank& rank) const {
  if (rank.by_us || is_done(rank)) return Ending::fine;
  if (is_stop(rank)) return Ending::stopped;
  return reason_of(rank.report) == Reason::lost_peer ? Ending::echo : Ending::failed;
}

std::string LocalJob::explain(std::size_t r) const {
  const Rank& rank = ranks_[r];
  const int status = *rank.ended;
  if (rank.hung) return fmt::format("rank {} did not answer, and was killed", number(r));
  if (WIFSIGNALED(status)) {
    return fmt::format("rank {} was killed by {}", number(r), name_of_signal(WTERMSIG(status)));
  }
  if (rank.report.empty()) return fmt::format("rank {} ended with status {}", number(r), WEXITSTATUS(status));
  std::string reason = rank.report.substr(1);
  const auto says_the_same = [&](const Rank& other) { return other.lost || other.report == rank.report; };
  if (std::ranges::all_of(ranks_, says_the_same)) return reason;
  const std::string name = fmt::format("rank {}: ", number(r));
  return reason.starts_with(name) ? reason : name + reason;
}

LaunchResult LocalJob::decide() const {
  const std::string& no_progress = group_ ? group_->no_progress() : plan_.no_progress();
  if (!no_progress.empty()) return {.status = 1, .error = no_progress};
  std::vector<Ending> endings;
  for (const std::size_t r : order_) endings.push_back(ending(ranks_[r]));
  if (const auto place = decisive(endings)) {
    const std::size_t r = order_[*place];
    const int status = *ranks_[r].ended;
    if (endings[*place] != Ending::stopped) {
      return {.status = WIFEXITED(status) ? WEXITSTATUS(status) : 1,
              .error = explain(r),
              .reason = reason_of(ranks_[r].report)};
    }
    if (WIFEXITED(status)) return {.status = WEXITSTATUS(status)};
  }
  const bool done = std::ranges::all_of(ranks_, [this](const Rank& rank) { return rank.lost || is_done(rank); });
  return {.status = done ? 0 : 128 + stop_};
}

}  // namespace sotto
