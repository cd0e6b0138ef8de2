#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <c10/core/Event.h>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "sotto/core/dtype.h"
#include "sotto/core/layout.h"

namespace sotto::python {

// Converts bytes of 32- or 16-bit floats to floats times a factor, and back. If a mean is not finite, none of its
// elements is (AveragerOptions::propagate).
void widen(std::span<const std::byte> from, DType type, float factor, std::span<float> to);
void narrow(std::span<const float> from, DType type, float factor, std::span<std::byte> to);

// The strides of a dense tensor of this shape whose dimensions are in the same order in memory.
std::vector<std::int64_t> dense_strides(const at::Tensor& tensor);

// One of DDP's buckets, or one gradient, while we average it.
struct GradientJob {
  struct Piece {
    std::size_t parameter = 0;
    Range bytes;  // of the buffer
  };
  std::size_t index = 0;
  bool last = false;      // in this backward
  double loss_scale = 1;  // of this backward; set in the job with index 0
  at::Tensor buffer;
  at::Tensor host;                   // the buffer itself, or `copy`
  at::Tensor copy;                   // dense; for a device's buffer, in page-locked memory
  std::optional<c10::Event> copied;  // to `copy`, from a device
  std::vector<Piece> pieces;
  std::size_t missing = 0;                         // number of means that are not there yet
  c10::intrusive_ptr<c10::ivalue::Future> future;  // null: a caller waits for all jobs

  // Makes `host` with these strides, in the order of the stream that made the buffer. Readers wait for `copied`.
  void bring(const std::vector<std::int64_t>& strides);
  // Copies `host` back to the buffer.
  void take_back();
  std::span<std::byte> bytes() const { return {static_cast<std::byte*>(host.data_ptr()), host.nbytes()}; }
};

}  // namespace sotto::python
