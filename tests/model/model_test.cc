#include <gtest/gtest.h>

#include <cctype>
#include <cmath>
#include <numeric>
#include <stdexcept>
#include <thread>

#include "sotto/core/error.h"
#include "sotto/optim/sgd.h"
#include "tests/model/batches.h"

namespace sotto {
namespace {

// Laws that hold for every family of models.
class EveryModel : public testing::TestWithParam<std::string> {
 protected:
  static constexpr std::size_t examples = 2;
  const ImageModelSpec spec_ = spec_of(GetParam());
  const ImageShape shape_ = small_images(*spec_.entry);
  std::unique_ptr<ImageModel> model_ = make();
  Noise noise_{shape_, examples};

  std::unique_ptr<ImageModel> make(std::uint64_t seed = 1) const { return make_image_model(spec_, shape_, 10, seed); }
};

INSTANTIATE_TEST_SUITE_P(Families, EveryModel, testing::ValuesIn(small_models), [](const auto& name) {
  std::string text;
  for (const char c : name.param) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) text += c;
  }
  return text;
});

TEST_P(EveryModel, InitialParametersDependOnTheSeedAlone) {
  EXPECT_EQ(copy_of(model_->parameters()), copy_of(make()->parameters()));
  const auto other = make(1ULL << 32U | 1U);  // all 64 bits of a seed matter
  const auto changed = copy_of(other->parameters());
  for (const Segment& segment : model_->layout().segments()) {
    if (segment.shape.size() < 2) continue;
    std::size_t equal = 0;
    for (std::size_t i = segment.range().begin; i < segment.range().end; ++i) {
      equal += model_->parameters()[i] == changed[i];
    }
    EXPECT_LE(equal, segment.numel() / 100) << segment.name;
  }
}

TEST_P(EveryModel, VectorsAreAlignedAndPaddedWithZeros) {
  model_->accumulate_gradient(noise_.batch(), 1, 0, {});
  for (const std::span<float> vector : {model_->parameters(), model_->gradient()}) {
    EXPECT_EQ(vector.size(), model_->layout().size());
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(vector.data()) % 64, 0U);
    std::vector<float> cleared = copy_of(vector);
    model_->layout().clear_padding(cleared);
    EXPECT_EQ(cleared, copy_of(vector));
  }
  EXPECT_EQ(model_->buffers().size(), model_->buffer_layout().size());
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(model_->buffers().data()) % 64, 0U);
}

TEST_P(EveryModel, EverySegmentIsReadyOnceAndFinished) {
  const std::vector<float> wanted = gradient_of(*model_, noise_.batch());
  for (int call = 0; call < 2; ++call) {
    std::fill(model_->gradient().begin(), model_->gradient().end(), 0.0F);
    const auto thread = std::this_thread::get_id();
    std::vector<std::size_t> order;
    const auto ready = [&](std::size_t segment) {
      order.push_back(segment);
      EXPECT_EQ(std::this_thread::get_id(), thread);
      const Range range = model_->layout().segments()[segment].range();
      for (std::size_t i = range.begin; i < range.end; ++i) {
        if (model_->gradient()[i] != wanted[i])
          FAIL() << model_->layout().segments()[segment].name << " was not finished";
      }
    };
    model_->accumulate_gradient(noise_.batch(), 1, 5, {.ready = ready});
    ASSERT_FALSE(order.empty());
    EXPECT_LT(order.back(), 2U) << "the first layer is the last to be ready";
    std::sort(order.begin(), order.end());
    std::vector<std::size_t> all(model_->layout().segments().size());
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = i;
    EXPECT_EQ(order, all);
  }
}

// The value of a parameter before forward needs it must not matter, since its exchange may still be on its way.
TEST_P(EveryModel, EachSegmentIsNeededOnceBeforeUse) {
  const std::vector<float> wanted = gradient_of(*model_, noise_.batch());
  const std::vector<float> right(model_->parameters().begin(), model_->parameters().end());
  std::fill(model_->gradient().begin(), model_->gradient().end(), 0.0F);
  std::fill(model_->parameters().begin(), model_->parameters().end(), NAN);
  std::vector<std::size_t> order;
  bool backward = false;
  const auto needed = [&](std::size_t segment) {
    EXPECT_FALSE(backward);
    order.push_back(segment);
    const Range range = model_->layout().segments()[segment].range();
    for (std::size_t i = range.begin; i < range.end; ++i) model_->parameters()[i] = right[i];
  };
  model_->accumulate_gradient(noise_.batch(), 1, 5, {.needed = needed, .ready = [&](std::size_t) { backward = true; }});
  EXPECT_EQ(wanted, std::vector<float>(model_->gradient().begin(), model_->gradient().end()));
  ASSERT_FALSE(order.empty());
  EXPECT_EQ(order.front(), 0U) << "the first layer is needed first";
  std::sort(order.begin(), order.end());
  std::vector<std::size_t> all(model_->layout().segments().size());
  std::iota(all.begin(), all.end(), 0U);
  EXPECT_EQ(order, all);
}

