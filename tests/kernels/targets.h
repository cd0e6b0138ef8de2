#pragma once

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <cstdint>

namespace sotto::kernels {

// Calls test() once for each SIMD target that this program holds and this processor has, and for the fallback; the
// kernels use that target meanwhile.
template <class Test>
void on_every_target(Test test) {
  for (std::int64_t left = hwy::SupportedTargets(); left != 0; left &= left - 1) {
    const std::int64_t target = left & -left;
    SCOPED_TRACE(hwy::TargetName(target));
    hwy::GetChosenTarget().Update(target);  // chooses the fallback where the program lacks this target
    test();
  }
  hwy::GetChosenTarget().DeInit();
}

}  // namespace sotto::kernels
