#pragma once

#include <string>

#include "sotto/core/error.h"

namespace sotto::test {

// What an error of ours says; "" when there is none.
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
