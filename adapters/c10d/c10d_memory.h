#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <span>
#include <vector>

namespace sotto {

// Provides the memory of messages as c10d tensors: the caller's own memory, except for polled groups. Those cannot
// cancel a message, so its memory must be able to outlive a failure.
class C10dMemory {
 public:
  explicit C10dMemory(bool polled) : polled_(polled), tensor_(1) {}
  bool polled() const { return polled_; }

  // The tensors for a receive. The data is in `room` only after take().
  std::vector<at::Tensor>& of_room(std::span<std::byte> room);
  // The tensors for a send; they hold the data.
  std::vector<at::Tensor>& of_data(std::span<const std::byte> data);
  // The memory of the last message, unless it is the caller's.
  at::Tensor own() const { return polled_ ? tensor_[0] : at::Tensor(); }
  // Copies received data from a message's own() memory to `room`; does nothing if `own` is undefined.
  static void take(const at::Tensor& own, std::span<std::byte> room);

 private:
  std::vector<at::Tensor>& around(std::span<const std::byte> data);

  bool polled_;
  std::vector<at::Tensor> tensor_;
};

}  // namespace sotto
