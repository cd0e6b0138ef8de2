#include "app/train/record/evaluations.h"

#include <fmt/format.h>

#include <cmath>

#include "sotto/aggregate/aggregate.h"

namespace sotto {
namespace {

constexpr std::string_view file_name = "evaluations.csv";

void write_split(const EvaluationRow& row, std::string& text) { text += row.split == Split::train ? "train" : "test"; }
void read_split(std::string_view cell, EvaluationRow& row) {
  if (cell != "train" && cell != "test") throw FileError(fmt::format("`{}` is no split", cell.substr(0, 40)));
  row.split = cell == "train" ? Split::train : Split::test;
}

CsvTable<EvaluationRow> evaluation_table(std::span<const Metric> kinds) {
  std::vector<CsvColumn<EvaluationRow>> columns{{"step", &EvaluationRow::step},
                                                {"epoch", &EvaluationRow::epoch, "{:.4f}"},
                                                {"seconds", &EvaluationRow::seconds, "{:.3f}"},
                                                {"bytes_sent", &EvaluationRow::bytes_sent},
                                                {"split", write_split, read_split}};
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    columns.push_back(
        {std::string(kinds[i].name), [i](auto& row) -> decltype(auto) { return (row.metrics.values[i]); }});
  }
  return CsvTable(std::move(columns), {.metrics = {kinds, std::vector<double>(kinds.size())}});
}

// Replaces values as long as this object lives; does nothing if `values` is empty.
class Replaced {
 public:
  Replaced(std::span<float> place, std::span<const float> values) : place_(place) {
    if (values.empty()) return;
    own_.assign(place.begin(), place.end());
    std::ranges::copy(values, place.begin());
  }
  ~Replaced() { std::ranges::copy(own_, place_.begin()); }
  Replaced(const Replaced&) = delete;
  Replaced& operator=(const Replaced&) = delete;

 private:
  std::span<float> place_;
  std::vector<float> own_;
};

// Nothing on all ranks if one of them broke off. They agree on that at the end, since each needs the parts of all.
std::optional<Tally> evaluate_share(Task& task, Split split, Share share, Communicator& communicator,
                                    const AfterBatch& after_batch) {
  std::optional<Tally> sums;
  try {
    sums = task.evaluate(split, share, after_batch);
  } catch (const BrokenOff&) {  // NOLINT(bugprone-empty-catch)
  }
  auto broken_off = sums ? 0.0F : 1.0F;
  communicator.all_reduce(std::span(&broken_off, 1), ReduceOp::max);
  if (broken_off > 0) sums.reset();
  return sums;
}

// Each rank counts over all examples of a split by itself. `parameters` replace the task's, unless empty. Collective;
// nothing on all ranks if one of them broke off.
std::optional<Tally> evaluate_alone(Task& task, std::span<const float> parameters, Split split,
                                    Communicator& communicator, const AfterBatch& after_batch) {
  const Replaced wanted(task.parameters(), parameters);
  return evaluate_share(task, split, {}, communicator, after_batch);
}

// Like evaluate_alone(), but divided among the ranks. During the evaluation the buffers are their mean over the ranks.
std::optional<Tally> evaluate_together(Task& task, std::span<const float> parameters, Split split,
                                       Communicator& communicator, const AfterBatch& after_batch) {
  std::vector<float> buffers(task.buffers().begin(), task.buffers().end());
  aggregate(buffers, Op::avg, communicator);
  const Replaced mean(task.buffers(), buffers), wanted(task.parameters(), parameters);
  auto sums = evaluate_share(task, split, {communicator.rank(), communicator.size()}, communicator, after_batch);
  if (sums) communicator.all_reduce(std::span<double>(*sums));
  return sums;
}

}  // namespace

std::vector<EvaluationRow> read_evaluations(const std::filesystem::path& train_dir, std::span<const Metric> kinds) {
  return evaluation_table(kinds).read_rows(train_dir / file_name, mend_advice);
}

Evaluations::Evaluations(std::span<const Metric> kinds, const Metric& goal, const std::optional<Target>& target)
    : kinds_(kinds), goal_(goal), target_(target) {}

std::string Evaluations::prepare(const std::filesystem::path& train_dir, std::uint64_t step) const {
  const auto keep = [&](const EvaluationRow& row) { return row.step <= step; };
  return evaluation_table(kinds_).begin_file(train_dir / file_name, step > 0, keep);
}

void Evaluations::take_up(const std::string& rows) {
  for (const std::string_view line : whole_lines(rows)) add(evaluation_table(kinds_).row_of(line));
}

void Evaluations::add(const EvaluationRow& row) {
  if (row.split != Split::test) return;
  last_ = row.step;
  const auto goal_of = [this](const EvaluationRow& of) { return of.metrics.value(goal_.name); };
  if (!row.metrics.finite()) return;
  if (!best_ || goal_.better(goal_of(row), goal_of(*best_))) best_ = row;
  if (target_ && !reached_ && target_->reached_by(row.metrics)) reached_ = row;
}

// If the file was deleted in the meantime, a new one is started.
void Evaluations::append(const std::filesystem::path& train_dir, std::span<const EvaluationRow> rows) const {
  const std::filesystem::path path = train_dir / file_name;
  const CsvTable<EvaluationRow> table = evaluation_table(kinds_);
  std::string text = path_exists(path) ? "" : table.header();
  for (const EvaluationRow& row : rows) text += table.line(row);
  append_text(path, text);
}

