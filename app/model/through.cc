#include "app/model/through.h"

#include <utility>

namespace sotto {
namespace {

thread_local const NeedScope* innermost = nullptr;

}  // namespace

NeedScope::NeedScope(Announce announce) : announce_(std::move(announce)), around_(std::exchange(innermost, this)) {}
NeedScope::~NeedScope() { innermost = around_; }

void announce(const torch::nn::Module& module) {
  if (innermost != nullptr) innermost->announce_(module);
}

}  // namespace sotto
