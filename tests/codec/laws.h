#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "sotto/codec/stages.h"
#include "tests/codec/fixture.h"

namespace sotto::testing {

// The error that rounding in single precision may cause, also where results are denormal.
inline double tolerance(const Input& input) {
  return 2e-6 * square_norm(input.values) + static_cast<double>(input.values.size()) * 0x1p-266;
}

inline void expect_clean_padding(const Input& input, const std::vector<float>& out) {
  std::vector<float> cleared = out;
  input.layout.clear_padding(cleared);
  EXPECT_EQ(out, cleared) << input.name;
}

// Checks a law with every codec.
inline void for_all(const std::function<void(const std::string& expression)>& law) {
  for (const std::string& expression : all_codecs()) {
    SCOPED_TRACE(expression);
    law(expression);
  }
}

inline bool is_listed(const std::string& expression) {
  static const auto listed = listed_codecs();
  return std::ranges::find(listed, expression) != listed.end();
}

inline std::unique_ptr<Codec> fresh(const std::string& expression) { return make_codec(read_stages(expression)); }

}  // namespace sotto::testing
