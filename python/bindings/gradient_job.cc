#include "python/bindings/gradient_job.h"

#include <ATen/ops/empty_like.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "sotto/kernels/cast.h"
#include "sotto/kernels/vector.h"

namespace sotto::python {

void widen(std::span<const std::byte> from, DType type, float factor, std::span<float> to) {
  if (type == DType::f32) {
    std::memcpy(to.data(), from.data(), from.size());
    if (factor != 1) kernels::scale(factor, to);
    return;
  }
  std::ranges::fill(to, 0.0F);
  if (type == DType::f16) kernels::add_f16(from, 1.0F, factor, to);
  if (type == DType::bf16) kernels::add_bf16(from, factor, to);
}

void narrow(std::span<const float> from, DType type, float factor, std::span<std::byte> to) {
  if (type == DType::f32) {
    kernels::to_f32(from, factor, to);
  } else if (!from.empty() && !std::isfinite(from.front())) {
    std::ranges::fill(to, std::byte{0xFF});  // NaN in either type
  } else if (type == DType::f16) {
    kernels::to_f16(from, factor, 1.0F, to);
  } else {
    kernels::to_bf16(from, factor, to);
  }
}

std::vector<std::int64_t> dense_strides(const at::Tensor& tensor) {
  return at::empty_like(tensor, tensor.options().device(at::kMeta)).strides().vec();
}

void GradientJob::bring(const std::vector<std::int64_t>& strides) {
  const c10::Device device = buffer.device();
  if (device.is_cpu() && buffer.strides() == at::IntArrayRef(strides)) {
    host = buffer;
    return;
  }
  if (!copy.defined() || copy.sizes() != buffer.sizes() || copy.strides() != at::IntArrayRef(strides) ||
      copy.scalar_type() != buffer.scalar_type()) {
    copy =
        at::empty_strided(buffer.sizes(), strides, buffer.options().device(at::kCPU).pinned_memory(!device.is_cpu()));
  }
  host = copy;
  host.copy_(buffer, /*non_blocking=*/true);
  if (device.is_cpu()) return;
  copied.emplace(device.type());
  copied->record(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
}

void GradientJob::take_back() {
  if (!host.is_same(buffer)) buffer.copy_(host);
}

}  // namespace sotto::python
