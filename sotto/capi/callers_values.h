#pragma once

#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "sotto/capi/gradient_averager.h"
#include "sotto/capi/state_values.h"
#include "sotto/capi/status.h"

// State, statistics and texts between the library and a caller of C.
namespace sotto::capi {

inline void give(const std::string& text, const sotto_sink& sink) { sink.take(sink.context, text.data(), text.size()); }

void give(const StateValues& values, const sotto_visitor& visitor);
void give_names(const std::vector<std::string>& names, const sotto_visitor& visitor);

// ConfigError for a value that is none.
StateValues read_values(const sotto_value* values, std::size_t count);

inline void give(const AveragerStats& stats, sotto_stats* into) {
  const std::size_t known = read_options(into).bytes;
  const sotto_stats all{known, stats.steps, stats.bytes_sent, stats.bytes_received, stats.dense_bytes};
  if (into != nullptr) std::memcpy(into, &all, known);
}

}  // namespace sotto::capi
