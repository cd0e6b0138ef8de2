#pragma once

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "sotto/capi/gradient_averager.h"
#include "sotto/capi/sotto.h"
#include "sotto/capi/state_values.h"
#include "sotto/capi/terms.h"
#include "sotto/comm/communicator.h"
#include "sotto/comm/group/store.h"
#include "sotto/core/error.h"

// What the functions of the C interface have in common: between a caller's plain values and the library's.

struct sotto_group {
  std::shared_ptr<sotto::Communicator> communicator;
  bool encrypts = false;
};

namespace sotto::capi {

// Keeps the text of this error for sotto_last_error(), and returns its status.
sotto_status remember(const std::exception_ptr& error) noexcept;

// Runs the body of a function of the interface.
template <class Work>
sotto_status guarded(Work work) noexcept {
  try {
    work();
    return SOTTO_OK;
  } catch (...) {
    return remember(std::current_exception());
  }
}

// ConfigError if an argument that must be there is NULL.
inline void require(const void* argument, const char* name) {
  if (argument == nullptr) throw ConfigError(std::string(name) + " is NULL");
}

template <class Element>
std::span<Element> span_of(Element* data, std::size_t count, const char* name) {
  if (count > 0) require(data, name);
  return {data, count};
}

// The functions of a store of ours, for a caller.
sotto_store calls_of(StorePtr store);

// ConfigError for a number of threads that no machine has.
inline int read_threads(int threads) {
  if (threads < 0 || threads > 1024) throw ConfigError(named("threads") + ": wants 1 to 1024");
  return std::max(1, threads);
}

// A timeout; 0: 60 s. ConfigError if it is below 0.
std::chrono::milliseconds milliseconds(double seconds);

inline std::string text_or(const char* text, const char* otherwise) { return text == nullptr ? otherwise : text; }

// The options of a caller who may know fewer of them than this library: the others are 0. NULL: all are.
template <class Options>
Options read_options(const Options* given) {
  Options options{};
  if (given == nullptr) return options;
  if (given->bytes < sizeof(std::size_t) || given->bytes > sizeof(Options)) {
    throw ConfigError("the options have another size than this version of sotto knows; set `bytes` to their size");
  }
  std::memcpy(&options, given, given->bytes);
  return options;
}

inline void give(const std::string& text, const sotto_sink& sink) { sink.take(sink.context, text.data(), text.size()); }

void give(const StateValues& values, const sotto_visitor& visitor);
void give_names(const std::vector<std::string>& names, const sotto_visitor& visitor);

// A text as a value.
void give(const char* name, const std::string& text, const sotto_visitor& visitor);

// ConfigError for a value that is none.
StateValues read_values(const sotto_value* values, std::size_t count);
FormerState read_former(const sotto_former& former);

// ConfigError for a term without a name or a value.
Terms read_terms(const sotto_term* terms, std::size_t count);

// See sotto_aggregate(). If one rank refuses (ConfigError, NumericError; `tensor` is null), the others get a
// ConfigError; so do all if a rank aggregates differently.
void aggregate(const sotto_tensor* tensor, const sotto_aggregate_options& options, Communicator& communicator);

// Collective: what every rank has, to rank 0's sink.
void gather(Communicator& communicator, const void* data, std::size_t bytes, const sotto_sink& sink);

inline void give(const AveragerStats& stats, sotto_stats* into) {
  const std::size_t known = read_options(into).bytes;
  const sotto_stats all{known,
                        stats.steps,
                        stats.bytes_sent,
                        stats.bytes_received,
                        stats.dense_bytes,
                        stats.timings.encode,
                        stats.timings.network,
                        stats.timings.decode};
  if (into != nullptr) std::memcpy(into, &all, known);
}

}  // namespace sotto::capi
