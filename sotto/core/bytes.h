#pragma once

#include <bit>
#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>

#include "sotto/core/error.h"

namespace sotto {

static_assert(std::endian::native == std::endian::little,
              "wire and file formats are little-endian, and so is this code");

// Writes values into a buffer whose size was computed beforehand. std::logic_error when it overruns the buffer.
class ByteWriter {
 public:
  explicit ByteWriter(std::span<std::byte> buffer) : buffer_(buffer) {}

  template <class T>
  void put(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    std::memcpy(take(sizeof(T)).data(), &value, sizeof(T));
  }
  void put_bytes(std::span<const std::byte> bytes) {
    const auto to = take(bytes.size());
    if (!bytes.empty()) std::memcpy(to.data(), bytes.data(), bytes.size());
  }
  // The next `count` bytes, to be filled in by the caller.
  std::span<std::byte> take(std::size_t count) {
    if (count > buffer_.size() - used_) throw std::logic_error("ByteWriter: message is larger than its declared bound");
    const auto part = buffer_.subspan(used_, count);
    used_ += count;
    return part;
  }
  std::size_t used() const { return used_; }
  std::span<std::byte> rest() { return buffer_.subspan(used_); }

 private:
  std::span<std::byte> buffer_;
  std::size_t used_ = 0;
};

// Reads values from untrusted bytes. Every read throws a WireError, which names `what`, when the buffer is too short.
class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> buffer) : buffer_(buffer) {}

  template <class T>
  T get(const char* what) {
    static_assert(std::is_trivially_copyable_v<T>);
    T value;
    std::memcpy(&value, take(sizeof(T), what).data(), sizeof(T));
    return value;
  }
  std::span<const std::byte> take(std::size_t count, const char* what) {
    if (count > buffer_.size() - used_) {
      throw WireError("truncated " + std::string(what) + ": " + std::to_string(count) + " bytes wanted, " +
                      std::to_string(buffer_.size() - used_) + " left");
    }
    const auto part = buffer_.subspan(used_, count);
    used_ += count;
    return part;
  }
  std::size_t left() const { return buffer_.size() - used_; }
  std::span<const std::byte> rest() const { return buffer_.subspan(used_); }
  // WireError unless the whole buffer was read.
  void finish(const char* what) const {
    if (left() != 0) throw WireError(std::to_string(left()) + " bytes too many after " + what);
  }

 private:
  std::span<const std::byte> buffer_;
  std::size_t used_ = 0;
};

}  // namespace sotto
