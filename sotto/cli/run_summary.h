#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace sotto {

// What the tables show of a run's summary.json.
struct RunSummary {
  std::string codec;
  double test_accuracy = 0;           // 0..1; of the mean model where ranks have models of their own
  std::vector<double> rank_accuracy;  // then, of each of them
  double consensus_distance = 0;      // and how far they are apart
  std::uint64_t steps = 0;
  double bytes_sent = 0, bytes_per_step = 0;  // mean over the ranks
  double dense_bytes_per_step = 0;
  double ms_per_step = 0, compute_ms = 0, encode_ms = 0, network_ms = 0, decode_ms = 0;
  double seconds = 0;
};

// FileError when it is missing or is not what a run writes.
RunSummary read_summary(const std::filesystem::path& train_dir);

}  // namespace sotto
