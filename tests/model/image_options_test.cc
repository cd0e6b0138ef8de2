// The options of models of images.
#include <gtest/gtest.h>

#include <cmath>

#include "app/model/image_network.h"
#include "app/model/layers.h"
#include "tests/model/batches.h"

namespace sotto {
namespace {

TEST(Binarised, IsSignTimesMeanMagnitude) {
  const at::Tensor weight = at::tensor({0.5F, -1.5F, 0.0F, -4.0F}).view({2, 2}).requires_grad_(true);
  const at::Tensor binary = binarised(weight);
  EXPECT_TRUE(binary.allclose(at::tensor({1.0F, -1.0F, 2.0F, -2.0F}).view({2, 2})));
  (binary * at::tensor({1.0F, 2.0F, 3.0F, 4.0F}).view({2, 2})).sum().backward();
  EXPECT_TRUE(weight.grad().equal(at::tensor({1.0F, 0.0F, 3.0F, 0.0F}).view({2, 2}))) << "straight through, in [-1, 1]";
}

// A binarised layer uses only the signs of its weights and the mean magnitude of each output: other weights with the
// same signs and means compute the same.
TEST(Binarised, AllLayersButTheFirstAndTheLast) {
  for (const std::string text :
       {"lenet(binarise=true)", "resnet(depth=8, binarise=true)", "vgg11(width=0.125, binarise=true)",
        "alexnet(binarise=true)", "densenet-bc(depth=22, growth=4, binarise=true)", "mnist-cnn(binarise=true)",
        "fc(binarise=true)"}) {
    const ImageModelSpec spec = spec_of(text);
    const ImageShape shape = small_images(*spec.entry);
    const auto model = make_image_model(spec, shape, 10, 1);
    const Noise noise(shape, 2);
    const double loss = model->evaluate(noise.batch());
    std::size_t kept = 0, weights = 0;
    for (const Segment& segment : model->layout().segments()) {
      if (segment.shape.size() < 2) continue;
      ++weights;
      const std::span<float> values = model->parameters().subspan(segment.offset, segment.numel());
      const std::vector<float> before = copy_of(values);
      const std::size_t row = segment.numel() / static_cast<std::size_t>(segment.shape[0]);
      for (std::size_t begin = 0; begin < values.size(); begin += row) {
        double mean = 0;
        for (std::size_t i = begin; i < begin + row; ++i) mean += std::abs(values[i]) / static_cast<double>(row);
        for (std::size_t i = begin; i < begin + row; ++i) {
          values[i] = std::copysign(static_cast<float>(mean), values[i]);
        }
      }
      kept += std::abs(model->evaluate(noise.batch()) - loss) < 1e-5 * loss;
      std::ranges::copy(before, values.begin());
    }
    EXPECT_EQ(kept, weights - 2) << text;
  }
}

TEST(LabelSmoothing, IsOfTrainingAlone) {
  const ImageShape shape{1, 1, 3};
  const auto plain = make_image_model(spec_of("logreg"), shape, 4, 1);
  const auto smooth = make_image_model(spec_of("logreg(label-smoothing=0.2)"), shape, 4, 1);
  const Noise noise(shape, 1, 0, 4);
  std::vector<float> logits;
  const double loss = plain->accumulate_gradient(noise.batch(), 1, 0, {}, [&](auto o) { logits = copy_of(o); });
  double sum = 0, mean = 0;
  for (const float logit : logits) sum += std::exp(logit);
  for (const float logit : logits) mean += (std::log(sum) - logit) / 4;
  EXPECT_NEAR(smooth->accumulate_gradient(noise.batch(), 1, 0, {}), 0.8 * loss + 0.2 * mean, 1e-5);
  EXPECT_EQ(smooth->evaluate(noise.batch()), plain->evaluate(noise.batch()));
}

double deviation(const ImageModel& model, std::span<float> parameters, std::string_view name) {
  for (const Segment& segment : model.layout().segments()) {
    if (segment.name != name) continue;
    const std::span<float> values = parameters.subspan(segment.offset, segment.numel());
    return std::sqrt(dot(values, values) / static_cast<double>(values.size()));
  }
  return NAN;
}

TEST(Initialisation, IsThatOfTheOptions) {
  const auto drawn = make_image_model(spec_of("resnet18(classifier-std=0.01, zero-gamma=true)"), {3, 32, 32}, 1000, 1);
  EXPECT_NEAR(deviation(*drawn, drawn->parameters(), "fc.weight"), 0.01, 1e-4);
  EXPECT_EQ(deviation(*drawn, drawn->parameters(), "fc.bias"), 0);
  EXPECT_EQ(deviation(*drawn, drawn->parameters(), "layer3.1.bn2.weight"), 0);
  EXPECT_EQ(deviation(*drawn, drawn->parameters(), "layer3.1.bn1.weight"), 1);
  const auto vgg = make_image_model(spec_of("vgg11(width=0.25)"), {3, 32, 32}, 1000, 1);
  EXPECT_NEAR(deviation(*vgg, vgg->parameters(), "classifier.weight"), 0.01, 1e-3);
  EXPECT_NEAR(deviation(*vgg, vgg->parameters(), "features.8.weight"), std::sqrt(2.0 / (9 * 64)), 2e-3);
  EXPECT_EQ(deviation(*vgg, vgg->parameters(), "features.8.bias"), 0);
}

// The order of values in memory does not change the result.
TEST(ChannelsLast, ChangesSpeedAlone) {
  const ImageShape shape{3, 32, 32};
  const Noise noise(shape, 2);
  const auto last = make_image_model(spec_of("resnet20"), shape, 10, 1);
  const auto first = make_image_model(spec_of("resnet20(channels-last=false)"), shape, 10, 1);
  EXPECT_NEAR(last->evaluate(noise.batch()), first->evaluate(noise.batch()), 1e-4);
}

TEST(Dropout, LayersHaveMasksOfTheirOwn) {
  const at::Tensor ones = at::ones({1000});
  EXPECT_FALSE(dropout(ones, 0.5, 1, 0).equal(dropout(ones, 0.5, 1, 1)));
  EXPECT_TRUE(dropout(ones, 0.5, 1, 1).equal(dropout(ones, 0.5, 1, 1)));
}

}  // namespace
}  // namespace sotto
