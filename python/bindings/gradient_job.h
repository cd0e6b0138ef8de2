#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <c10/core/Event.h>

#include <cstdint>
#include <exception>
#include <optional>
#include <span>
#include <vector>

#include "sotto/capi/posted_averager.h"

namespace sotto::python {

// The strides of a dense tensor of this shape whose dimensions are in the same order in memory.
std::vector<std::int64_t> dense_strides(const at::Tensor& tensor);

// One of DDP's buckets, or one gradient, while it is averaged.
struct GradientJob final : PostedBucket {
  at::Tensor buffer;
  at::Tensor host;                                 // the buffer itself, or `copy`
  at::Tensor copy;                                 // dense; for a device's buffer, in page-locked memory
  std::optional<c10::Event> copied;                // to `copy`, from a device
  c10::intrusive_ptr<c10::ivalue::Future> future;  // null: a caller waits for all jobs

  // Makes `host` of this buffer with these strides, in the order of the stream that made the buffer.
  void bring(const at::Tensor& from, const std::vector<std::int64_t>& strides);
  std::span<std::byte> bytes() const { return {static_cast<std::byte*>(host.data_ptr()), host.nbytes()}; }

  void await() override;
  // Copies the means back to the buffer.
  void finish(const std::exception_ptr& error) override;
};

}  // namespace sotto::python
