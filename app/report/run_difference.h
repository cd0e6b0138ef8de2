#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "app/task/metric.h"

namespace sotto {

// Where the records of two runs of the same training first differ, from step `first` on and before step `end`: in a
// loss of steps.csv, or in a metric of evaluations.csv. A row that only `replay` has does not count, for a rank that
// was killed wrote its last rows to no file. Empty: nowhere. FileError.
std::string first_difference(const std::filesystem::path& run, const std::filesystem::path& replay, std::uint64_t first,
                             std::uint64_t end, std::span<const Metric> metrics);

}  // namespace sotto
