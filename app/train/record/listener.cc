#include "app/train/record/listener.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <fstream>

namespace sotto {
namespace {

constexpr std::string_view sgp_columns =
    "Epoch,itr,BT(s),avg:BT(s),std:BT(s),NT(s),avg:NT(s),std:NT(s),DT(s),avg:DT(s),std:DT(s),Loss,avg:Loss,Prec@1,"
    "avg:Prec@1,Prec@5,avg:Prec@5,val";

// The last value of a series, its mean and its standard deviation.
class Meter {
 public:
  void add(double value) {
    last_ = value;
    ++count_;
    const double before = mean_;
    mean_ += (value - mean_) / count_;
    squares_ += (value - before) * (value - mean_);
  }
  std::string text() const {
    return fmt::format("{:.6f},{:.6f},{:.6f}", last_, mean_, count_ > 1 ? std::sqrt(squares_ / (count_ - 1)) : 0.0);
  }
  std::string short_text(int digits) const { return fmt::format("{:.{}f},{:.{}f}", last_, digits, mean_, digits); }

 private:
  double last_ = 0, mean_ = 0, squares_ = 0, count_ = 0;
};

std::vector<double> numbers_of(std::string_view line) {
  std::vector<std::string_view> cells;
  split_cells(line, cells);
  std::vector<double> numbers;
  for (const std::string_view cell : cells) {
    const auto number = parsed<double>(cell);
    if (!number) return {};
    numbers.push_back(*number);
  }
  return numbers;
}

// Writes each rank's steps and evaluations as the programs of Stochastic Gradient Push do (Assran et al., ICML 2019): a
// file TAGout_rR_nW.csv in the run folder, which their scripts plot.
class SgpCsv final : public Listener {
 public:
  explicit SgpCsv(const Choices& choices) : options_(choices.options) {}

  // A run that continues keeps the rows before its first step, and continues their means.
  void begin(const RunStart& start) override {
    rank_ = start.rank;
    path_ = start.folder / fmt::format("{}out_r{}_n{}.csv", options_.csv_tag, start.rank, start.ranks);
    std::string text = fmt::format("BEGIN-TRAINING\nWorld-Size,{}\nNum-DLWorkers,{}\nBatch-Size,{}\n{}\n", start.ranks,
                                   options_.data.data_threads.value_or(1), options_.batch_size, sgp_columns);
    if (start.first_step > 0 && path_exists(path_)) text += kept_rows(start.first_step);
    write_file_atomic(path_, text);
    file_.open(path_, std::ios::app | std::ios::binary);
    flush();
  }

  void stepped(const TrainedStep& row) override {
    if (row.epoch_number != epoch_) loss_ = top1_ = top5_ = {};
    epoch_ = row.epoch_number;
    batch_.add(row.step_ms / 1e3);
    net_.add((row.compute_ms - row.data_ms) / 1e3);
    data_.add(row.data_ms / 1e3);
    loss_.add(row.loss);
    const auto percent = [&](std::string_view name, Meter& meter) {
      const bool is_known = !row.measured.values.empty() && metric_table(row.measured.kinds).find(name) != nullptr;
      if (!is_known) return std::string("-1,-1");
      meter.add(100 * row.measured.value(name));
      return meter.short_text(3);
    };
    const std::string top1 = percent("accuracy", top1_), top5 = percent("top5", top5_);
    file_ << fmt::format("{},{},{},{},{},{},{},{},-1\n", epoch_, row.iteration, batch_.text(), net_.text(),
                         data_.text(), loss_.short_text(4), top1, top5);
    if (since_flush_.seconds() > 1) flush();
  }

  // The accuracy of the rank's own model, if it has one.
  void evaluated(std::span<const EvaluationRow> rows, const TestResult& tested) override {
    const auto rank = static_cast<std::size_t>(rank_);
    const bool own = tested.goal.name == "accuracy" && rank < tested.rank_goals.size();
    const double accuracy = own ? tested.rank_goals[rank] : rows.back().metrics.value("accuracy");
    file_ << fmt::format("{},-1,{},{},{},-1,-1,-1,-1,-1,-1,{:.3f}\n", epoch_, batch_.text(), net_.text(), data_.text(),
                         100 * accuracy);
    flush();
  }

 private:
  void flush() {
    since_flush_.lap();
    if (!file_.flush()) throw FileError(path_.string() + ": cannot be written: " + std::strerror(errno));
  }

