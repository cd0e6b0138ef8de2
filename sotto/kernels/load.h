#pragma once

#include <cstddef>
#include <cstring>

namespace sotto::kernels {

// Loads or stores element i of an array of T with any alignment, such as bytes of a message. Compiles to one plain load
// or store.
template <class T>
inline T load(const std::byte* bytes, std::size_t i) {
  T value;
  std::memcpy(&value, bytes + i * sizeof(T), sizeof(T));
  return value;
}

template <class T>
inline void store(std::byte* bytes, std::size_t i, T value) {
  std::memcpy(bytes + i * sizeof(T), &value, sizeof(T));
}

}  // namespace sotto::kernels
