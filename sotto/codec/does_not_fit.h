#pragma once

#include "sotto/core/error.h"

namespace sotto {

// A finite value is too large for the type of a codec's linear form. A message may hold it all the same.
class DoesNotFit : public NumericError {
 public:
  using NumericError::NumericError;
};

}  // namespace sotto
