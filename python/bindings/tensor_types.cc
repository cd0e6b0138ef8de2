#include "python/bindings/tensor_types.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <string>

#include "sotto/core/error.h"
#include "sotto/kernels/reduce.h"

namespace sotto::python {

std::span<float> floats_of(const at::Tensor& tensor) { return {tensor.data_ptr<float>(), tensor.nbytes() / 4}; }
std::span<std::byte> bytes_of(const at::Tensor& tensor) {
  return {static_cast<std::byte*>(tensor.data_ptr()), tensor.nbytes()};
}

std::optional<DType> type_of(at::ScalarType type) {
  switch (type) {
    case at::kFloat: return DType::f32;
    case at::kHalf: return DType::f16;
    case at::kBFloat16: return DType::bf16;
    case at::kDouble: return DType::f64;
    case at::kInt: return DType::i32;
    case at::kLong: return DType::i64;
    case at::kByte: return DType::u8;
    default: return std::nullopt;
  }
}

at::ScalarType scalar_of(DType type) {
  if (type == DType::f16) return at::kHalf;
  return type == DType::bf16 ? at::kBFloat16 : at::kFloat;
}

at::Tensor as_type(const at::Tensor& floats, DType type, const std::string& what) {
  const double reached = std::bit_cast<float>(kernels::max_abs_bits(floats_of(floats)));
  if (type == DType::f32 || reached <= largest(type)) return floats.to(scalar_of(type));
  throw NumericError(
      fmt::format("{} reaches {:g}, and {} ends at {:g}: an unbiased codec gives back values that may be larger than "
                  "those that it got; use bfloat16 or float32",
                  what, reached, name_of(type), largest(type)));
}

DType codec_type(const at::Tensor& tensor) {
  const auto type = type_of(tensor.scalar_type());
  if (tensor.layout() == at::kStrided && (type == DType::f32 || type == DType::f16 || type == DType::bf16))
    return *type;
  throw ConfigError(
      fmt::format("a tensor of {}{} cannot be encoded; codecs take dense tensors of float32, float16 and bfloat16",
                  c10::toString(tensor.scalar_type()), tensor.layout() == at::kStrided ? "" : " that is not dense"));
}

std::vector<std::int64_t> memory_shape(const at::Tensor& tensor) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(tensor.dim()));
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::int64_t>(i);
  if (tensor.is_non_overlapping_and_dense()) {
    std::ranges::stable_sort(order, std::ranges::greater{}, [&](std::int64_t d) { return tensor.stride(d); });
  }
  for (std::int64_t& d : order) d = tensor.size(d);
  return order;
}

}  // namespace sotto::python
