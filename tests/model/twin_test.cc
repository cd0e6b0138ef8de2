// Compares models and SGD with torch itself, by a twin of each network that stays as torch makes it.
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

#include "sotto/model/image_network.h"
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

  double accumulate(Noise& noise, std::uint64_t random) {
    const auto count = static_cast<std::int64_t>(noise.labels.size());
    // In the same memory order as in sotto, so that the same kernels run. Deep networks with norms over few values
    // magnify rounding.
    const auto images =
        at::from_blob(noise.images.data(), {count, noise.shape.channels, noise.shape.height, noise.shape.width})
            .contiguous(at::MemoryFormat::ChannelsLast);
    const auto labels = at::from_blob(noise.labels.data(), {count}, at::kLong);
    const auto loss = at::cross_entropy_loss(network->forward(images, random), labels);
    loss.backward();
    return loss.item<double>();
  }

  std::shared_ptr<ImageNetwork> network;
};

// The relative distance of a segment of a flat vector from a tensor.
double distance(std::span<const float> flat, const Segment& segment, const at::Tensor& tensor) {
  const at::Tensor wanted = tensor.detach().contiguous();
  EXPECT_EQ(wanted.sizes(), at::IntArrayRef(segment.shape)) << segment.name;
  const float* values = wanted.data_ptr<float>();
  double error = 0, norm = 0;
  for (std::size_t i = 0; i < segment.numel(); ++i) {
    error += std::pow(flat[segment.offset + i] - values[i], 2);
    norm += std::pow(values[i], 2);
  }
  return std::sqrt(error / (norm + 1e-30));
}

TEST(TwinTest, GradientsParametersAndBuffersAreTorchs) {
  for (const std::string& text : small_models) {
    const ImageModelSpec spec = spec_of(text);
    const ImageShape shape = small_images(*spec.entry);
    Twin twin(spec, shape);
    const auto model = make_image_model(spec, shape, 10, 1);
    Noise noise(shape, 4);
    const double loss = model->accumulate_gradient(noise.batch(), 1, 5, {});
    EXPECT_NEAR(loss, twin.accumulate(noise, 5), 1e-5 * loss) << text;
    const auto parameters = twin.network->named_parameters();
    const auto segments = model->layout().segments();
    ASSERT_EQ(parameters.size(), segments.size());
    for (std::size_t i = 0; i < segments.size(); ++i) {
      EXPECT_EQ(parameters[i].key(), segments[i].name);
      EXPECT_EQ(distance(model->parameters(), segments[i], parameters[i].value()), 0) << segments[i].name;
      EXPECT_LT(distance(model->gradient(), segments[i], parameters[i].value().grad()), 2e-4)
          << text << segments[i].name;
    }
    const auto buffers = twin.network->named_buffers();
    for (const Segment& segment : model->buffer_layout().segments()) {
      EXPECT_LT(distance(model->buffers(), segment, buffers[segment.name]), 1e-5) << segment.name;
    }
  }
}

TEST(TwinTest, SgdIsTorchs) {
  const ImageShape shape = entry_of("lenet").shape;
  for (const SgdOptions& options : {SgdOptions{0, false, 0}, SgdOptions{0.9, false, 0}, SgdOptions{0.9, true, 1e-2},
                                    SgdOptions{0.5, false, 1e-2}, SgdOptions{0, false, 1e-2}}) {
    Twin twin(spec_of("lenet"), shape);
    torch::optim::SGD theirs(twin.network->parameters(), torch::optim::SGDOptions(0.05)
                                                             .momentum(options.momentum)
                                                             .nesterov(options.nesterov)
                                                             .weight_decay(options.weight_decay));
    const auto model = model_of("lenet");
    const auto ours = make_sgd(options, model->layout());
    for (std::uint64_t step = 0; step < 4; ++step) {
      Noise noise(shape, 4, step);
      theirs.zero_grad();
      twin.accumulate(noise, step);
      theirs.step();
      std::fill(model->gradient().begin(), model->gradient().end(), 0.0F);
      model->accumulate_gradient(noise.batch(), 1, step, {});
      ours->apply(model->parameters(), model->gradient(), 0, 0.05);
    }
    const auto parameters = twin.network->named_parameters();
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const Segment& segment = model->layout().segments()[i];
      EXPECT_LT(distance(model->parameters(), segment, parameters[i].value()), 1e-5) << segment.name;
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
  for (const auto& [sentence, make] : pairs) {
    const torch::Tensor start = noise(1);
    torch::Tensor twin = start.clone().requires_grad_(true);
    const Theirs theirs = make({twin});
    const auto ours = make_optimiser(test::optimiser(sentence), test::flat(size));
    const std::span<float> parameters(start.data_ptr<float>(), size);
    for (std::uint64_t step = 0; step < 20; ++step) {
      const torch::Tensor gradient = noise(2 + step) * (step % 3 == 0 ? 3 : 1);
      twin.mutable_grad() = gradient;
      theirs->step();
      ours->begin_step(step);
      ours->apply(parameters, {gradient.data_ptr<float>(), static_cast<std::size_t>(size)}, 0, lr);
    }
    EXPECT_LT((twin.detach() - start).norm().item<double>(), 1e-6 * start.norm().item<double>()) << sentence;
    EXPECT_GT((noise(1) - start).norm().item<double>(), 0.1) << sentence;
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
