#include "python/bindings/tensor_gossiper.h"

#include <ATen/MemoryOverlap.h>
#include <fmt/format.h>

#include "python/bindings/tensor_types.h"
#include "sotto/core/error.h"

namespace sotto::python {
namespace {

// Two tensors with the same text have the same element at each place in memory.
std::string order_of(const at::Tensor& values) {
  std::string text;
  for (std::int64_t d = 0; d < values.dim(); ++d) {
    text += fmt::format("{}:{} ", values.size(d), values.size(d) > 1 ? values.stride(d) : 0);
  }
  return text;
}

}  // namespace

double mix(VectorGossip& gossip, const at::Tensor& tensor, double weight) {
  codec_type(tensor);
  if (at::has_internal_overlap(tensor) == at::MemOverlap::Yes)
    throw ConfigError(
        "several elements of the tensor are one place in memory, where a mean cannot be written; clone it");
  const bool own_memory = tensor.device().is_cpu() && tensor.scalar_type() == at::kFloat && !tensor.is_neg() &&
                          tensor.is_non_overlapping_and_dense();
  at::Tensor values = tensor.detach();
  if (!own_memory) values = values.to(at::kCPU, at::kFloat, false, /*copy=*/true).contiguous().resolve_neg();
  const double mixed =
      gossip.mix({values.data_ptr<float>(), static_cast<std::size_t>(values.numel())}, weight, order_of(values));
  if (!own_memory) tensor.detach().copy_(values);
  return mixed;
}

}  // namespace sotto::python
