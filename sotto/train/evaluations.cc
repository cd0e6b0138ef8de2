#include "sotto/train/evaluations.h"

#include <fmt/format.h>

#include <string_view>
#include <vector>

#include "sotto/core/csv_cells.h"
#include "sotto/core/error.h"
#include "sotto/core/file.h"
#include "sotto/core/options.h"

namespace sotto {
namespace {

constexpr std::string_view file_name = "evaluations.csv";
constexpr std::size_t fixed_columns = 5;

std::string text_of(const EvaluationRow& row) {
  std::string line = fmt::format("{},{:.4f},{:.3f},{},{}", row.step, row.epoch, row.seconds, row.bytes_sent,
                                 row.split == Split::train ? "train" : "test");
  for (const double value : row.metrics.values) line += "," + format_double(value);
  return line + "\n";
}

std::string header_of(std::span<const Metric> kinds) {
  std::string line = "step,epoch,seconds,bytes_sent,split";
  for (const Metric& metric : kinds) line += fmt::format(",{}", metric.name);
  return line;
}

EvaluationRow parse_row(std::span<const Metric> kinds, std::string_view line) {
  std::vector<std::string_view> cells;
  split_cells(line, cells);
  if (cells.size() != fixed_columns + kinds.size()) throw FileError(fmt::format("it has {} columns", cells.size()));
  if (cells[4] != "train" && cells[4] != "test")
    throw FileError(fmt::format("`{}` is no split", cells[4].substr(0, 40)));
  EvaluationRow row{.step = number_in<std::uint64_t>(cells[0], "step"),
                    .epoch = number_in<double>(cells[1], "epoch"),
                    .seconds = number_in<double>(cells[2], "seconds"),
                    .bytes_sent = number_in<std::uint64_t>(cells[3], "bytes_sent"),
                    .split = cells[4] == "train" ? Split::train : Split::test,
                    .metrics = {kinds, {}}};
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    row.metrics.values.push_back(number_in<double>(cells[fixed_columns + i], kinds[i].name));
  }
  return row;
}

// Calls each(line, row) for every row of the file.
template <class F>
void read_rows(const std::filesystem::path& path, std::span<const Metric> kinds, F&& each) {
  const std::string text = read_text(path);
  if (!text.starts_with(header_of(kinds) + "\n")) {
    throw FileError(fmt::format("{}: its columns are not `{}`; move it away to go on without its rows", path.string(),
                                header_of(kinds)));
  }
  const auto read = [&](std::string_view line, std::size_t number) {
    if (number > 1) each(line, parse_row(kinds, line));
  };
  for_whole_lines(path, text, read, "; mend it, or move the file away");
}

}  // namespace

std::vector<EvaluationRow> read_evaluations(const std::filesystem::path& train_dir, std::span<const Metric> kinds) {
  std::vector<EvaluationRow> rows;
  const std::filesystem::path path = train_dir / file_name;
  if (path_exists(path))
    read_rows(path, kinds, [&](std::string_view, EvaluationRow row) { rows.push_back(std::move(row)); });
  return rows;
}

Evaluations::Evaluations(std::span<const Metric> kinds, const Metric& goal, const std::optional<Target>& target)
    : kinds_(kinds), goal_(goal), target_(target) {}

std::string Evaluations::prepare(const std::filesystem::path& train_dir, std::uint64_t step) const {
  const std::filesystem::path path = train_dir / file_name;
  std::string kept;
  if (step > 0 && path_exists(path)) {
    read_rows(path, kinds_, [&](std::string_view line, const EvaluationRow& row) {
      if (row.step <= step) kept.append(line).append("\n");
    });
  }
  write_file_atomic(path, header_of(kinds_) + "\n" + kept);
  return kept;
}

void Evaluations::take_up(const std::string& rows) {
  for (const std::string_view line : whole_lines(rows)) add(parse_row(kinds_, line));
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
  std::string text = path_exists(path) ? "" : header_of(kinds_) + "\n";
  for (const EvaluationRow& row : rows) text += text_of(row);
  append_text(path, text);
}

}  // namespace sotto
