#include "app/train/record/consensus_csv.h"

#include <fmt/format.h>

#include <optional>
#include <string_view>

#include "sotto/core/csv_table.h"
#include "sotto/core/file.h"

namespace sotto {
namespace {

constexpr std::string_view file_name = "consensus.csv";

// `goals` names the columns of the ranks.
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

class ConsensusCsv final : public Listener {
 public:
  explicit ConsensusCsv(const Choices& choices) : kinds_(choices.task->metrics), goal_(choices.task->goal) {}

  // With another number of ranks the file begins anew, because its columns are different.
  void begin(const RunStart& start) override {
    path_ = start.folder / file_name;
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
  void stepped(const TrainedStep& /*row*/) override {}
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

std::unique_ptr<Listener> make_consensus_csv(const Choices& choices) { return std::make_unique<ConsensusCsv>(choices); }

std::vector<ConsensusRow> read_consensus(const std::filesystem::path& train_dir) {
  const auto path = train_dir / file_name;
  if (!path_exists(path)) return {};
  const std::string text = read_text(path);
  std::vector<std::string_view> names;
  split_cells(std::string_view(text).substr(0, text.find('\n')), names);
  std::vector<std::string> goals;
  for (std::size_t i = consensus_table({}).columns().size(); i < names.size(); ++i) goals.emplace_back(names[i]);
  return consensus_table(goals).read_rows(path);
}

}  // namespace sotto
