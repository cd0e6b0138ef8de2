#pragma once

#include <torch/nn/module.h>

#include <functional>

namespace sotto {

// Hears of every through() of this thread, in place of the scope around it, if any.
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

// Says to the scope of this thread, if there is one, that the module's own parameters are about to be read.
void announce(const torch::nn::Module& module);

// How a network uses a module that has parameters: they may still be on their way when forward begins, and are waited
// for here. (In `module->forward(x)` the module would be named before x is computed.)
template <typename Holder>
at::Tensor through(Holder& module, const at::Tensor& input) {
  announce(*module);
  return module->forward(input);
}

}  // namespace sotto
