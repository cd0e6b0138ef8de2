#include "app/train/record/codec_error_csv.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "sotto/codec/measure.h"
#include "sotto/core/csv_table.h"
#include "sotto/core/error.h"
#include "sotto/core/file.h"

namespace sotto {
namespace {

constexpr std::string_view errors_name = "codec_errors.csv", tensors_name = "tensor_bytes.csv";

struct ErrorRow : DecodedErrors {
  std::uint64_t step = 0, elements = 0, bytes = 0;
  double ratio = 0;
};
struct TensorRow {
  std::uint64_t step = 0;
  std::string tensor;
  std::uint64_t elements = 0;
  std::int64_t bytes = 0;
};

CsvTable<ErrorRow> codec_error_table() {
  std::vector<CsvColumn<ErrorRow>> columns{{"step", &ErrorRow::step},
                                           {"elements", &ErrorRow::elements},
                                           {"bytes", &ErrorRow::bytes},
                                           {"ratio", &ErrorRow::ratio, "{:.6g}"}};
  columns.insert(columns.end(), error_table().columns().begin(), error_table().columns().end());
  return CsvTable<ErrorRow>(std::move(columns));
}

CsvTable<TensorRow> tensor_table() {
  return CsvTable<TensorRow>({{"step", &TensorRow::step},
                              {"tensor", &TensorRow::tensor},
                              {"elements", &TensorRow::elements},
                              {"bytes", &TensorRow::bytes}});
}

}  // namespace

void CodecErrorCsv::begin(const std::filesystem::path& folder, std::uint64_t first_step) {
  const auto keep = [&](const auto& row) { return row.step < first_step; };
  errors_ = folder / errors_name;
  tensors_ = folder / tensors_name;
  codec_error_table().begin_file(errors_, first_step > 0, keep);
  tensor_table().begin_file(tensors_, first_step > 0, keep);
}

void CodecErrorCsv::add(std::uint64_t step, const Layout& layout, std::span<const BucketPlan> buckets,
                        std::span<const float> gradient) {
  Codec* const codec = codec_.get();
  const MeasuredErrors measured = measure_errors({&codec, 1}, layout, buckets, gradient, 1).front();
  const Measurement& all = measured.measurement;
  append_text(errors_, codec_error_table().line({measured.errors, step, all.elements, all.bytes, all.ratio}));
  const CsvTable<TensorRow> table = tensor_table();
  std::string rows;
  for (std::size_t s = 0; s < measured.tensors.size(); ++s) {
    const Segment& segment = layout.segments()[s];
    rows += table.line({step, segment.name, segment.numel(), static_cast<std::int64_t>(measured.tensors[s])});
  }
  append_text(tensors_, rows + table.line({step, std::string(TensorBytes::together), 0, measured.together}));
}

void check_codec_errors(const std::filesystem::path& train_dir) {
  codec_error_table().read_rows(train_dir / errors_name);
}

MeasuredTensors read_tensor_bytes(const std::filesystem::path& train_dir) {
  const auto path = train_dir / tensors_name;
  MeasuredTensors found;
  if (!path_exists(path)) return found;
  std::vector<TensorRow> of_step;
  const CsvTable<TensorRow> table = tensor_table();
  table.read_file(path, [&](std::string_view line, std::size_t /*number*/) {
    TensorRow row = table.row_of(line);
    if (!of_step.empty() && row.step != of_step.front().step) of_step.clear();  // its end is missing
    of_step.push_back(std::move(row));
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
      sum = {of_step[i].tensor, of_step[i].elements, sum.bytes + static_cast<double>(of_step[i].bytes)};
    }
    of_step.clear();
  });
  for (TensorBytes& row : found.rows) row.bytes /= static_cast<double>(found.steps);
  return found;
}

}  // namespace sotto
