#include "sotto/train/consensus_csv.h"

#include <fmt/format.h>

#include <string_view>

#include "sotto/core/csv_cells.h"
#include "sotto/core/error.h"
#include "sotto/core/file.h"
#include "sotto/core/options.h"

namespace sotto {
namespace {

constexpr std::string_view file_name = "consensus.csv";
constexpr std::string_view first_columns = "step,epoch,seconds,bytes_sent,consensus_distance";

std::string text_of(const ConsensusRow& row) {
  std::string line = fmt::format("{},{:.4f},{:.3f},{},{}", row.at.step, row.at.epoch, row.at.seconds, row.at.bytes_sent,
                                 format_double(row.distance));
  for (const double goal : row.rank_goals) line += "," + format_double(goal);
  return line + "\n";
}

class ConsensusCsv final : public Listener {
 public:
  explicit ConsensusCsv(const Choices& choices) : kinds_(choices.task->metrics), goal_(choices.task->goal) {}

  // With another number of ranks the file begins anew, because its columns are different.
  void begin(const RunStart& start) override {
    path_ = start.folder / file_name;
    std::string text(first_columns);
    for (int rank = 0; rank < start.ranks; ++rank) text += fmt::format(",{}_{}", goal_, rank);
    text += "\n";
    // Keeps the rows that will not be repeated: evaluations.csv was already cut at the first step.
    const std::vector<EvaluationRow> evaluations = read_evaluations(start.folder, kinds_);
    for (const ConsensusRow& row : start.first_step > 0 ? read_consensus(start.folder) : std::vector<ConsensusRow>()) {
      if (row.rank_goals.size() != static_cast<std::size_t>(start.ranks)) break;
      if (!evaluations.empty() && row.at.step <= evaluations.back().step) text += text_of(row);
    }
    write_file_atomic(path_, text);
  }
  void stepped(const StepRow& /*row*/) override {}
  void evaluated(std::span<const EvaluationRow> rows, const TestResult& tested) override {
    if (tested.rank_goals.empty()) return;
    append_text(path_, text_of({rows.back(), tested.consensus_distance, tested.rank_goals}));
  }

 private:
  std::span<const Metric> kinds_;
  std::string goal_;
  std::filesystem::path path_;
};

}  // namespace

std::unique_ptr<Listener> make_consensus_csv(const Choices& choices) { return std::make_unique<ConsensusCsv>(choices); }

std::vector<ConsensusRow> read_consensus(const std::filesystem::path& train_dir) {
  const auto path = train_dir / file_name;
  std::vector<ConsensusRow> rows;
  if (!path_exists(path)) return rows;
  std::vector<std::string_view> cells;
  for_whole_lines(path, read_text(path), [&](std::string_view line, std::size_t number) {
    if (number == 1) {
      if (!line.starts_with(first_columns)) throw FileError(fmt::format("its columns are not {},..", first_columns));
      return;
    }
    split_cells(line, cells);
    if (cells.size() < 5) throw FileError(fmt::format("it has {} cells", cells.size()));
    ConsensusRow row;
    row.at.step = number_in<std::uint64_t>(cells[0], "step");
    row.at.epoch = number_in<double>(cells[1], "epoch");
    row.at.seconds = number_in<double>(cells[2], "seconds");
    row.at.bytes_sent = number_in<std::uint64_t>(cells[3], "bytes_sent");
    row.distance = number_in<double>(cells[4], "consensus_distance");
    for (std::size_t i = 5; i < cells.size(); ++i) {
      row.rank_goals.push_back(number_in<double>(cells[i], fmt::format("of rank {}", i - 5)));
    }
    rows.push_back(std::move(row));
  });
  return rows;
}

}  // namespace sotto
