#include "app/train/record/gradient_study.h"

#include <fmt/format.h>

#include "sotto/codec/measure.h"
#include "sotto/core/csv_table.h"
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

// Finds the memory in the state of an algorithm. It holds one bucket after the other; in the model, later buckets lie
// before earlier ones.
class HeldBack final : public StateVisitor {
 public:
  HeldBack(std::string_view memory, std::span<const BucketPlan> buckets, std::vector<float>& values)
      : name_(fmt::format("memory.{}", memory)), buckets_(buckets), values_(values) {}

  void visit(std::string_view name, std::vector<float>& values) override {
    std::size_t size = 0;
    for (const BucketPlan& plan : buckets_) size += plan.range.size();
    const std::string_view last = name.substr(name.rfind('/') + 1);
    if ((last != name_ && last != name_ + ".v") || values.size() != size || found) return;
    found = true;
    auto from = values.begin();
    for (const BucketPlan& plan : buckets_) {
      const auto to = from + static_cast<std::ptrdiff_t>(plan.range.size());
      std::copy(from, to, values_.begin() + static_cast<std::ptrdiff_t>(plan.range.begin));
      from = to;
    }
  }
  void visit(std::string_view /*name*/, std::vector<std::uint8_t>& /*bytes*/) override {}
  void visit(std::string_view /*name*/, std::uint64_t& /*value*/) override {}

  bool found = false;

 private:
  std::string name_;
  std::span<const BucketPlan> buckets_;
  std::vector<float>& values_;
};

// Copies the residual of an algorithm's memory to `values`, a vector of the model's layout. The state of the algorithm
// has it under the name memory.NAME, or memory.NAME.v if the memory has several vectors. Returns false if the state has
// no such vector of the model's size, because the memory is split among ranks. REQUIRES drain().
bool copy_held_back(Algorithm& algorithm, std::string_view memory, std::span<const BucketPlan> buckets,
                    std::vector<float>& values) {
  HeldBack visitor(memory, buckets, values);
  algorithm.visit_state(visitor);
  return visitor.found;
}

std::string_view memory_of(const Choices& choices) {
  return choices.recipe.memory ? choices.recipe.memory.entry->name : "";
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

void check_capture_folder(const Choices& choices) {
  const CapturePlan& plan = choices.capture;
  std::error_code missing;
  if (plan.every == 0 || choices.options.resume || !std::filesystem::is_directory(plan.folder, missing)) return;
  if (captured_files(plan.folder).empty()) return;
  throw ConfigError(fmt::format("{}: {} holds the gradients of another run already; choose another folder",
                                named("capture"), plan.folder.string()));
}

void check_captured_memory(const Choices& choices, Algorithm& algorithm, std::span<const BucketPlan> buckets) {
  if (!choices.capture.memory) return;
  std::vector<float> values(buckets.front().range.end);  // the first bucket is the end of the vector
  if (copy_held_back(algorithm, memory_of(choices), buckets, values)) return;
  throw ConfigError(
      fmt::format("{}: memory=true: no rank of this job has a whole memory of its own, because the aggregator or "
                  "algorithm splits it",
                  named("capture")));
}

GradientStudy::GradientStudy(const Choices& choices, int rank, int ranks, int idle)
    : plan_(choices.capture),
      captures_(plan_.all_ranks && rank >= idle),
      measured_every_(static_cast<std::uint64_t>(choices.options.measure_errors)),
      stages_(choices.recipe.stages),
      memory_name_(memory_of(choices)),
      capture_(plan_, rank, ranks - idle) {
  check_capture_folder(choices);
  // An error must not leave a run that has begun.
  if ((captures_ || rank == idle) && plan_.every > 0) make_folder(plan_.folder);
}

void GradientStudy::begin(const std::filesystem::path& run_folder, std::uint64_t first_step, bool mine) {
  captures_ = captures_ || mine;
  if (measured_every_ == 0 || !mine) return;
  errors_ = std::make_unique<CodecErrorCsv>(make_codec(stages_));
  errors_->begin(run_folder, first_step);
}

std::span<float> GradientStudy::room(std::size_t elements) {
  finish();
  gradient_.resize(elements);
  return gradient_;
}

void GradientStudy::start(std::uint64_t step, const Layout& layout, Algorithm& algorithm,
                          std::span<const BucketPlan> buckets) {
  if (captures_ && needs_rest(step)) {
    memory_.resize(layout.size());
    copy_held_back(algorithm, memory_name_, buckets, memory_);
  }
  working_ = begin_work([this, step, &layout, buckets] { work(step, layout, buckets); });
}

void GradientStudy::work(std::uint64_t step, const Layout& layout, std::span<const BucketPlan> buckets) {
  if (captures(step)) capture_.write(step, layout, gradient_, memory_);
  if (measures(step)) errors_->add(step, layout, buckets, gradient_);
}

void GradientStudy::finish() {
  if (working_.valid()) working_.get();
}

}  // namespace sotto
