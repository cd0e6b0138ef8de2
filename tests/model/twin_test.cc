// Compares models and optimisers with torch itself, by a twin of each network that stays as torch makes it.
//
// Processors add in other orders, so no constant says how near the results must be: a second twin computes the same in
// a way that differs by rounding alone, and ours may be a few times as far from the first.
#include <ATen/CPUGeneratorImpl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/nn/utils/clip_grad.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>
#include <torch/utils.h>

#include <cmath>
#include <functional>

#include "app/model/image_network.h"
#include "sotto/optim/clip.h"
#include "sotto/optim/sgd.h"
#include "tests/model/batches.h"
#include "tests/support/specs.h"

namespace sotto {
namespace {

class OneThread final : public testing::Environment {  // several tests run at the same time
  void SetUp() override { torch::set_num_threads(1); }
};
const testing::Environment* const one_thread = testing::AddGlobalTestEnvironment(new OneThread);

struct Twin {
  explicit Twin(const ImageModelSpec& spec, const ImageShape& shape)
      : network(spec.entry->make(spec.options, shape, 10)) {
    initialise(*network, 1);
  }

  // In the same memory order as in sotto, so that the same kernels run, or in another one.
  double accumulate(Noise& noise, std::uint64_t random, at::MemoryFormat order = at::MemoryFormat::ChannelsLast) {
    const auto count = static_cast<std::int64_t>(noise.labels.size());
    const auto images =
        at::from_blob(noise.images.data(), {count, noise.shape.channels, noise.shape.height, noise.shape.width})
            .contiguous(order);
    const auto labels = at::from_blob(noise.labels.data(), {count}, at::kLong);
    const auto loss = at::cross_entropy_loss(network->forward(images, random), labels);
    loss.backward();
    return loss.item<double>();
  }

