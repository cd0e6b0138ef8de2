#pragma once

namespace sotto {

// Whether the processor has instructions for bfloat16; true where that is not known.
inline bool computes_bf16() {
#ifdef __x86_64__
  return __builtin_cpu_supports("avx512bf16") != 0;
#else
  return true;
#endif
}

}  // namespace sotto
