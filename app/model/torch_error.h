#pragma once

#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <string_view>

#include "sotto/core/error.h"

namespace sotto {

// Calls something that LibTorch computes for a model. Its errors, such as a lack of memory, become an Error that names
// the model.
template <class Call>
auto in_torch(std::string_view model, Call&& call) {
  try {
    return call();
  } catch (const c10::Error& error) {
    throw Error(fmt::format("model {}: LibTorch fails: {}", model, error.what_without_backtrace()));
  }
}

}  // namespace sotto