  std::shared_ptr<ImageNetwork> network;
};

double norm_of(const at::Tensor& tensor) { return tensor.detach().norm().item<double>(); }

constexpr double times = 8;  // how far two ways are apart is a small sample of what rounding does

// Compares a segment of a flat vector with torch's tensor, which was computed in two ways. `whole` is the norm of all
// segments: rounding may be all there is to the gradient of one of them, such as of a shift in front of a norm.
void expect_near(std::span<float> flat, const Segment& segment, const at::Tensor& tensor, const at::Tensor& again,
                 double whole, std::string_view text) {
  ASSERT_EQ(tensor.sizes(), at::IntArrayRef(segment.shape)) << text << " " << segment.name;
  const at::Tensor ours = at::from_blob(flat.data() + segment.offset, tensor.sizes());
  EXPECT_LE(norm_of(ours - tensor), times * norm_of(tensor - again) + 1e-6 * whole) << text << " " << segment.name;
}

double norm_of(std::span<const float> flat) { return std::sqrt(dot(flat, flat)); }

TEST(TwinTest, GradientsParametersAndBuffersAreTorchs) {
  for (const std::string& text : small_models) {
    const ImageModelSpec spec = spec_of(text);
    const ImageShape shape = small_images(*spec.entry);
    Twin twin(spec, shape), other(spec, shape);
    const auto model = make_image_model(spec, shape, 10, 1);
    Noise noise(shape, 4);
    const double loss = model->accumulate_gradient(noise.batch(), 1, 5, {});
    const double theirs = twin.accumulate(noise, 5), again = other.accumulate(noise, 5, at::MemoryFormat::Contiguous);
    EXPECT_NEAR(loss, theirs, times * std::abs(theirs - again) + 1e-6 * theirs) << text;
    const auto parameters = twin.network->named_parameters(), others = other.network->named_parameters();
    const auto segments = model->layout().segments();
    ASSERT_EQ(parameters.size(), segments.size());
    const double whole = norm_of(model->gradient());
    for (std::size_t i = 0; i < segments.size(); ++i) {
      EXPECT_EQ(parameters[i].key(), segments[i].name);
      const at::Tensor& value = parameters[i].value();
      expect_near(model->parameters(), segments[i], value, value, 0, text);
      expect_near(model->gradient(), segments[i], value.grad(), others[i].value().grad(), whole, text);
    }
    const auto buffers = twin.network->named_buffers(), other_buffers = other.network->named_buffers();
    for (const Segment& segment : model->buffer_layout().segments()) {
      const at::Tensor &buffer = buffers[segment.name], &other_buffer = other_buffers[segment.name];
      expect_near(model->buffers(), segment, buffer, other_buffer, norm_of(buffer), text);
    }
  }
}

TEST(TwinTest, SgdIsTorchs) {
  const ImageShape shape = entry_of("lenet").shape;
  for (const SgdOptions& options : {SgdOptions{0, false, 0}, SgdOptions{0.9, false, 0}, SgdOptions{0.9, true, 1e-2},
                                    SgdOptions{0.5, false, 1e-2}, SgdOptions{0, false, 1e-2}}) {
    const auto trained = [&](at::MemoryFormat order) {
      Twin twin(spec_of("lenet"), shape);
      torch::optim::SGD theirs(twin.network->parameters(), torch::optim::SGDOptions(0.05)
                                                               .momentum(options.momentum)
                                                               .nesterov(options.nesterov)
                                                               .weight_decay(options.weight_decay));
      for (std::uint64_t step = 0; step < 4; ++step) {
        Noise noise(shape, 4, step);
        theirs.zero_grad();
        twin.accumulate(noise, step, order);
        theirs.step();
      }
      return twin.network->parameters();
    };
    const auto theirs = trained(at::MemoryFormat::ChannelsLast), again = trained(at::MemoryFormat::Contiguous);
    const auto model = model_of("lenet");
    const auto ours = make_sgd(options, model->layout());
    for (std::uint64_t step = 0; step < 4; ++step) {
      const Noise noise(shape, 4, step);
      std::fill(model->gradient().begin(), model->gradient().end(), 0.0F);
      model->accumulate_gradient(noise.batch(), 1, step, {});
      ours->apply(model->parameters(), model->gradient(), 0, 0.05);
    }
    const auto segments = model->layout().segments();
    for (std::size_t i = 0; i < theirs.size(); ++i) {
      expect_near(model->parameters(), segments[i], theirs[i], again[i], norm_of(theirs[i]), "lenet");
    }
  }
}

// Uses generated gradients: Adam takes a whole step even along a gradient that is only rounding.
TEST(TwinTest, OptimisersAreTorchs) {
  namespace torchs = torch::optim;
  using Theirs = std::unique_ptr<torchs::Optimizer>;
  constexpr double lr = 1e-2;
  const std::vector<std::pair<const char*, std::function<Theirs(std::vector<torch::Tensor>)>>> pairs{
      {"sgd(momentum=0.9, dampening=0.5, weight-decay=0.1)",
       [](auto p) {
         return std::make_unique<torchs::SGD>(p, torchs::SGDOptions(lr).momentum(.9).dampening(.5).weight_decay(.1));
       }},
      {"adam(weight-decay=0.1)",
       [](auto p) { return std::make_unique<torchs::Adam>(p, torchs::AdamOptions(lr).weight_decay(.1)); }},
      {"adam(amsgrad=true, beta2=0.9)",
       [](auto p) {
         return std::make_unique<torchs::Adam>(p, torchs::AdamOptions(lr).amsgrad(true).betas({.9, .9}));
       }},
      {"adamw(weight-decay=0.1)",
       [](auto p) { return std::make_unique<torchs::AdamW>(p, torchs::AdamWOptions(lr).weight_decay(.1)); }},
      {"adamw(weight-decay=0.1, amsgrad=true, beta2=0.9)",
       [](auto p) {
         return std::make_unique<torchs::AdamW>(
             p, torchs::AdamWOptions(lr).weight_decay(.1).amsgrad(true).betas({.9, .9}));
       }},
      {"adagrad", [](auto p) { return std::make_unique<torchs::Adagrad>(p, torchs::AdagradOptions(lr)); }},
      {"adagrad(lr-decay=0.1, start=0.5, weight-decay=0.1, eps=1e-3)",
       [](auto p) {
         return std::make_unique<torchs::Adagrad>(
             p, torchs::AdagradOptions(lr).lr_decay(.1).initial_accumulator_value(.5).weight_decay(.1).eps(1e-3));
       }},
  };
  constexpr std::int64_t size = 1000;
  const auto noise = [](std::uint64_t seed) {
    return torch::randn({size}, at::make_generator<at::CPUGeneratorImpl>(seed));
  };
  for (const auto& [expression, make] : pairs) {
    const torch::Tensor start = noise(1);
    torch::Tensor twin = start.clone().requires_grad_(true), exact = start.to(at::kDouble).requires_grad_(true);
    const Theirs theirs = make({twin}), in_double = make({exact});
    const auto ours = make_optimiser(test::optimiser(expression), test::flat(size));
    const std::span<float> parameters(start.data_ptr<float>(), size);
    for (std::uint64_t step = 0; step < 20; ++step) {
      const torch::Tensor gradient = noise(2 + step) * (step % 3 == 0 ? 3 : 1);
      twin.mutable_grad() = gradient;
      theirs->step();
      exact.mutable_grad() = gradient.to(at::kDouble);
      in_double->step();
      ours->begin_step(step);
      ours->apply(parameters, {gradient.data_ptr<float>(), static_cast<std::size_t>(size)}, 0, lr);
    }
    EXPECT_LE(norm_of(start - exact), 2 * norm_of(twin - exact))
        << expression;  // a thousand values are no small sample
    EXPECT_GT(norm_of(noise(1) - start), 0.1) << expression;
  }
}

// A gradient of two tensors in one vector.
TEST(TwinTest, ClippingIsTorchs) {
  constexpr std::int64_t size = 1000, first = 300;
  for (const double most : {0.5, 20.0, 100.0}) {
    const torch::Tensor ours = torch::randn({size}, at::make_generator<at::CPUGeneratorImpl>(std::uint64_t{5}));
    const auto theirs = [&] {
      std::vector<torch::Tensor> parts{torch::zeros({first}), torch::zeros({size - first})};
      parts[0].mutable_grad() = ours.slice(0, 0, first).clone();
      parts[1].mutable_grad() = ours.slice(0, first).clone();
      return parts;
    };
    const auto expect_same = [&](const char* way, std::vector<torch::Tensor> parts) {
      torch::Tensor mine = ours.clone();
      clip(clip_table().read("clip", fmt::format("{}({})", way, most)), {mine.data_ptr<float>(), size});
      const torch::Tensor wanted = torch::cat({parts[0].grad(), parts[1].grad()});
      EXPECT_LT((mine - wanted).norm().item<double>(), 1e-6 * wanted.norm().item<double>()) << way << " " << most;
    };
    auto parts = theirs();
    torch::nn::utils::clip_grad_norm_(parts, most);
    expect_same("norm", parts);
    parts = theirs();
    torch::nn::utils::clip_grad_value_(parts, most);
    expect_same("value", parts);
  }
}

TEST(Initialisation, IsUniformWithinItsBounds) {
  const auto model = model_of("resnet18");
  const auto check = [&](const Segment& segment, double bound) {
    double sum = 0, squares = 0, most = 0;
    for (std::size_t i = segment.range().begin; i < segment.range().end; ++i) {
      const double value = model->parameters()[i];
      sum += value;
      squares += value * value;
      most = std::max(most, std::abs(value));
    }
    const auto n = static_cast<double>(segment.numel());
    EXPECT_LE(most, bound * 1.000001) << segment.name;
    EXPECT_GT(most, 0.98 * bound) << segment.name;
    EXPECT_NEAR(sum / n, 0, 5 * bound / std::sqrt(3 * n)) << segment.name;
    EXPECT_NEAR(squares / n, bound * bound / 3, 5 * bound * bound * std::sqrt(4.0 / 45 / n)) << segment.name;
  };
  for (const Segment& segment : model->layout().segments()) {
    if (segment.shape.size() == 4) {  // variance 2 / (outputs * kernel)
      check(segment, std::sqrt(6.0 / static_cast<double>(segment.shape[0] * segment.shape[2] * segment.shape[3])));
    } else if (segment.name == "fc.weight") {
      check(segment, 1 / std::sqrt(512.0));
    } else if (segment.name != "fc.bias") {  // scale 1 and shift 0 of a norm
      const float wanted = segment.name.ends_with("weight") ? 1.0F : 0.0F;
      for (std::size_t i = segment.range().begin; i < segment.range().end; ++i) {
        EXPECT_EQ(model->parameters()[i], wanted) << segment.name;
      }
    }
  }
}

}  // namespace
}  // namespace sotto
