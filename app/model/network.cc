#include "app/model/network.h"

#include <ATen/CPUGeneratorImpl.h>

#include <cmath>
#include <mutex>

#include "sotto/core/random.h"

namespace sotto {
namespace {

void fill(at::Tensor values, const InitialWeight& initial, Philox& random) {
  float* data = values.data_ptr<float>();
  for (std::int64_t i = 0; i < values.numel(); ++i) {
    const double unit = initial.distribution == InitialWeight::Distribution::normal
                            ? random.normal()
                            : 2 * static_cast<double>(random.next() >> 8) * 0x1p-24 - 1;
    data[i] = static_cast<float>(unit * initial.size);
  }
}

}  // namespace

InitialWeight InitialWeight::uniform(double bound, bool zero_bias) { return {Distribution::uniform, bound, zero_bias}; }
InitialWeight InitialWeight::normal(double deviation, bool zero_bias) {
  return {Distribution::normal, deviation, zero_bias};
}

InitialWeight Network::initial(std::string_view /*layer*/, const at::Tensor& weight) const {
  return InitialWeight::uniform(1 / std::sqrt(fan_in(weight)));
}

void initialise(Network& network, std::uint64_t seed) {
  const at::NoGradGuard no_grad;
  Philox random(seed, Purpose::init);
  for (const auto& layer : network.named_modules()) {
    std::optional<InitialWeight> initial;  // of the layer's last weight
    double bound = 0;
    for (const auto& own : layer.value()->named_parameters(/*recurse=*/false)) {
      const at::Tensor& parameter = own.value();
      if (parameter.dim() >= 2) {
        initial = network.initial(layer.key(), parameter);
        bound = 1 / std::sqrt(fan_in(parameter));
        fill(parameter, *initial, random);
      } else if (initial && own.key().starts_with("bias")) {
        if (initial->zero_bias) {
          parameter.detach().zero_();
        } else {
          fill(parameter, InitialWeight::uniform(bound), random);
        }
      }
    }
  }
}

void seed_torch(std::uint64_t seed) {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::unique_lock lock(generator.mutex());
  generator.set_current_seed(seed);
}

double fan_in(const at::Tensor& weight) { return static_cast<double>(weight.numel() / weight.size(0)); }
double fan_out(const at::Tensor& weight) { return static_cast<double>(weight.numel() / weight.size(1)); }

at::Tensor dropout(const at::Tensor& input, double share, std::uint64_t random, std::uint32_t layer) {
  const ElementStream stream = element_stream(random, Purpose::dropout, 0, 0, 0, layer);
  const auto dropped = static_cast<float>(share);
  const auto kept = static_cast<float>(1 / (1 - share));
  const at::Tensor mask = at::empty(input.sizes(), at::kFloat);
  float* data = mask.data_ptr<float>();
  const auto count = static_cast<std::uint32_t>(mask.numel());
  for (std::uint32_t i = 0; i < count; ++i) data[i] = stream.uniform(i) < dropped ? 0.0F : kept;
  return input * mask;
}

namespace {

thread_local const NeedScope* innermost = nullptr;

}  // namespace

NeedScope::NeedScope(Announce announce) : announce_(std::move(announce)), around_(std::exchange(innermost, this)) {}
NeedScope::~NeedScope() { innermost = around_; }

void announce(const torch::nn::Module& module) {
  if (innermost != nullptr) innermost->announce_(module);
}

}  // namespace sotto
