#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <fmt/format.h>
#include <torch/csrc/jit/serialization/pickle.h>
#include <torch/csrc/jit/serialization/unpickler.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <unordered_map>

#include "app/cli/codec/vector_file.h"
#include "sotto/core/bytes.h"
#include "sotto/core/error.h"
#include "sotto/core/floats.h"

namespace sotto {
namespace {

// What follows opcodes (Python's pickletools has them all).
enum class Argument : std::uint8_t { none, fixed, counted, memo, lines };
struct Opcodes {
  std::string_view codes;
  Argument argument;
  std::uint8_t count = 0;  // bytes of the argument, of its length or of the index; or lines
};

constexpr std::array<Opcodes, 11> all_opcodes{{
    {"(.012NQRabde}ls]tuo)\x81\x85\x86\x87\x88\x89\x8F\x90\x91\x93\x94", Argument::none},
    {"K\x80", Argument::fixed, 1},
    {"M", Argument::fixed, 2},
    {"J", Argument::fixed, 4},
    {"G", Argument::fixed, 8},
    {"CU\x8A\x8C", Argument::counted, 1},
    {"BTX\x8B", Argument::counted, 4},
    {"hq", Argument::memo, 1},
    {"jr", Argument::memo, 4},
    {"FILPSVgp", Argument::lines, 1},
    {"ci", Argument::lines, 2},
}};

std::uint64_t number(ByteReader& reader, std::size_t bytes) {
  std::uint64_t value = 0;
  const auto digits = reader.take(bytes, "pickle");
  for (std::size_t i = 0; i < bytes; ++i) value |= std::to_integer<std::uint64_t>(digits[i]) << (8 * i);
  return value;
}

// Reads through a pickle without building its objects. WireError if it is no pickle, or if its numbers would make a
// reader allocate far more memory than the pickle has bytes: a memo index above its length, or a string longer than its
// rest.
void check_pickle(std::span<const std::byte> pickle) {
  ByteReader reader(pickle);
  for (;;) {
    const auto code = reader.get<char>("pickle");
    if (code == '.') return;
    const auto* const found =
        std::ranges::find_if(all_opcodes, [&](const Opcodes& o) { return o.codes.find(code) != o.codes.npos; });
    if (found == all_opcodes.end()) {
      throw WireError(fmt::format("its pickle has an opcode 0x{:02x}, which torch.save does not write",
                                  static_cast<unsigned char>(code)));
    }
    switch (found->argument) {
      case Argument::none: break;
      case Argument::fixed: reader.take(found->count, "pickle"); break;
      case Argument::counted: reader.take(number(reader, found->count), "pickle"); break;
      case Argument::lines:
        for (int ends = 0; ends < found->count;) ends += reader.get<char>("pickle") == '\n' ? 1 : 0;
        break;
      case Argument::memo:
        if (const auto index = number(reader, found->count); index > pickle.size()) {
          throw WireError(fmt::format("its pickle of {} bytes has a memo of {} entries", pickle.size(), index));
        }
        break;
    }
  }
}

constexpr std::string_view magic("PK\x03\x04", 4);

struct NamedTensor {
  std::string name;
  at::Tensor tensor;
};

// The content of an archive, and the number of bytes of each storage, by its address.
struct Archive {
  c10::IValue value;
  std::unordered_map<const void*, std::size_t> sizes;
};

// Lets LibTorch read the file in parts, so that the file is not in memory besides its content.
class FileAdapter final : public caffe2::serialize::ReadAdapterInterface {
 public:
  explicit FileAdapter(const FileReader& file) : file_(file) {}
  std::size_t size() const override { return file_.size(); }
  std::size_t read(std::uint64_t begin, void* to, std::size_t most, const char* /*what*/) const override {
    const std::size_t count = std::min<std::size_t>(most, file_.size() - std::min(begin, file_.size()));
    file_.read(begin, {static_cast<std::byte*>(to), count});
    return count;
  }