TEST_P(EveryModel, TheSameBatchGivesTheSameBits) {
  const std::vector<float> once = gradient_of(*model_, noise_.batch());
  EXPECT_EQ(once, gradient_of(*model_, noise_.batch()));
  EXPECT_EQ(once, gradient_of(*make(), noise_.batch()));
}

TEST_P(EveryModel, RanksAsThreadsDoNotDisturbEachOther) {
  const std::vector<float> alone = gradient_of(*model_, noise_.batch());
  std::vector<std::vector<float>> gradients(3);
  std::vector<std::thread> ranks;
  for (auto& gradient : gradients) {
    ranks.emplace_back([&] { gradient = gradient_of(*make(), noise_.batch()); });
  }
  for (std::thread& rank : ranks) rank.join();
  for (const auto& gradient : gradients) EXPECT_EQ(gradient, alone);
}

// Along the gradient, the loss must rise with the slope |gradient|. This check needs no other implementation.
TEST_P(EveryModel, TheGradientIsTheSlopeOfTheLoss) {
  const std::vector<float> gradient = gradient_of(*model_, noise_.batch());
  const double length = std::sqrt(dot(gradient, gradient));
  const std::vector<float> start = copy_of(model_->parameters());
  const double distance = std::min(2e-3, 5e-3 / length);  // a norm over few values is far from linear
  const auto loss_at = [&](double along) {
    for (std::size_t i = 0; i < start.size(); ++i) {
      model_->parameters()[i] = static_cast<float>(start[i] + along * gradient[i] / length);
    }
    return model_->accumulate_gradient(noise_.batch(), 1, 5, {});
  };
  const double slope = (loss_at(distance) - loss_at(-distance)) / (2 * distance);
  EXPECT_NEAR(slope, length, 0.03 * length) << "distance " << distance;
}

TEST_P(EveryModel, AddsGradientsAndReturnsTheLoss) {
  const double loss = model_->accumulate_gradient(noise_.batch(), 1, 5, {});
  const std::vector<float> gradient = gradient_of(*model_, noise_.batch());
  const double scale = std::sqrt(dot(gradient, gradient) / static_cast<double>(gradient.size()));
  std::fill(model_->gradient().begin(), model_->gradient().end(), static_cast<float>(scale));
  EXPECT_EQ(model_->accumulate_gradient(noise_.batch(), 0.5F, 5, {}), loss);
  const float* now = model_->gradient().data();
  for (const Segment& segment : model_->layout().segments()) {
    for (std::size_t i = segment.range().begin; i < segment.range().end; ++i) {
      const double wanted = scale + 0.5 * gradient[i];
      ASSERT_NEAR(now[i], wanted, 1e-5 * (scale + std::abs(gradient[i]))) << segment.name;
    }
  }
}

TEST_P(EveryModel, EvaluatingChangesNothing) {
  model_->accumulate_gradient(noise_.batch(), 1, 5, {});
  const auto parameters = copy_of(model_->parameters()), gradient = copy_of(model_->gradient());
  const auto buffers = copy_of(model_->buffers());
  EXPECT_EQ(model_->evaluate(noise_.batch()), model_->evaluate(noise_.batch()));
  EXPECT_EQ(copy_of(model_->parameters()), parameters);
  EXPECT_EQ(copy_of(model_->gradient()), gradient);
  EXPECT_EQ(copy_of(model_->buffers()), buffers);
  EXPECT_EQ(model_->evaluate(noise_.part(0, 0), [](auto) { FAIL() << "of no example"; }), 0);
}

TEST_P(EveryModel, OutputsDependOnTheExampleAlone) {
  std::vector<float> whole, apart;
  const auto append_to = [](std::vector<float>& all) {
    return [&all](std::span<const float> outputs) { all.insert(all.end(), outputs.begin(), outputs.end()); };
  };
  const double loss = model_->evaluate(noise_.batch(), append_to(whole));
  double sum = 0;
  for (std::size_t i = 0; i < examples; ++i) sum += model_->evaluate(noise_.part(i, 1), append_to(apart));
  EXPECT_NEAR(sum, loss, 1e-4 * loss);
  ASSERT_EQ(whole.size(), examples * 10);
  ASSERT_EQ(apart.size(), whole.size());
  for (std::size_t i = 0; i < whole.size(); ++i) EXPECT_NEAR(apart[i], whole[i], 1e-4 * (1 + std::abs(whole[i])));
}

