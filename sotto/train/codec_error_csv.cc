#include "sotto/train/codec_error_csv.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "sotto/codec/measure.h"
#include "sotto/core/csv_cells.h"
#include "sotto/core/error.h"
#include "sotto/core/file.h"

namespace sotto {
namespace {

constexpr std::string_view tensors_name = "tensor_bytes.csv";
constexpr std::string_view tensors_columns = "step,tensor,elements,bytes\n";

// Begins a table whose rows begin with a step, and keeps the rows of a former start before `first_step`.
void begin_table(const std::filesystem::path& path, std::string_view columns, std::uint64_t first_step) {
  std::string text(columns);
  if (first_step > 0 && path_exists(path)) {
    const std::string old = read_text(path);
    if (!old.starts_with(columns)) throw FileError(path.string() + ": its columns are not those of this program");
    for_whole_lines(path, old, [&](std::string_view line, std::size_t number) {
      if (number == 1 || number_in<std::uint64_t>(line.substr(0, line.find(',')), "step") >= first_step) return;
      text.append(line).append("\n");
    });
  }
  write_file_atomic(path, text);
}

struct TensorRow {
  std::uint64_t step = 0;
  TensorBytes tensor;
};

TensorRow row_of(std::string_view line, std::vector<std::string_view>& cells) {
  split_cells(line, cells);
  if (cells.size() != 4) throw FileError(fmt::format("it has {} cells, not 4", cells.size()));
  return {number_in<std::uint64_t>(cells[0], "step"),
          {std::string(cells[1]), number_in<std::uint64_t>(cells[2], "elements"),
           static_cast<double>(number_in<std::int64_t>(cells[3], "bytes"))}};
}

}  // namespace

void CodecErrorCsv::begin(const std::filesystem::path& folder, std::uint64_t first_step) {
  errors_ = folder / "codec_errors.csv";
  tensors_ = folder / tensors_name;
  begin_table(errors_, fmt::format("step,elements,bytes,ratio,{}\n", csv_columns_of_errors()), first_step);
  begin_table(tensors_, tensors_columns, first_step);
}

void CodecErrorCsv::add(std::uint64_t step, const Layout& layout, std::span<const BucketPlan> buckets,
                        std::span<const float> gradient) {
  Codec* const codec = codec_.get();
  const MeasuredErrors measured = measure_errors({&codec, 1}, layout, buckets, gradient, 1).front();
  append_text(errors_, fmt::format("{},{},{},{:.6g},{}\n", step, measured.measurement.elements,
                                   measured.measurement.bytes, measured.measurement.ratio, csv_cells(measured.errors)));
  std::string rows;
  for (std::size_t s = 0; s < measured.tensors.size(); ++s) {
    const Segment& segment = layout.segments()[s];
    rows += fmt::format("{},{},{},{}\n", step, segment.name, segment.numel(), measured.tensors[s]);
  }
  append_text(tensors_, fmt::format("{}{},{},0,{}\n", rows, step, TensorBytes::together, measured.together));
}

MeasuredTensors read_tensor_bytes(const std::filesystem::path& train_dir) {
  const auto path = train_dir / tensors_name;
  MeasuredTensors found;
  if (!path_exists(path)) return found;
  const std::string text = read_text(path);
  std::vector<TensorBytes> of_step;
  std::uint64_t step = 0;  // of these rows
  std::vector<std::string_view> cells;
  for_whole_lines(path, text, [&](std::string_view line, std::size_t number) {
    if (number == 1) {
      if (!text.starts_with(tensors_columns)) throw FileError("its columns are not step,tensor,elements,bytes");
      return;
    }
    TensorRow row = row_of(line, cells);
    if (row.step != step) of_step.clear();  // its end is missing
    step = row.step;
    of_step.push_back(std::move(row.tensor));
    if (of_step.back().tensor != TensorBytes::together) return;
    if (found.steps++ == 0) found.rows.assign(of_step.size(), {});
    if (of_step.size() != found.rows.size()) {
      throw FileError(fmt::format("a step of {} rows after one of {}", of_step.size(), found.rows.size()));
    }
    for (std::size_t i = 0; i < of_step.size(); ++i) {
      TensorBytes& sum = found.rows[i];
      if (found.steps > 1 && of_step[i].tensor != sum.tensor) {
        throw FileError(fmt::format("a step with {} after one with {}", of_step[i].tensor, sum.tensor));
      }
      sum = {of_step[i].tensor, of_step[i].elements, sum.bytes + of_step[i].bytes};
    }
    of_step.clear();
  });
  for (TensorBytes& row : found.rows) row.bytes /= static_cast<double>(found.steps);
  return found;
}

}  // namespace sotto