 private:
  const FileReader& file_;
};

// Like torch::jit::pickle_load(), but keeps the size of each storage.
Archive read_archive(const FileReader& file) {
  caffe2::serialize::PyTorchStreamReader reader(std::make_shared<FileAdapter>(file));
  const auto record = [&](const std::string& name) {
    if (reader.getRecordSize(name) > file.size()) throw WireError(fmt::format("{} is larger than the file", name));
    return reader.getRecord(name);
  };
  const auto [pickle, size] = record("data.pkl");
  check_pickle({static_cast<const std::byte*>(pickle.get()), size});  // because LibTorch trusts its numbers
  std::string_view rest(static_cast<const char*>(pickle.get()), size);
  const auto read = [&rest](char* to, std::size_t most) {
    const std::size_t count = rest.copy(to, most);
    rest.remove_prefix(count);
    return count;
  };
  Archive archive;
  const auto read_storage = [&](const std::string& name) {
    auto [data, bytes_of] = record("data/" + name);
    archive.sizes[data.get()] = bytes_of;
    return std::move(data);
  };
  archive.value = torch::jit::Unpickler(read, nullptr, nullptr, read_storage, at::kCPU).parse_ivalue();
  return archive;
}

// LibTorch trusts a pickle's storages, sizes and strides, so they are checked here. Tensors in which elements share a
// value are refused, too: a few bytes could make terabytes.
bool lies_within_storage(const at::Tensor& tensor, const Archive& archive) {
  const auto found = archive.sizes.find(tensor.storage().data());
  const std::size_t there = found == archive.sizes.end() ? 0 : std::min(found->second, tensor.storage().nbytes());
  const auto elements = static_cast<std::int64_t>(there / tensor.element_size());
  std::int64_t last = tensor.storage_offset();
  std::int64_t count = 1;
  if (last < 0 || last > elements) return false;
  for (std::size_t d = 0; d < tensor.sizes().size(); ++d) {
    const std::int64_t size = tensor.sizes()[d];
    const std::int64_t stride = tensor.strides()[d];
    if (size == 0) return true;
    if (size < 0 || stride < 0 || count > elements / size || (size > 1 && stride > elements / (size - 1))) return false;
    count *= size;
    last += (size - 1) * stride;
    if (last >= elements) return false;
  }
  return count == 0 || last < elements;
}

// The tensors of a file by name; `name` is the name of the value itself.
void collect(const c10::IValue& value, const std::string& name, std::vector<NamedTensor>& found) {
  if (value.isTensor()) {
    found.push_back({name.empty() ? "values" : name, value.toTensor()});
    return;
  }
  if (!name.empty()) throw WireError(fmt::format("`{}` is a {}, not a tensor", name, value.tagKind()));
  if (value.isGenericDict()) {
    for (const auto& item : value.toGenericDict()) {
      if (!item.key().isString()) throw WireError(fmt::format("a key of its dictionary is a {}", item.key().tagKind()));
      collect(item.value(), item.key().toStringRef(), found);
    }
  } else if (value.isList() || value.isTuple()) {
    const auto items = value.isList() ? value.toList().vec() : value.toTupleRef().elements().vec();
    for (std::size_t i = 0; i < items.size(); ++i) collect(items[i], fmt::format("{}", i), found);
  } else {
    throw WireError(fmt::format("it holds a {}, not a tensor, or a list or dictionary of tensors", value.tagKind()));
  }
}

// Converts to floats. WireError if a number becomes infinite.
at::Tensor floats_of(const NamedTensor& item) {
  at::Tensor floats = item.tensor.to(at::kFloat).contiguous();
  if (item.tensor.scalar_type() == at::kDouble) {
    const at::Tensor wide = item.tensor.contiguous();
    const std::span<const double> values(wide.const_data_ptr<double>(), static_cast<std::size_t>(wide.numel()));
    if (const auto beyond = beyond_float(values)) {
      throw WireError(fmt::format("`{}` holds {}, which no float32 can hold; scale the values", item.name, *beyond));
    }
  }
  return floats;
}

// The values of all tensors, one after the other.
GradientFile joined(std::span<const NamedTensor> tensors, const Archive& archive) {
  GradientFile file;
  std::vector<Segment> segments;
  std::size_t all = 0;
  for (const NamedTensor& item : tensors) {
    const bool is_here = item.tensor.layout() == at::kStrided && lies_within_storage(item.tensor, archive);
    all += is_here ? static_cast<std::size_t>(item.tensor.numel()) : 0;
  }
  file.values.reserve(all);
  for (const NamedTensor& item : tensors) {
    const at::Tensor& tensor = item.tensor;
    if (tensor.layout() != at::kStrided || !tensor.device().is_cpu() || !at::isFloatingType(tensor.scalar_type())) {
      throw WireError(
          fmt::format("`{}` is no dense tensor of floats on the CPU, but {} on {}; save tensor.float().cpu()",
                      item.name, toString(tensor.scalar_type()), tensor.device().str()));
    }
    if (!lies_within_storage(tensor, archive)) {
      throw WireError(
          fmt::format("`{}` is a view of values that the file does not hold, or of one value several times; "
                      "save tensor.clone()",
                      item.name));
    }
    const at::Tensor floats = floats_of(item);
    segments.push_back(
        {item.name, file.values.size(), tensor.dim() == 0 ? std::vector<std::int64_t>{1} : tensor.sizes().vec()});
    const float* data = floats.const_data_ptr<float>();
    file.values.insert(file.values.end(), data, data + floats.numel());
  }
  file.layout = Layout(std::move(segments), file.values.size());
  return file;
}

}  // namespace

bool is_torch_file(std::span<const std::byte> begin) {
  return begin.size() >= magic.size() && std::memcmp(begin.data(), magic.data(), magic.size()) == 0;
}

GradientFile read_torch_file(const FileReader& file) {
  std::vector<NamedTensor> tensors;
  try {
    const Archive archive = read_archive(file);
    collect(archive.value, "", tensors);
    return joined(tensors, archive);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    const std::string_view what = error.what();
    std::string message =
        "LibTorch cannot read it; save a tensor, or a plain list or dictionary of tensors, such as "
        "dict(model.state_dict())";
    // An OrderedDict makes an assertion of LibTorch fail. Its text calls that a bug, so it is not shown.
    if (what.find("INTERNAL ASSERT") == what.npos) {
      message += fmt::format(": {}", what.substr(0, std::min(what.find('\n'), std::size_t{160})));
    }
    throw WireError(message);
  }
}

}  // namespace sotto