CsvTable<ConsensusRow> consensus_table(std::span<const std::string> goals) {
  std::vector<CsvColumn<ConsensusRow>> columns{{"step", &ConsensusRow::step},
                                               {"epoch", &ConsensusRow::epoch, "{:.4f}"},
                                               {"seconds", &ConsensusRow::seconds, "{:.3f}"},
                                               {"bytes_sent", &ConsensusRow::bytes_sent},
                                               {"consensus_distance", &ConsensusRow::distance}};
  for (std::size_t rank = 0; rank < goals.size(); ++rank) {
    columns.push_back({goals[rank], [rank](auto& row) -> decltype(auto) { return (row.rank_goals[rank]); }});
  }
  return CsvTable(std::move(columns), {{}, 0, std::vector<double>(goals.size())});
}

std::vector<ConsensusRow> read_consensus(const std::filesystem::path& train_dir) {
  const auto path = train_dir / consensus_file;
  if (!path_exists(path)) return {};
  const std::string text = read_text(path);
  std::vector<std::string_view> names;
  split_cells(std::string_view(text).substr(0, text.find('\n')), names);
  std::vector<std::string> goals;
  for (std::size_t i = consensus_table({}).columns().size(); i < names.size(); ++i) goals.emplace_back(names[i]);
  return consensus_table(goals).read_rows(path);
}

MeanModel mean_model(std::span<const float> parameters, Communicator& communicator) {
  MeanModel mean{{parameters.begin(), parameters.end()}};
  aggregate(mean.parameters, Op::avg, communicator);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const double apart = static_cast<double>(parameters[i]) - static_cast<double>(mean.parameters[i]);
    mean.distance += apart * apart;
  }
  communicator.all_reduce(std::span(&mean.distance, 1));
  mean.distance = std::sqrt(mean.distance / communicator.size());
  return mean;
}

std::string TestResult::text() const {
  const std::string line = "test " + metrics.text();
  if (rank_goals.empty()) return line;
  const auto [least, most] = std::ranges::minmax(rank_goals);
  return line + fmt::format(" of the mean model; ranks' own {} to {}, {:.3g} apart", goal.text(least), goal.text(most),
                            consensus_distance);
}

std::optional<TestResult> test_together(Replica& replica, bool replicated, const Metric& goal,
                                        Communicator& communicator, const AfterBatch& after_batch) {
  Task& task = replica.task();
  TestResult result{.metrics = {}, .goal = goal, .rank_goals = {}};
  auto parameters = replica.to_evaluate();
  MeanModel mean;
  if (!replicated) {
    const auto mine = evaluate_alone(task, parameters, Split::test, communicator, after_batch);
    if (!mine) return std::nullopt;
    const double own = task.metrics(*mine).value(goal.name);
    result.rank_goals.resize(static_cast<std::size_t>(communicator.size()));
    communicator.all_gather(std::as_bytes(std::span(&own, 1)), std::as_writable_bytes(std::span(result.rank_goals)));
    mean = mean_model(parameters.empty() ? task.parameters() : parameters, communicator);
    result.consensus_distance = mean.distance;
    parameters = mean.parameters;
  }
  const auto all = evaluate_together(task, parameters, Split::test, communicator, after_batch);
  if (!all) return std::nullopt;
  result.metrics = task.metrics(*all);
  return result;
}

bool makes_sense(const TestResult& tested, double loss_of_guessing) {
  constexpr double far = 100;
  const double loss = tested.metrics.value("loss");
  return std::isfinite(loss) && (loss_of_guessing <= 0 || loss <= far * loss_of_guessing);
}

void require_sense(const TestResult& tested, double loss_of_guessing, std::uint64_t step) {
  if (makes_sense(tested, loss_of_guessing)) return;
  throw NumericError(
      fmt::format("the training diverged: its test loss is {:.3g} after step {}, and guessing has {:.3g}; a smaller "
                  "learning rate or a schedule with warmup may help",
                  tested.metrics.value("loss"), step, loss_of_guessing));
}

bool averages_batch_norm(const Choices& choices, Task& task, int ranks) {
  const TrainOptions& options = choices.options;
  if (!options.average_batch_norm) return false;
  if (task.buffers().empty()) {
    throw ConfigError(fmt::format("{}: {} has no batch-norm statistics", named("average-batch-norm"), options.model));
  }
  if (!all_in_step(choices.algorithm, ranks)) {
    throw ConfigError(fmt::format(
        "{}: `{}` has no step in which all ranks train the same model; statistics are averaged for evaluation",
        named("average-batch-norm"), options.algorithm));
  }
  return true;
}

void average_batch_norm(Task& task, Communicator& communicator, StepReport& report) {
  const Timer timer;
  aggregate(task.buffers(), Op::avg, communicator);
  const double seconds = timer.seconds();
  report.timings.network += seconds;
  report.wait += seconds;
  report.seconds += seconds;
}

void lend_batch_norm(Task& task, int idle, Communicator& communicator) {
  if (idle == 0) return;
  const auto own = task.buffers();
  std::vector<float> mean(own.begin(), own.end());
  const bool takes = communicator.rank() < idle;
  if (takes) std::ranges::fill(mean, 0.0F);
  communicator.all_reduce(mean);
  const auto trained = static_cast<float>(communicator.size() - idle);
  if (takes) std::ranges::transform(mean, own.begin(), [&](float sum) { return sum / trained; });
}

}  // namespace sotto
