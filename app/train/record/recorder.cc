#include "app/train/record/recorder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <exception>

namespace sotto {
namespace {

constexpr double shortest = 1e-6;  // seconds; the end of the first bin

constexpr std::size_t most_pending = 64 << 10;  // bytes of rows that are held in memory

// The columns of times in steps.csv.
constexpr std::array<std::pair<const char*, double StepTimes::*>, 8> times{{{"step_ms", &StepTimes::step_ms},
                                                                            {"compute_ms", &StepTimes::compute_ms},
                                                                            {"encode_ms", &StepTimes::encode_ms},
                                                                            {"network_ms", &StepTimes::network_ms},
                                                                            {"decode_ms", &StepTimes::decode_ms},
                                                                            {"wait_ms", &StepTimes::wait_ms},
                                                                            {"queue_ms", &StepTimes::queue_ms},
                                                                            {"data_ms", &StepTimes::data_ms}}};

// Makes a new file, unless another rank has made it. It has its header before any rank can add a row.
void begin_anew(const std::filesystem::path& path, int rank) {
  const std::string made = fmt::format("{}{}{}", path.string(), temporary_mark, rank);
  write_file_atomic(made, step_table().header());
  if (::link(made.c_str(), path.c_str()) == 0 || errno == EEXIST) {
    ::unlink(made.c_str());
  } else if (::rename(made.c_str(), path.c_str()) != 0) {  // a file system without hard links
    throw FileError(path.string() + ": " + std::strerror(errno));
  }
}

Descriptor open_to_append(const std::filesystem::path& path) {
  Descriptor file(::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
  if (!file.open() && errno == ENOENT)
    throw FileError(path.string() + ": is not there; rank 0 has made it, so all ranks must share the run folder");
  if (!file.open()) throw FileError(path.string() + ": " + std::strerror(errno));
  return file;
}

}  // namespace

void TimeHistogram::add(double seconds) {
  const double bin = seconds > shortest ? std::ceil(std::log2(seconds / shortest) * bins_an_octave) : 0;
  ++counts_[std::min(static_cast<std::size_t>(bin), counts_.size() - 1)];
  ++total_;
}

double TimeHistogram::median() const {
  if (total_ == 0) return 0;
  std::size_t bin = 0;
  for (std::uint64_t passed = counts_[0]; passed <= total_ / 2 && bin + 1 < counts_.size();) passed += counts_[++bin];
  return shortest * std::exp2((static_cast<double>(bin) - 0.5) / bins_an_octave);  // the middle of the bin
}

const CsvTable<StepRow>& step_table() {
  static const CsvTable<StepRow> table([] {
    std::vector<CsvColumn<StepRow>> columns{{"step", &StepRow::step},
                                            {"rank", &StepRow::rank},
                                            {"epoch", &StepRow::epoch, "{:.4f}"},
                                            {"loss", &StepRow::loss, "{:.6g}"},
                                            {"lr", &StepRow::lr, "{:.6g}"}};
    for (const auto& [name, time] : times) columns.push_back({name, time, "{:.3f}"});
    columns.push_back({"bytes_sent", &StepRow::bytes_sent});
    columns.push_back({"bytes_received", &StepRow::bytes_received});
    return columns;
  }());
  return table;
}

void StepRow::set_report(const StepReport& report) {
  loss = report.loss;
  step_ms = report.seconds * 1e3;
  compute_ms = report.compute * 1e3;
  encode_ms = report.timings.encode * 1e3;
  network_ms = report.timings.network * 1e3;
  decode_ms = report.timings.decode * 1e3;
  wait_ms = report.wait * 1e3;
  queue_ms = report.queue * 1e3;
}

void Recorder::Figures::add(const StepRow& row) {
  for (const auto& [name, time] : times) this->*time += row.*time;
  bytes_sent += static_cast<double>(row.bytes_sent);
}

Recorder::Figures Recorder::Figures::mean_over(std::uint64_t steps) const {
  Figures mean = *this;
  for (const auto& [name, time] : times) mean.*time /= static_cast<double>(steps);
  mean.bytes_sent /= static_cast<double>(steps);
  return mean;
}

std::optional<double> Recorder::Figures::hidden() const {
  const double exchanges = encode_ms + network_ms + decode_ms;
  if (exchanges <= 0 || bytes_sent <= 0) return std::nullopt;  // a rank alone encodes, and exchanges nothing
  return std::max(0.0, 1 - wait_ms / exchanges);
}

std::uint64_t Recorder::prepare(const std::filesystem::path& train_dir, std::span<const std::uint64_t> first_steps) {
  const auto path = train_dir / "steps.csv";
  std::string kept = step_table().header();
  std::uint64_t sent = 0;
  const auto each = [&](std::string_view line, std::size_t /*number*/) {
    StepRow row;
    try {
      row = step_table().row_of(line);
    } catch (const FileError&) {  // a rank that is killed can leave a piece of a row
      return;
    }
    if (row.step >= first_steps[std::min<std::size_t>(row.rank, first_steps.size() - 1)]) return;
    kept.append(line).append("\n");
    sent += row.bytes_sent;
  };
  const bool resumed = std::ranges::any_of(first_steps, [](std::uint64_t step) { return step > 0; });
  if (resumed && path_exists(path)) step_table().read_file(path, each, mend_advice);
  write_file_atomic(path, kept);
  return sent;
}

Recorder::Recorder(const std::filesystem::path& train_dir, int rank)
    : path_(train_dir / "steps.csv"), rank_(rank), file_(open_to_append(path_)) {}

Recorder::~Recorder() {
  try {
    // The others may have gone on without this rank, and have written these steps again.
    if (std::uncaught_exceptions() == 0 || !is_replaced(file_.get(), path_)) flush();
  } catch (const Error&) {  // NOLINT(bugprone-empty-catch): an error is being handled already, or nobody is left
  }
}

void Recorder::add(const StepRow& row) {
  pending_ += step_table().line(row);
  sums_.add(row);
  step_times_.add(row.step_ms / 1e3);
  last_step_ = row.step;
  ++rows_;
  // Not by time alone: short steps make megabytes of rows in a second.
  if (pending_.size() > most_pending || since_flush_.seconds() > 1) flush();
}

void Recorder::flush() {
  since_flush_.lap();
  reopen_if_gone();
  std::size_t written = 0;
  while (written < pending_.size()) {
    const ssize_t n = ::write(file_.get(), pending_.data() + written, pending_.size() - written);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw FileError(path_.string() + ": " + std::strerror(errno));
    written += static_cast<std::size_t>(n);
  }
  pending_.clear();
}

// If the file has been deleted, starts a new one.
void Recorder::reopen_if_gone() {
  const bool is_there = ::access(path_.c_str(), F_OK) == 0;
  if (is_there && !is_replaced(file_.get(), path_)) return;
  if (!is_there && errno != ENOENT) throw FileError(path_.string() + ": " + std::strerror(errno));
  if (!is_there) begin_anew(path_, rank_);
  file_ = open_to_append(path_);
  remark_ = fmt::format("{} was taken away while the run wrote it; a new one begins about step {}", path_.string(),
                        last_step_);
}

std::string Recorder::take_remark() { return std::exchange(remark_, {}); }

Recorder::Figures Recorder::means() const { return rows_ == 0 ? Figures() : sums_.mean_over(rows_); }

double Recorder::median_step_ms() const { return step_times_.median() * 1e3; }

}  // namespace sotto
