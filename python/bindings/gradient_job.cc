#include "python/bindings/gradient_job.h"

#include <ATen/ops/empty_like.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "python/bindings/errors.h"

namespace sotto::python {

std::vector<std::int64_t> dense_strides(const at::Tensor& tensor) {
  return at::empty_like(tensor, tensor.options().device(at::kMeta)).strides().vec();
}

void GradientJob::bring(const at::Tensor& from, const std::vector<std::int64_t>& strides) {
  buffer = from;
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

void GradientJob::await() {
  if (copied) copied->synchronize();
}

void GradientJob::finish(const std::exception_ptr& error) {
  if (error) {
    if (future) future->setError(for_torch(error));
    return;
  }
  if (!host.is_same(buffer)) buffer.copy_(host);
  if (future) return future->markCompleted(buffer);
  buffer.reset();  // so that only one exists at a time
  host.reset();
}

}  // namespace sotto::python
