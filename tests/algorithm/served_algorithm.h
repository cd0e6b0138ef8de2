#pragma once

// A parameter server as an algorithm, and whether all ranks have the same model.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sotto/algorithm/algorithm.h"
#include "sotto/comm/communicator.h"
#include "tests/support/phases.h"
#include "tests/support/specs.h"

namespace sotto::test {

inline std::string with(std::string_view options) { return "parameter_server(" + std::string(options) + ")"; }

inline std::unique_ptr<Algorithm> make_served(const std::string& expression, const std::string& codec, Worker& worker,
                                              Communicator& communicator) {
  AlgorithmOptions options;
  options.phases = read_phases(codec);
  return make_algorithm(test::algorithm(expression), options, worker.buckets(), communicator);
}

inline void expect_same_bits(std::span<const float> found, std::span<const float> wanted, const std::string& what) {
  ASSERT_EQ(found.size(), wanted.size());
  ASSERT_EQ(0, std::memcmp(found.data(), wanted.data(), wanted.size_bytes())) << what;
}

// Expects the same parameters on all ranks, to the last bit.
inline void expect_replicas(std::span<const float> mine, Communicator& communicator, const std::string& what) {
  std::vector<float> first(mine.begin(), mine.end());
  communicator.broadcast(std::as_writable_bytes(std::span(first)), 0);
  expect_same_bits(mine, first, what);
}

}  // namespace sotto::test
