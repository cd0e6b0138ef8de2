#pragma once

namespace sotto {

// Whether the processor has instructions for these types; true if that is not known.
inline bool computes_bf16() {
#ifdef __x86_64__
  return __builtin_cpu_supports("avx512bf16") != 0;
#else
  return true;
#endif
}

inline bool computes_f16() {
#ifdef __x86_64__
  return __builtin_cpu_supports("avx512fp16") != 0;
#else
  return true;
#endif
}

}  // namespace sotto
