#pragma once

#include <string>

#include "sotto/core/error.h"

namespace sotto::test {

// The what() of the sotto::Error that f() throws; "" when it throws none.
template <class F>
std::string message_of(F&& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace sotto::test
