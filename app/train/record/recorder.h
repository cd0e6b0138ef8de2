#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "sotto/algorithm/algorithm.h"
#include "sotto/core/csv_table.h"
#include "sotto/core/open_file.h"
#include "sotto/core/timer.h"

namespace sotto {

// Counts times in bins that are 1.1 % wide, so that a median takes constant memory.
class TimeHistogram {
 public:
  void add(double seconds);
  // Accurate to 1.1 % for times from a microsecond to a day; 0 if there are none.
  double median() const;

 private:
  static constexpr std::size_t bins_an_octave = 64;
  static constexpr std::size_t octaves = 37;
  std::array<std::uint64_t, bins_an_octave * octaves> counts_{};
  std::uint64_t total_ = 0;
};

// Where the time of a step went, in milliseconds.
struct StepTimes {
  double step_ms = 0, compute_ms = 0, encode_ms = 0, network_ms = 0, decode_ms = 0, wait_ms = 0, queue_ms = 0;
  double data_ms = 0;  // the part of compute_ms in which the rank waited for data
};

// A row of steps.csv: one step of one rank.
struct StepRow : StepTimes {
  std::uint64_t step = 0, rank = 0;
  double epoch = 0, loss = 0, lr = 0;
  std::uint64_t bytes_sent = 0, bytes_received = 0;

  void set_report(const StepReport& report);  // the loss, and all times but data_ms
};

const CsvTable<StepRow>& step_table();

// Appends one rank's rows to the run's steps.csv, which all ranks share. Rows are written whole, at least once a second
// or when they fill 64 KiB.
class Recorder {
 public:
  // Rank 0 prepares the file before any rank opens it: writes the header, and removes damaged rows and the rows that a
  // resumed run will repeat. These are a rank's rows from its entry of `first_steps` on; for a rank that no longer
  // exists, from the last entry on. Returns the bytes that the remaining rows have sent.
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

  // Sums or means over steps.
  struct Figures : StepTimes {
    double bytes_sent = 0;
    void add(const StepRow& row);
    Figures mean_over(std::uint64_t steps) const;  // of a sum over so many steps
    // The share of the exchange time that computing hid; nothing if nothing was sent.
    std::optional<double> hidden() const;
  };
  Figures means() const;  // over the steps of this process
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
