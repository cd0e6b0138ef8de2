#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "sotto/algorithm/algorithm.h"
#include "sotto/core/descriptor.h"
#include "sotto/core/timer.h"
#include "sotto/task/metric.h"
#include "sotto/train/time_histogram.h"

namespace sotto {

// One row of steps.csv.
struct StepRow {
  std::uint64_t step = 0;
  double epoch = 0;
  double lr = 0;
  double data_seconds = 0;
  StepReport report;
  std::uint64_t bytes_sent = 0, bytes_received = 0;
  // For listeners alone; steps.csv has none of these.
  std::uint64_t epoch_number = 0, iteration = 0;  // the epoch, and the step's number in it
  Metrics measured;                               // of this step's batches; without values if it was left out
};

// Appends one rank's rows to the run's steps.csv, which all ranks share. Rows are written whole, at least once a second
// or when they fill 64 KiB.
class Recorder {
 public:
  // Rank 0 prepares the file before any rank opens it: writes the header, and removes each rank's rows from its first
  // step on, which a resumed run will repeat. Rows of a rank that no longer exists are cut at the first step of the
  // last rank. Returns the bytes that the remaining rows have sent.
  static std::uint64_t prepare(const std::filesystem::path& train_dir, std::span<const std::uint64_t> first_steps);

  Recorder(const std::filesystem::path& train_dir, int rank);  // FileError if it cannot be opened
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  void add(const StepRow& row);
  // FileError, for example if the disk is full. If the file was deleted in the meantime, a new one is started, and
  // take_remark() reports this once.
  void flush();
  std::string take_remark();

  // Means over the steps of this process, in milliseconds or bytes.
  struct Figures {
    double step_ms = 0, compute_ms = 0, encode_ms = 0, network_ms = 0, decode_ms = 0, wait_ms = 0, queue_ms = 0;
    double bytes_sent = 0;
    // The share of the exchange time that computing hid; nothing if nothing was sent.
    std::optional<double> hidden() const;
  };
  Figures means() const;
  double median_step_ms() const;

 private:
  void reopen_if_gone();

  std::filesystem::path path_;
  int rank_;
  Descriptor file_;
  std::string pending_;
  Timer since_flush_;
  std::string remark_;
  // Over all rows; the rows themselves are only on disk.
  Figures sums_;
  std::uint64_t rows_ = 0, last_step_ = 0;
  TimeHistogram step_times_;
};

}  // namespace sotto
