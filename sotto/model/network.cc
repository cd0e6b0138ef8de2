#include "sotto/model/network.h"

#include <cmath>

#include "sotto/core/random.h"

namespace sotto {
namespace {

double fan_in(const at::Tensor& weight) { return static_cast<double>(weight.numel() / weight.size(0)); }

void fill_uniform(at::Tensor values, double bound, Philox& random) {
  float* data = values.data_ptr<float>();
  for (std::int64_t i = 0; i < values.numel(); ++i) {
    const double unit = static_cast<double>(random.next() >> 8) * 0x1p-24;
    data[i] = static_cast<float>((2 * unit - 1) * bound);
  }
}

}  // namespace

double Network::weight_bound(const at::Tensor& weight) const { return 1 / std::sqrt(fan_in(weight)); }

void initialise(Network& network, std::uint64_t seed) {
  const at::NoGradGuard no_grad;
  Philox random(seed, Purpose::init);
  for (const auto& module : network.modules()) {
    const auto parameters = module->named_parameters(/*recurse=*/false);
    const at::Tensor* weight = parameters.find("weight");
    if (weight == nullptr || weight->dim() < 2) continue;
    fill_uniform(*weight, network.weight_bound(*weight), random);
    if (const at::Tensor* bias = parameters.find("bias")) fill_uniform(*bias, 1 / std::sqrt(fan_in(*weight)), random);
  }
}

at::Tensor dropout(const at::Tensor& input, double share, std::uint64_t random) {
  const ElementStream stream = element_stream(random, Purpose::dropout, 0, 0, 0);
  const auto dropped = static_cast<float>(share);
  const auto kept = static_cast<float>(1 / (1 - share));
  const at::Tensor mask = at::empty(input.sizes(), at::kFloat);
  float* data = mask.data_ptr<float>();
  const auto count = static_cast<std::uint32_t>(mask.numel());
  for (std::uint32_t i = 0; i < count; ++i) data[i] = stream.uniform(i) < dropped ? 0.0F : kept;
  return input * mask;
}

}  // namespace sotto