TEST_P(EveryModel, RefusesOtherImagesAndLabels) {
  const auto refused = [&](const Batch& batch) {
    EXPECT_THROW(model_->accumulate_gradient(batch, 1, 0, {}), ConfigError);
    EXPECT_THROW(model_->evaluate(batch), ConfigError);
  };
  const Noise wider({shape_.channels, shape_.height, shape_.width + 1}, 2);
  refused(wider.batch());
  Batch short_batch = noise_.batch();
  short_batch.images = short_batch.images.first(7);
  refused(short_batch);
  for (const std::int64_t label : {std::int64_t{10}, std::int64_t{-1}, std::int64_t{-100}}) {  // -100: torch ignores it
    Noise wrong = noise_;
    wrong.labels[1] = label;
    refused(wrong.batch());
  }
  EXPECT_THROW(model_->accumulate_gradient(noise_.part(0, 0), 1, 0, {}), ConfigError);
}

TEST_P(EveryModel, AnErrorOfTheCallbackComesOut) {
  const std::vector<float> before = gradient_of(*model_, noise_.batch());
  try {
    const auto gone = [](std::size_t) { throw CommError("rank 2 has gone"); };
    model_->accumulate_gradient(noise_.batch(), 1, 5, {.ready = gone});
    FAIL() << "no error";
  } catch (const CommError& error) {
    EXPECT_STREQ(error.what(), "rank 2 has gone");
  }
  EXPECT_EQ(before, gradient_of(*model_, noise_.batch()));
}

// Without batch norms and dropout, the gradients of micro-batches add up to the batch's gradient.
TEST(Accumulation, TwoHalvesMakeTheWhole) {
  for (const std::string_view name : {"lenet", "fc", "logreg"}) {
    const auto model = model_of(name);
    const Noise noise(entry_of(name).shape, 6);
    const std::vector<float> whole = gradient_of(*model, noise.batch());
    std::fill(model->gradient().begin(), model->gradient().end(), 0.0F);
    model->accumulate_gradient(noise.part(0, 3), 0.5F, 1, {});
    model->accumulate_gradient(noise.part(3, 3), 0.5F, 2, {});
    std::vector<float> difference = whole;
    for (std::size_t i = 0; i < whole.size(); ++i) difference[i] -= model->gradient()[i];
    EXPECT_LT(std::sqrt(dot(difference, difference) / dot(whole, whole)), 1e-5) << name;
  }
}

TEST(Dropout, MasksAreAFunctionOfRandom) {
  const auto model = model_of("mnist-cnn");
  const Noise noise(entry_of("mnist-cnn").shape, 2);
  const auto first = gradient_of(*model, noise.batch(), 5);
  EXPECT_EQ(gradient_of(*model, noise.batch(), 5), first);
  EXPECT_NE(gradient_of(*model, noise.batch(), 6), first);
  EXPECT_NE(gradient_of(*model, noise.batch(), 5 + (1ULL << 32U)), first);

  // All units of fc1 are active, so fc2.weight has a gradient exactly where the mask of an example keeps a unit.
  const auto segments = model->layout().segments();
  const Range bias = segments[5].range(), weight = segments[6].range();
  ASSERT_EQ(segments[5].name, "fc1.bias");
  ASSERT_EQ(segments[6].name, "fc2.weight");
  std::fill(model->parameters().begin() + static_cast<std::ptrdiff_t>(bias.begin),
            model->parameters().begin() + static_cast<std::ptrdiff_t>(bias.end), 100.0F);
  std::fill(model->parameters().begin() + static_cast<std::ptrdiff_t>(weight.begin),
            model->parameters().begin() + static_cast<std::ptrdiff_t>(weight.end), 0.0F);
  const auto one = gradient_of(*model, noise.part(0, 1), 5);
  const auto other = gradient_of(*model, noise.part(0, 1), 6);
  std::size_t kept = 0, kept_twice = 0;
  for (std::size_t i = weight.begin; i < weight.begin + bias.size(); ++i) {
    kept += one[i] != 0;
    kept_twice += one[i] != 0 && other[i] != 0;
  }
  EXPECT_NEAR(static_cast<double>(kept), 0.6 * 1024, 5 * std::sqrt(1024 * 0.24));
  EXPECT_NEAR(static_cast<double>(kept_twice), 0.36 * 1024, 5 * std::sqrt(1024 * 0.36 * 0.64));
}

