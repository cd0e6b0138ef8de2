#include "sotto/train/recorder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <exception>
#include <string_view>
#include <utility>
#include <vector>

#include "sotto/core/csv_cells.h"
#include "sotto/core/error.h"
#include "sotto/core/file.h"

namespace sotto {
namespace {

constexpr std::string_view header_line =
    "step,rank,epoch,loss,lr,step_ms,compute_ms,encode_ms,network_ms,decode_ms,wait_ms,queue_ms,data_ms,bytes_sent,"
    "bytes_received\n";
constexpr std::size_t sent_at = 13;             // the column bytes_sent
constexpr std::size_t most_pending = 64 << 10;  // bytes of rows that are held in memory

// Makes a new file, unless another rank has made it. It has its header before any rank can add a row.
void begin_anew(const std::filesystem::path& path, int rank) {
  const std::string made = fmt::format("{}{}{}", path.string(), temporary_mark, rank);
  write_file_atomic(made, header_line);
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

std::optional<double> Recorder::Figures::hidden() const {
  const double exchanges = encode_ms + network_ms + decode_ms;
  if (exchanges <= 0 || bytes_sent <= 0) return std::nullopt;  // a rank alone encodes, and exchanges nothing
  return std::max(0.0, 1 - wait_ms / exchanges);
}

std::uint64_t Recorder::prepare(const std::filesystem::path& train_dir, std::span<const std::uint64_t> first_steps) {
  const auto path = train_dir / "steps.csv";
  std::string kept(header_line);
  std::uint64_t sent = 0;
  std::vector<std::string_view> cells;
  const bool resumed = std::ranges::any_of(first_steps, [](std::uint64_t step) { return step > 0; });
  if (resumed && std::filesystem::exists(path)) {
    const std::string text = read_text(path);
    const std::vector<std::string_view> rows = whole_lines(text);
    for (std::size_t i = 1; i < rows.size(); ++i) {
      const std::string_view row = rows[i];
      const char* const end = row.data() + row.size();
      std::uint64_t step = 0, rank = 0;
      const auto [comma, error] = std::from_chars(row.data(), end, step);
      const bool has_rank = std::from_chars(std::min(comma + 1, end), end, rank).ec == std::errc();
      if (error == std::errc() && has_rank && step < first_steps[std::min<std::size_t>(rank, first_steps.size() - 1)]) {
        kept.append(row).append("\n");
        split_cells(row, cells);
        if (cells.size() > sent_at) sent += parsed<std::uint64_t>(cells[sent_at]).value_or(0);
      }
    }
  }
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
  const StepReport& r = row.report;
  fmt::format_to(std::back_inserter(pending_),
                 "{},{},{:.4f},{:.6g},{:.6g},{:.3f},{:.3f},{:.3f},{:.3f},{:.3f},{:.3f},{:.3f},{:.3f},{},{}\n", row.step,
                 rank_, row.epoch, r.loss, row.lr, r.seconds * 1e3, r.compute * 1e3, r.timings.encode * 1e3,
                 r.timings.network * 1e3, r.timings.decode * 1e3, r.wait * 1e3, r.queue * 1e3, row.data_seconds * 1e3,
                 row.bytes_sent, row.bytes_received);
  sums_.step_ms += r.seconds * 1e3;
  sums_.compute_ms += r.compute * 1e3;
  sums_.encode_ms += r.timings.encode * 1e3;
  sums_.network_ms += r.timings.network * 1e3;
  sums_.decode_ms += r.timings.decode * 1e3;
  sums_.wait_ms += r.wait * 1e3;
  sums_.queue_ms += r.queue * 1e3;
  sums_.bytes_sent += static_cast<double>(row.bytes_sent);
  step_times_.add(r.seconds);
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

Recorder::Figures Recorder::means() const {
  if (rows_ == 0) return {};
  const auto mean = [this](double sum) { return sum / static_cast<double>(rows_); };
  return {.step_ms = mean(sums_.step_ms),
          .compute_ms = mean(sums_.compute_ms),
          .encode_ms = mean(sums_.encode_ms),
          .network_ms = mean(sums_.network_ms),
          .decode_ms = mean(sums_.decode_ms),
          .wait_ms = mean(sums_.wait_ms),
          .queue_ms = mean(sums_.queue_ms),
          .bytes_sent = mean(sums_.bytes_sent)};
}

double Recorder::median_step_ms() const { return step_times_.median() * 1e3; }

}  // namespace sotto
