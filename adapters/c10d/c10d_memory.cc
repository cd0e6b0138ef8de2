#include "adapters/c10d/c10d_memory.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <cstring>

namespace sotto {

std::vector<at::Tensor>& C10dMemory::around(std::span<const std::byte> data) {
  tensor_[0] = at::from_blob(const_cast<std::byte*>(data.data()), {static_cast<std::int64_t>(data.size())}, at::kByte);
  return tensor_;
}

std::vector<at::Tensor>& C10dMemory::of_room(std::span<std::byte> room) {
  if (!polled_) return around(room);
  tensor_[0] = at::empty({static_cast<std::int64_t>(room.size())}, at::kByte);
  return tensor_;
}

std::vector<at::Tensor>& C10dMemory::of_data(std::span<const std::byte> data) {
  if (!polled_) return around(data);
  tensor_[0] = at::empty({static_cast<std::int64_t>(data.size())}, at::kByte);
  if (!data.empty()) std::memcpy(tensor_[0].mutable_data_ptr(), data.data(), data.size());
  return tensor_;
}

void C10dMemory::take(const at::Tensor& own, std::span<std::byte> room) {
  if (own.defined() && !room.empty()) std::memcpy(room.data(), own.const_data_ptr(), room.size());
}

}  // namespace sotto
