#include "app/train/record/evaluations.h"

#include <fmt/format.h>

#include <string_view>
#include <vector>

#include "sotto/core/csv_table.h"
#include "sotto/core/error.h"
#include "sotto/core/file.h"

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

}  // namespace sotto
