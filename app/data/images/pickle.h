#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

namespace sotto {

// Reads a dictionary of lists of integers and NumPy arrays of bytes from a file of Python's pickle, protocols 2 and 3,
// like those that the authors of CIFAR wrote. A pickle is a program that may call any function of Python. This reader
// runs nothing: it knows the opcodes of such data, the three names that an array needs and the two with which Python 3
// writes bytes in protocol 2, and refuses all others.
class Pickle {
 public:
  // FileError, which names the file and the byte, for anything else. `path` is for errors; the bytes must outlive this.
  Pickle(std::filesystem::path path, std::span<const std::byte> bytes);
  ~Pickle();

  struct Array {
    std::vector<std::int64_t> shape;
    std::span<const std::byte> values;  // the last dimension fastest; as many as the shape says
  };
  // The value of a key of the dictionary. FileError if the key is missing, or its value has another type.
  std::vector<std::int64_t> integers(std::string_view key) const;
  Array array(std::string_view key) const;

 private:
  class Machine;
  std::filesystem::path path_;
  std::unique_ptr<Machine> machine_;
};

}  // namespace sotto
