#include "sotto/train/recorder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <numeric>
#include <string_view>

#include "sotto/core/error.h"
#include "sotto/core/file.h"

namespace sotto {
namespace {

constexpr std::string_view header =
    "step,rank,epoch,loss,lr,step_ms,compute_ms,encode_ms,network_ms,decode_ms,wait_ms,queue_ms,data_ms,bytes_sent,"
    "bytes_received\n";

using Typical = double (*)(std::vector<double>& values);

Recorder::Figures figures(const std::vector<StepRow>& rows, Typical typical) {
  if (rows.empty()) return {};
  std::vector<double> values(rows.size());
  const auto of = [&](double (*value)(const StepRow&)) {
    std::ranges::transform(rows, values.begin(), value);
    return typical(values);
  };
  return {.step_ms = of([](const StepRow& r) { return r.report.seconds * 1e3; }),
          .compute_ms = of([](const StepRow& r) { return r.report.compute * 1e3; }),
          .encode_ms = of([](const StepRow& r) { return r.report.phases.encode * 1e3; }),
          .network_ms = of([](const StepRow& r) { return r.report.phases.network * 1e3; }),
          .decode_ms = of([](const StepRow& r) { return r.report.phases.decode * 1e3; }),
          .wait_ms = of([](const StepRow& r) { return r.report.wait * 1e3; }),
          .queue_ms = of([](const StepRow& r) { return r.report.queue * 1e3; }),
          .bytes_sent = of([](const StepRow& r) { return static_cast<double>(r.bytes_sent); })};
}

}  // namespace

std::optional<double> Recorder::Figures::hidden() const {
  const double exchanges = encode_ms + network_ms + decode_ms;
  if (exchanges <= 0) return std::nullopt;
  return std::max(0.0, 1 - wait_ms / exchanges);
}

void Recorder::prepare(const std::filesystem::path& train_dir, std::uint64_t first_step) {
  const auto path = train_dir / "steps.csv";
  std::string kept(header);
  if (first_step > 0 && std::filesystem::exists(path)) {
    const std::string text = read_text(path);
    std::size_t at = std::min(text.find('\n'), text.size() - 1) + 1;
    while (at < text.size()) {
      const std::size_t end = text.find('\n', at);
      if (end == std::string::npos) break;  // a row that a crash cut off
      std::uint64_t step = 0;
      const auto [stop, error] = std::from_chars(text.data() + at, text.data() + end, step);
      if (error == std::errc() && step < first_step) kept.append(text, at, end + 1 - at);
      at = end + 1;
    }
  }
  write_file_atomic(path, kept);
}

Recorder::Recorder(const std::filesystem::path& train_dir, int rank) : path_(train_dir / "steps.csv"), rank_(rank) {
  file_ = ::open(path_.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  if (file_ < 0) throw FileError(path_.string() + ": " + std::strerror(errno));
}

Recorder::~Recorder() {
  try {
    flush();
  } catch (const Error&) {  // NOLINT(bugprone-empty-catch): an error is under way, or nobody is left to tell
  }
  ::close(file_);
}

void Recorder::add(const StepRow& row) {
  const StepReport& r = row.report;
  fmt::format_to(std::back_inserter(pending_),
                 "{},{},{:.4f},{:.6g},{:.6g},{:.3f},{:.3f},{:.3f},{:.3f},{:.3f},{:.3f},{:.3f},{:.3f},{},{}\n", row.step,
                 rank_, row.epoch, r.loss, row.lr, r.seconds * 1e3, r.compute * 1e3, r.phases.encode * 1e3,
                 r.phases.network * 1e3, r.phases.decode * 1e3, r.wait * 1e3, r.queue * 1e3, row.data_seconds * 1e3,
                 row.bytes_sent, row.bytes_received);
  rows_.push_back(row);
  if (since_flush_.seconds() > 1) flush();
}

void Recorder::flush() {
  since_flush_.lap();
  std::size_t written = 0;
  while (written < pending_.size()) {
    const ssize_t n = ::write(file_, pending_.data() + written, pending_.size() - written);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw FileError(path_.string() + ": " + std::strerror(errno));
    written += static_cast<std::size_t>(n);
  }
  pending_.clear();
}

Recorder::Figures Recorder::medians() const {
  return figures(rows_, [](std::vector<double>& values) {
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::ranges::nth_element(values, middle);
    return *middle;
  });
}

Recorder::Figures Recorder::means() const {
  return figures(rows_, [](std::vector<double>& values) {
    return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  });
}

}  // namespace sotto
