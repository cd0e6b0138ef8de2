#include "app/train/folder/safetensors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "sotto/core/error.h"
#include "sotto/core/floats.h"
#include "sotto/core/hash.h"
#include "sotto/kernels/element.h"

namespace sotto {
namespace {

constexpr std::uint64_t longest_header = 100'000'000;  // as the library itself has it

// The bytes of an element of a type; 0 for an unknown type.
std::size_t bytes_of(std::string_view type) {
  if (type == "F64") return 8;
  if (type == "F32") return 4;
  return type == "F16" || type == "BF16" ? 2 : 0;
}

template <class Stored>
Stored stored_at(const std::byte* bytes) {
  Stored value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

float float_of(std::string_view type, const std::byte* bytes) {
  if (type == "F64") return static_cast<float>(stored_at<double>(bytes));
  if (type == "F16") return kernels::element::from_f16(stored_at<std::uint16_t>(bytes));
  if (type == "BF16") return kernels::element::from_bf16(stored_at<std::uint16_t>(bytes));
  return stored_at<float>(bytes);
}

std::uint64_t product(const std::vector<std::int64_t>& shape, std::uint64_t most) {
  std::uint64_t count = std::ranges::count(shape, 0) > 0 ? 0 : 1;
  for (const std::int64_t side : shape) {
    if (side < 0) return most + 1;
    if (count > 0 && count > most / static_cast<std::uint64_t>(side)) return most + 1;
    count *= static_cast<std::uint64_t>(side);
  }
  return count;
}

std::string_view name_of(FloatType type) {
  return type == FloatType::f16 ? "F16" : type == FloatType::bf16 ? "BF16" : "F32";
}

std::string header_of(std::span<const TensorPart> parts, const std::map<std::string, std::string>& metadata,
                      std::string_view type) {
  nlohmann::ordered_json header;
  header["__metadata__"] = metadata;
  std::uint64_t offset = 0;
  for (const TensorPart& part : parts) {
    for (const Segment& segment : part.layout.segments()) {
      const std::uint64_t end = offset + segment.numel() * bytes_of(type);
      header[segment.name] = {{"dtype", type}, {"shape", segment.shape}, {"data_offsets", {offset, end}}};
      offset = end;
    }
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');  // so that values are aligned
  return text;
}

// For files that users take for safetensors: says what the file is, and what to do. Its first bytes are not the length
// of a header.
std::string not_safetensors(const FileReader& file) {
  struct Other {
    std::string_view begin, is;
  };
  constexpr std::string_view torch =
      "a file of torch.save, not of safetensors; convert it in Python: safetensors.torch.save_file(torch.load(FILE, "
      "weights_only=True), \"model.safetensors\")";
  constexpr std::array<Other, 6> others{{
      {"version https://git-lfs", "a pointer of git-lfs, in place of the file; `git lfs pull` in its folder gets that"},
      {"PK\x03\x04", torch},
      {"\x80\x02", torch},  // of before torch 1.6
      {"<!", "a page of the web, not a safetensors file; download the file itself"},
      {"<html", "a page of the web, not a safetensors file; download the file itself"},
      {"{", "a text in JSON, not a safetensors file"},
  }};
  std::string begin(std::min<std::uint64_t>(file.size(), 32), '\0');
  file.read(0, std::as_writable_bytes(std::span(begin)));
  for (const Other& other : others) {
    if (begin.starts_with(other.begin)) return fmt::format("it is {}", other.is);
  }
  return "not a safetensors file: its first bytes are not the length of a header";
}

// The values in two bytes each.
std::vector<std::uint16_t> narrowed(std::span<const float> values, FloatType type, const std::string& name) {
  std::vector<std::uint16_t> result(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const bool f16 = type == FloatType::f16;
    if (std::abs(values[i]) > (f16 ? 65504.0F : 0x1.FEp127F)) {
      throw NumericError(fmt::format("tensor {} holds {}, too much for {}", name, values[i], name_of(type)));
    }
    result[i] = f16 ? kernels::element::to_f16(values[i]) : kernels::element::to_bf16(values[i]);
  }
  return result;
}

}  // namespace

std::string write_safetensors(const std::filesystem::path& path, std::span<const TensorPart> parts,
                              const std::map<std::string, std::string>& metadata, ThreadPool& pool, FloatType type) {
  AtomicFile file(path);
  BlockHash hash(pool);
  const auto append = [&](std::span<const std::byte> bytes) {
    file.write(bytes);
    hash.add(bytes);
  };
  const std::string header = header_of(parts, metadata, name_of(type));
  const std::uint64_t length = header.size();
  append(std::as_bytes(std::span(&length, 1)));
  append(std::as_bytes(std::span(header)));
  for (const TensorPart& part : parts) {
    for (const Segment& segment : part.layout.segments()) {
      const auto values = part.values.subspan(segment.offset, segment.numel());
      if (type == FloatType::f32) {
        append(std::as_bytes(values));
      } else {
        const auto narrow = narrowed(values, type, segment.name);
        append(std::as_bytes(std::span(narrow)));
      }
    }
  }
  file.commit();
  return hash.hex();
}

SafetensorsReader::SafetensorsReader(const std::filesystem::path& path) : path_(path), file_(path) {
  try {
    read_header();
  } catch (const nlohmann::json::exception& error) {
    fail(fmt::format("not a safetensors file: {}", error.what()));
  }
}

void SafetensorsReader::read_header() {
  std::uint64_t length = 0;
  if (file_.size() < sizeof length) fail("truncated: too short for a safetensors file");
  file_.read(0, std::as_writable_bytes(std::span(&length, 1)));
  if (length > longest_header) fail(not_safetensors(file_));
  if (length > file_.size() - sizeof length) fail("truncated: its header is longer than the file");
  std::string text(length, '\0');
  file_.read(sizeof length, std::as_writable_bytes(std::span(text)));
  const std::uint64_t base = sizeof length + length, size = file_.size() - base;
  std::uint64_t last = 0;
  const nlohmann::json header = nlohmann::json::parse(text);
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") {
      metadata_ = entry.get<std::map<std::string, std::string>>();
      continue;
    }
    const auto [begin, end] = entry.at("data_offsets").get<std::pair<std::uint64_t, std::uint64_t>>();
    add(name,
        {entry.at("dtype").get<std::string>(), entry.at("shape").get<std::vector<std::int64_t>>(), base + begin,
         base + end},
        size);
    last = std::max(last, end);
  }
  std::uint64_t next = base;
  for (const std::string& name : names()) {
    const Tensor& tensor = tensors_.at(name);
    if (tensor.begin != next) fail(fmt::format("tensor {} begins at byte {} in place of {}", name, tensor.begin, next));
    next = tensor.end;
  }
  if (last != size) fail(fmt::format("{} surplus bytes at its end", size - last));
}

// `values`: how many bytes the file has after its header.
void SafetensorsReader::add(const std::string& name, Tensor tensor, std::uint64_t values) {
  const std::uint64_t end = file_.size();
  if (tensor.begin > tensor.end || tensor.begin < end - values || tensor.end > end) {
    fail(fmt::format("truncated: tensor {} would be at bytes {} to {} of {}", name, tensor.begin, tensor.end, end));
  }
  const std::uint64_t bytes = tensor.end - tensor.begin, each = bytes_of(tensor.type);
  if (each > 0 && product(tensor.shape, bytes) * each != bytes) {
    fail(fmt::format("tensor {} of shape {} has {} bytes", name, fmt::join(tensor.shape, "x"), bytes));
  }
  tensors_.emplace(name, std::move(tensor));
}

void SafetensorsReader::fail(const std::string& why) const {
  throw FileError(fmt::format("{}: {}", path_.string(), why));
}

std::vector<std::string> SafetensorsReader::names() const {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors_) names.push_back(name);
  std::ranges::stable_sort(names, {}, [&](const std::string& name) {
    const Tensor& tensor = tensors_.at(name);
    return std::pair(tensor.begin, tensor.end);
  });
  return names;
}

