#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "sotto/core/table.h"

namespace sotto {

// Synthetic inputs for measurements and tests. They are fast, and equal for equal seeds on every machine, up to the
// last bits of the mathematical library.
struct SampleEntry {
  std::string_view name;
  std::string_view summary;
  void (*fill)(std::uint64_t seed, std::span<float> out);
};

const Table<SampleEntry>& sample_table();

// ConfigError for an unknown name: "gaussian", "student", "sparse".
void fill_sample(std::string_view option, std::string_view name, std::uint64_t seed, std::span<float> out);

}  // namespace sotto
