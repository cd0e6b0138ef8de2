#include "sotto/capi/host_tensor.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>

#include "sotto/capi/callers.h"
#include "sotto/kernels/reduce.h"

namespace sotto::capi {
namespace {

// Calls f(offset in bytes, number of bytes) for the runs of consecutive elements, the last dimension innermost.
template <class F>
void for_each_run(const sotto_tensor& tensor, std::span<const std::int64_t> shape, F f) {
  const std::size_t size = size_of(type_of(tensor.type));
  if (std::ranges::find(shape, 0) != shape.end()) return;
  std::size_t run = size, inner = shape.size();  // dimensions from `inner` on are one run
  while (inner > 0 && (tensor.strides == nullptr || shape[inner - 1] == 1 ||
                       static_cast<std::size_t>(tensor.strides[inner - 1]) * size == run)) {
    run *= static_cast<std::size_t>(shape[inner - 1]);
    --inner;
  }
  std::vector<std::int64_t> at(inner, 0);
  std::size_t offset = 0;
  while (true) {
    f(offset * size, run);
    std::size_t d = inner;
    while (d > 0) {
      --d;
      offset += static_cast<std::size_t>(tensor.strides[d]);
      if (++at[d] < shape[d]) break;
      offset -= static_cast<std::size_t>(tensor.strides[d] * std::exchange(at[d], 0));
      if (d == 0) return;
    }
    if (inner == 0) return;
  }
}

std::vector<std::int64_t> checked_shape(const sotto_tensor& tensor) {
  auto shape = read_shape(tensor.shape, tensor.dimensions);
  for (std::size_t d = 0; tensor.strides != nullptr && d < shape.size(); ++d) {
    if (tensor.strides[d] < 0) throw ConfigError("a stride of the tensor is below 0");
  }
  if (std::ranges::find(shape, 0) == shape.end()) require(tensor.data, "the data of the tensor");
  return shape;
}

std::size_t count_of(std::span<const std::int64_t> shape) {
  std::size_t count = 1;
  for (const std::int64_t size : shape) count *= static_cast<std::size_t>(size);
  return count;
}

}  // namespace

DType type_of(sotto_type type) {
  if (type < SOTTO_F32 || type > SOTTO_U8) throw ConfigError(fmt::format("{} is no type", static_cast<int>(type)));
  return static_cast<DType>(type);
}
static_assert(static_cast<int>(DType::u8) == SOTTO_U8 && static_cast<int>(DType::f64) == SOTTO_F64);

DType float_type_of(sotto_type type) {
  const DType own = type_of(type);
  if (own == DType::f32 || own == DType::f16 || own == DType::bf16) return own;
  throw ConfigError(fmt::format("a tensor of {} cannot be compressed; codecs take f32, f16 and bf16", name_of(own)));
}

sotto_type type_of(DType type) { return static_cast<sotto_type>(type); }

std::vector<std::int64_t> read_shape(const std::int64_t* shape, std::size_t dimensions) {
  if (dimensions > SOTTO_MOST_DIMENSIONS) throw ConfigError(fmt::format("{} dimensions are too many", dimensions));
  const auto given = span_of(shape, dimensions, "the shape");
  constexpr std::size_t most = std::numeric_limits<std::int64_t>::max() / sizeof(float);
  std::size_t count = 1;
  for (const std::int64_t size : given) {
    if (size < 0) throw ConfigError(fmt::format("a dimension of the tensor is {}", size));
    if (size > 0 && count > most / static_cast<std::size_t>(size))
      throw ConfigError("the tensor is larger than memory");
    if (size > 0) count *= static_cast<std::size_t>(size);
  }
  return {given.begin(), given.end()};
}

std::vector<std::byte> read_bytes(const sotto_tensor& tensor) {
  const auto shape = checked_shape(tensor);
  std::vector<std::byte> bytes(count_of(shape) * size_of(type_of(tensor.type)));
  std::byte* to = bytes.data();
  for_each_run(tensor, shape, [&](std::size_t offset, std::size_t run) {
    std::memcpy(to, static_cast<const std::byte*>(tensor.data) + offset, run);
    to += run;
  });
  return bytes;
}

void write_bytes(std::span<const std::byte> bytes, const sotto_tensor& tensor) {
  const std::byte* from = bytes.data();
  for_each_run(tensor, checked_shape(tensor), [&](std::size_t offset, std::size_t run) {
    std::memcpy(static_cast<std::byte*>(tensor.data) + offset, from, run);
    from += run;
  });
}

std::vector<float> read_floats(const sotto_tensor& tensor) {
  const DType type = float_type_of(tensor.type);
  const std::vector<std::byte> bytes = read_bytes(tensor);
  std::vector<float> floats(bytes.size() / size_of(type));
  widen(bytes, type, 1, floats);
  return floats;
}

void write_floats(std::span<const float> floats, const sotto_tensor& tensor, const char* what) {
  const DType type = float_type_of(tensor.type);
  if (type == DType::f32) return write_bytes(std::as_bytes(floats), tensor);
  const double reached = std::bit_cast<float>(kernels::max_abs_bits(floats));
  if (!(reached <= largest(type))) {
    throw NumericError(
        fmt::format("{} reaches {:g}, and {} ends at {:g}: an unbiased codec gives back values that may be larger than "
                    "those that it got; use bf16 or f32",
                    what, reached, name_of(type), largest(type)));
  }
  std::vector<std::byte> bytes(floats.size() * size_of(type));
  narrow(floats, type, 1, bytes);
  write_bytes(bytes, tensor);
}

}  // namespace sotto::capi
