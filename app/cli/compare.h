#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "app/train/options/options.h"

namespace sotto {

enum class TableStyle { plain, markdown, json };

// Trains the same job with each algorithm and codec, once for each of `seeds` seeds from options.seed on. Each run has
// a new folder under options.train_dir. Prints one table, of means over the seeds. The row of a job that failed or was
// interrupted says so. Returns 0, or the status of the first job that failed, or of a signal, which ends all jobs.
// Algorithms that use no topology ignore options.topology.
int compare_runs(const TrainOptions& options, std::span<const std::string> algorithms,
                 std::span<const std::string> codecs, TableStyle style, std::int64_t seeds = 1);

}  // namespace sotto