  std::string kept_rows(std::uint64_t first_step) {
    const std::string text = read_text(path_);
    std::string kept;
    std::uint64_t steps = 0;
    const std::string_view table = std::string_view(text).substr(std::min(text.find(sgp_columns), text.size()));
    const std::vector<std::string_view> lines = whole_lines(table);
    for (std::size_t i = 1; i < lines.size(); ++i) {
      const std::string_view line = lines[i];
      const std::vector<double> row = numbers_of(line);
      if (row.size() != 18) break;  // somebody else wrote here
      const bool is_step = row[1] >= 0;
      if (is_step && steps++ == first_step) break;
      if (is_step) {
        if (static_cast<std::uint64_t>(row[0]) != epoch_) loss_ = top1_ = top5_ = {};
        epoch_ = static_cast<std::uint64_t>(row[0]);
        batch_.add(row[2]);
        net_.add(row[5]);
        data_.add(row[8]);
        loss_.add(row[11]);
        top1_.add(row[13]);
        top5_.add(row[15]);
      }
      kept.append(line).append("\n");
    }
    return kept;
  }

  const TrainOptions options_;
  int rank_ = 0;
  std::filesystem::path path_;
  std::ofstream file_;
  Timer since_flush_;
  Meter batch_, net_, data_;  // over the whole run
  Meter loss_, top1_, top5_;  // over an epoch
  std::uint64_t epoch_ = 0;
};

class ConsensusCsv final : public Listener {
 public:
  explicit ConsensusCsv(const Choices& choices) : kinds_(choices.task->metrics), goal_(choices.task->goal) {}

  // If the number of ranks has changed, the file begins anew, because its columns differ.
  void begin(const RunStart& start) override {
    path_ = start.folder / consensus_file;
    std::vector<std::string> goals;
    for (int rank = 0; rank < start.ranks; ++rank) goals.push_back(fmt::format("{}_{}", goal_, rank));
    table_.emplace(consensus_table(goals));
    std::string text = table_->header();
    // Keeps the rows that will not be repeated: evaluations.csv was already cut at the first step.
    const std::vector<EvaluationRow> evaluations = read_evaluations(start.folder, kinds_);
    for (const ConsensusRow& row : start.first_step > 0 ? read_consensus(start.folder) : std::vector<ConsensusRow>()) {
      if (row.rank_goals.size() != static_cast<std::size_t>(start.ranks)) break;
      if (!evaluations.empty() && row.step <= evaluations.back().step) text += table_->line(row);
    }
    write_file_atomic(path_, text);
  }
  void evaluated(std::span<const EvaluationRow> rows, const TestResult& tested) override {
    if (tested.rank_goals.empty()) return;
    append_text(path_, table_->line({rows.back(), tested.consensus_distance, tested.rank_goals}));
  }

 private:
  std::span<const Metric> kinds_;
  std::string goal_;
  std::filesystem::path path_;
  std::optional<CsvTable<ConsensusRow>> table_;  // of as many ranks as there are
};

}  // namespace

void check_sgp_csv(const TrainOptions& options, const TaskEntry& task) {
  if (options.csv_tag.find('/') != std::string::npos || options.csv_tag.size() > 200) {
    throw ConfigError(named("csv-tag", options.csv_tag) +
                      ": is a part of a file's name, and must have no / and at most 200 bytes");
  }
  if (metric_table(task.metrics).find("accuracy") != nullptr) return;
  throw ConfigError(fmt::format("{}: its columns are accuracies, which the task {} does not have",
                                named("csv-format", "sgp"), task.name));
}

std::unique_ptr<Listener> make_consensus_csv(const Choices& choices) { return std::make_unique<ConsensusCsv>(choices); }

std::vector<std::unique_ptr<Listener>> make_listeners(const Choices& choices, int rank, bool may_change) {
  const TrainOptions& options = choices.options;
  std::vector<std::unique_ptr<Listener>> listeners;
  if (options.csv_format == "sgp") listeners.push_back(std::make_unique<SgpCsv>(choices));
  if (options.tensorboard && (rank == 0 || may_change)) listeners.push_back(make_tensorboard(choices));
  if (rank != 0) return listeners;
  if (!choices.algorithm.entry->traits.replicated) listeners.push_back(make_consensus_csv(choices));
  if (options.metrics_port) listeners.push_back(make_metrics_page(choices));
  return listeners;
}

}  // namespace sotto
