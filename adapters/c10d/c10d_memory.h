#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <cstddef>
#include <cstring>
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
  std::vector<at::Tensor>& of_room(std::span<std::byte> room) { return polled_ ? fresh(room.size()) : around(room); }
  // The tensors for a send; they hold the data.
  std::vector<at::Tensor>& of_data(std::span<const std::byte> data) {
    if (!polled_) return around(data);
    fresh(data.size());
    if (!data.empty()) std::memcpy(tensor_[0].mutable_data_ptr(), data.data(), data.size());
    return tensor_;
  }
  // The memory of the last message, unless it is the caller's.
  at::Tensor own() const { return polled_ ? tensor_[0] : at::Tensor(); }
  // Copies received data from a message's own() memory to `room`; does nothing if `own` is undefined.
  static void take(const at::Tensor& own, std::span<std::byte> room) {
    if (own.defined() && !room.empty()) std::memcpy(room.data(), own.const_data_ptr(), room.size());
  }

 private:
  std::vector<at::Tensor>& around(std::span<const std::byte> data) {
    tensor_[0] =
        at::from_blob(const_cast<std::byte*>(data.data()), {static_cast<std::int64_t>(data.size())}, at::kByte);
    return tensor_;
  }
  std::vector<at::Tensor>& fresh(std::size_t bytes) {
    tensor_[0] = at::empty({static_cast<std::int64_t>(bytes)}, at::kByte);
    return tensor_;
  }

  bool polled_;
  std::vector<at::Tensor> tensor_;
};

}  // namespace sotto
