#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sotto/core/layout.h"
#include "sotto/core/open_file.h"
#include "sotto/core/thread_pool.h"

namespace sotto {

// Files of named tensors, as Hugging Face's safetensors library has them: the length of a header, the header in JSON,
// and the values.

// How a file holds floats.
enum class FloatType : std::uint8_t { f32, f16, bf16 };

// The tensors that `layout` names in `values`.
struct TensorPart {
  const Layout& layout;
  std::span<const float> values;
};

// Writes a file, whole or not at all, and returns its block_hash(). No name may occur twice. FileError; NumericError
// for a value that is too large for the type.
std::string write_safetensors(const std::filesystem::path& path, std::span<const TensorPart> parts,
                              const std::map<std::string, std::string>& metadata, ThreadPool& pool,
                              FloatType type = FloatType::f32);

class SafetensorsReader {
 public:
  // Reads the header. FileError, which names the file, if it is damaged, truncated or of another format.
  explicit SafetensorsReader(const std::filesystem::path& path);

  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  bool has(std::string_view name) const { return tensors_.contains(std::string(name)); }
  std::vector<std::string> names() const;  // in the order of the values
  // The tensors of floats, in the order of the values.
  Layout layout() const;
  // Reads a tensor of floats of 16, 32 or 64 bits. FileError if it is missing, or has another type or shape.
  void read(std::string_view name, std::span<const std::int64_t> shape, std::span<float> values) const;
  // Reads all tensors of a layout.
  void read(const Layout& layout, std::span<float> values) const;

 private:
  struct Tensor {
    std::string type;
    std::vector<std::int64_t> shape;
    std::uint64_t begin = 0, end = 0;  // in the file
  };
  void read_header();
  void add(const std::string& name, Tensor tensor, std::uint64_t values);
  [[noreturn]] void fail(const std::string& why) const;

  std::filesystem::path path_;
  FileReader file_;
  std::map<std::string, std::string> metadata_;
  std::map<std::string, Tensor> tensors_;
};

}  // namespace sotto
