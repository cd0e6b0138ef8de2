#include "sotto/train/consensus_csv.h"

#include <fmt/format.h>

#include <charconv>
#include <string_view>

#include "sotto/core/error.h"
#include "sotto/core/file.h"
#include "sotto/core/options.h"

namespace sotto {
namespace {

constexpr std::string_view file_name = "consensus.csv";
constexpr std::string_view first_columns = "step,epoch,seconds,bytes_sent,consensus_distance";

std::vector<double> numbers_in(std::string_view line) {
  std::vector<double> numbers;
  while (true) {
    const std::string_view cell = line.substr(0, line.find(','));
    double value = 0;
    const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
    if (error != std::errc() || end != cell.data() + cell.size()) {
      throw FileError(fmt::format("`{}` is no number", cell.substr(0, 40)));
    }
    numbers.push_back(value);
    if (cell.size() == line.size()) return numbers;
    line.remove_prefix(cell.size() + 1);
  }
}

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
  const std::string text = read_text(path);
  std::size_t number = 0, at = 0;
  for (std::size_t end = 0; (end = text.find('\n', at)) != std::string::npos; at = end + 1) {
    const std::string_view line(text.data() + at, end - at);
    try {
      if (++number == 1) {
        if (!line.starts_with(first_columns)) throw FileError(fmt::format("its columns are not {},..", first_columns));
        continue;
      }
      const std::vector<double> cells = numbers_in(line);
      if (cells.size() < 5) throw FileError(fmt::format("it has {} cells", cells.size()));
      ConsensusRow row;
      row.at.step = static_cast<std::uint64_t>(cells[0]);
      row.at.epoch = cells[1];
      row.at.seconds = cells[2];
      row.at.bytes_sent = static_cast<std::uint64_t>(cells[3]);
      row.distance = cells[4];
      row.rank_goals.assign(cells.begin() + 5, cells.end());
      rows.push_back(std::move(row));
    } catch (const FileError& error) {
      throw FileError(fmt::format("{}:{}: {}", path.string(), number, error.what()));
    }
  }
  return rows;
}

}  // namespace sotto