Layout SafetensorsReader::layout() const {
  Layout layout;
  for (const std::string& name : names()) {
    const Tensor& tensor = tensors_.at(name);
    if (bytes_of(tensor.type) > 0) layout.append(name, tensor.shape);
  }
  return layout;
}

void SafetensorsReader::read(std::string_view name, std::span<const std::int64_t> shape,
                             std::span<float> values) const {
  const auto found = tensors_.find(std::string(name));
  if (found == tensors_.end()) fail(fmt::format("tensor {} is missing", name));
  const Tensor& tensor = found->second;
  const std::size_t each = bytes_of(tensor.type);
  if (each == 0) fail(fmt::format("tensor {} is of type {}; F16, BF16, F32 and F64 can be read", name, tensor.type));
  if (!std::ranges::equal(tensor.shape, shape)) {
    fail(fmt::format("tensor {} has the shape {}, the model's is {}", name, fmt::join(tensor.shape, "x"),
                     fmt::join(shape, "x")));
  }
  if (tensor.type == "F32") {
    file_.read(tensor.begin, std::as_writable_bytes(values));
    return;
  }
  std::vector<std::byte> bytes(tensor.end - tensor.begin);
  file_.read(tensor.begin, bytes);
  if (tensor.type == "F64") {
    const auto beyond = beyond_float({reinterpret_cast<const double*>(bytes.data()), values.size()});
    if (beyond) fail(fmt::format("tensor {} holds {}, which no float32 can hold; scale the values", name, *beyond));
  }
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = float_of(tensor.type, bytes.data() + i * each);
}

void SafetensorsReader::read(const Layout& layout, std::span<float> values) const {
  for (const Segment& segment : layout.segments()) {
    read(segment.name, segment.shape, values.subspan(segment.offset, segment.numel()));
  }
}

}  // namespace sotto
