#pragma once

#include <torch/nn/module.h>

#include <functional>

namespace sotto {

// While it lives, `announce` is called for every through() of this thread. An inner scope replaces the outer one.
class NeedScope {
 public:
  using Announce = std::function<void(const torch::nn::Module& module)>;
  explicit NeedScope(Announce announce);
  ~NeedScope();
  NeedScope(const NeedScope&) = delete;
  NeedScope& operator=(const NeedScope&) = delete;

 private:
  friend void announce(const torch::nn::Module& module);
  Announce announce_;
  const NeedScope* around_;
};

// Tells this thread's NeedScope, if there is one, that the module's own parameters are about to be read.
void announce(const torch::nn::Module& module);

// Networks call modules with parameters through this function. The parameters may still be on their way when forward
// begins; announce() waits for them. Nested calls compute `input` first, and so announce modules in the order of use.
template <typename Holder>
at::Tensor through(Holder& module, const at::Tensor& input) {
  announce(*module);
  return module->forward(input);
}

}  // namespace sotto