TEST(BatchNorm, StatisticsChangeInTrainingOnly) {
  const auto model = model_of("resnet18");
  const Noise noise(entry_of("resnet18").shape, 2);
  for (std::size_t i = 0; i < 2; ++i) {
    const Range range = model->buffer_layout().segments()[i].range();
    for (std::size_t k = range.begin; k < range.end; ++k) EXPECT_EQ(model->buffers()[k], static_cast<float>(i));
  }
  const double fresh = model->evaluate(noise.batch());
  const auto start = copy_of(model->buffers());
  model->accumulate_gradient(noise.batch(), 1, 0, {});
  EXPECT_NE(copy_of(model->buffers()), start);
  const double trained = model->evaluate(noise.batch());
  EXPECT_NE(trained, fresh);
  std::copy(start.begin(), start.end(), model->buffers().begin());  // the network computes with this vector
  EXPECT_EQ(model->evaluate(noise.batch()), fresh);
}

// LibTorch's own text comes with the addresses of its functions.
TEST(BatchNorm, ASingleValueIsAnError) {
  const ImageShape shape{3, 32, 32};
  const auto model = make_image_model(spec_of("resnet18(form=imagenet, width=0.0625)"), shape, 10, 1);
  try {
    model->accumulate_gradient(Noise(shape, 1).batch(), 1, 0, {});
    FAIL() << "no error";
  } catch (const Error& error) {
    const std::string_view said = error.what();
    EXPECT_TRUE(said.starts_with("model resnet18(form=imagenet, width=0.0625): LibTorch fails: Expected more than 1"));
    EXPECT_EQ(said.find('\n'), said.npos) << said;
  }
}

// With all parameters zero, the gradient of logistic regression is (1/classes - [class is the label]) * image.
TEST(Exact, LogisticRegression) {
  const auto model = make_image_model(spec_of("logreg"), {1, 1, 3}, 4, 1);
  std::fill(model->parameters().begin(), model->parameters().end(), 0.0F);
  const std::vector<float> images{1, -2, 4};
  const std::vector<std::int64_t> labels{2};
  const Batch batch{images, labels, {1, 1, 3}};
  EXPECT_NEAR(model->accumulate_gradient(batch, 2, 0, {}), std::log(4.0), 1e-6);
  const auto segments = model->layout().segments();
  for (std::size_t c = 0; c < 4; ++c) {
    const float error = 2 * (0.25F - (c == 2 ? 1.0F : 0.0F));
    EXPECT_FLOAT_EQ(model->gradient()[segments[1].offset + c], error);
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_FLOAT_EQ(model->gradient()[segments[0].offset + 3 * c + i], error * images[i]);
    }
  }
}

// With all parameters zero and one output, the gradient of (output - label)^2 is -2 * label * image.
TEST(Exact, LinearRegression) {
  const auto model = make_image_model(spec_of("logreg"), {1, 1, 3}, 1, 1, Loss::squared_error);
  std::fill(model->parameters().begin(), model->parameters().end(), 0.0F);
  const std::vector<float> images{1, -2, 4, 0, 1, 3};
  const std::vector<std::int64_t> labels{-3, 5};  // numbers, not classes
  const Batch batch{images, labels, {1, 1, 3}};
  std::vector<float> seen;
  EXPECT_EQ(
      model->accumulate_gradient(batch, 2, 0, {}, [&](auto outputs) { seen.assign(outputs.begin(), outputs.end()); }),
      17)
      << "the mean of 9 and 25";
  EXPECT_EQ(seen, (std::vector<float>{0, 0}));
  EXPECT_EQ(model->evaluate(batch), 34);
  const auto segments = model->layout().segments();
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_FLOAT_EQ(model->gradient()[segments[0].offset + i], 2 * (3 * images[i] - 5 * images[3 + i]));
  }
  EXPECT_FLOAT_EQ(model->gradient()[segments[1].offset], 2 * (3 - 5));
}

TEST(Training, LenetLearnsABatchByHeart) {
  const auto model = model_of("lenet");
  const Noise noise(entry_of("lenet").shape, 32);
  const auto sgd = make_sgd({}, model->layout());
  for (std::uint64_t step = 0; step < 40; ++step) {
    std::fill(model->gradient().begin(), model->gradient().end(), 0.0F);
    model->accumulate_gradient(noise.batch(), 1, step, {});
    sgd->apply(model->parameters(), model->gradient(), 0, entry_of("lenet").default_lr);
  }
  EXPECT_LT(model->evaluate(noise.batch()) / 32, 0.1);
}

}  // namespace
}  // namespace sotto
