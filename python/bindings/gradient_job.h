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

// Bytes of 32- or 16-bit floats to floats times a factor, and back. A mean that is not finite is so in all elements
// (AveragerOptions::propagate).
void widen(std::span<const std::byte> from, DType type, float factor, std::span<float> to);
void narrow(std::span<const float> from, DType type, float factor, std::span<std::byte> to);

// How a tensor of this shape lies where it lies densely, with its dimensions in the same order.
std::vector<std::int64_t> dense_strides(const at::Tensor& tensor);

// One of DDP's buckets, or one gradient, on its way through us.
struct GradientJob {
  struct Piece {
    std::size_t parameter = 0;
    Range bytes;  // of the buffer
  };
  std::size_t index = 0;
  bool last = false;      // in this backward
  double loss_scale = 1;  // of this backward; with index 0
  at::Tensor buffer;
  at::Tensor host;                   // the buffer itself, or `copy`
  at::Tensor copy;                   // a dense one; of a device's buffer, in page-locked memory
  std::optional<c10::Event> copied;  // to `copy`, from a device
  std::vector<Piece> pieces;
  std::size_t missing = 0;                         // means
  c10::intrusive_ptr<c10::ivalue::Future> future;  // null: somebody waits for all

  // Makes `host`, of these strides. In the order of the stream that made the buffer; who reads waits for `copied`.
  void bring(const std::vector<std::int64_t>& strides);
  // The other way.
  void take_back();
  std::span<std::byte> bytes() const { return {static_cast<std::byte*>(host.data_ptr()), host.nbytes()}; }
};

}  // namespace sotto::python
