#include "python/bindings/tensor_types.h"

#include <string>

#include "sotto/core/error.h"

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

DType codec_type(const at::Tensor& tensor) {
  const auto type = type_of(tensor.scalar_type());
  if (tensor.layout() == at::kStrided && (type == DType::f32 || type == DType::f16 || type == DType::bf16))
    return *type;
  throw ConfigError(std::string("a tensor of ") + c10::toString(tensor.scalar_type()) +
                    " cannot be encoded; codecs take dense tensors of float32, float16 and bfloat16");
}

}  // namespace sotto::python
