#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "app/model/image_model.h"
#include "sotto/core/random.h"

namespace sotto {

// A batch of noise, which owns its examples.
struct Noise {
  Noise(const ImageShape& image_shape, std::size_t count, std::uint64_t index = 0, std::uint32_t classes = 10)
      : shape(image_shape), images(count * image_shape.size()), labels(count) {
    Philox random(11, Purpose::test, index);
    for (float& value : images) value = static_cast<float>(random.normal());
    for (std::int64_t& label : labels) label = random.below(classes);
  }
  Batch batch() const { return {images, labels, shape}; }
  Batch part(std::size_t begin, std::size_t count) const {
    return {std::span(images).subspan(begin * shape.size(), count * shape.size()),
            std::span(labels).subspan(begin, count), shape};
  }

  ImageShape shape;
  std::vector<float> images;
  std::vector<std::int64_t> labels;
};

inline ImageModelSpec spec_of(std::string_view text) { return image_model_table().read("model", text); }

// A model by its name with options, for the images and classes that it is usually trained on.
inline std::unique_ptr<ImageModel> model_of(std::string_view text, std::uint64_t seed = 1) {
  const ImageModelSpec spec = spec_of(text);
  return make_image_model(spec, spec.entry->shape, spec.entry->classes, seed);
}

inline std::vector<float> copy_of(std::span<const float> values) { return {values.begin(), values.end()}; }

// The gradient of one batch alone.
inline std::vector<float> gradient_of(ImageModel& model, const Batch& batch, std::uint64_t random = 5) {
  std::fill(model.gradient().begin(), model.gradient().end(), 0.0F);
  model.accumulate_gradient(batch, 1, random, {});
  return copy_of(model.gradient());
}

inline const ImageModelEntry& entry_of(std::string_view name) { return image_model_table().require("model", name); }

// A model of each family, small enough for tests of all families. image_model_table_test.cc checks that none is
// missing.
inline const std::vector<std::string> small_models{
    "lenet",
    "mnist-cnn",
    "fc",
    "logreg",
    "resnet18(width=0.25)",
    "resnet(depth=8, zero-gamma=true)",
    "resnet(depth=50, width=0.25, form=cifar)",
    "vgg11(width=0.125)",
    "vgg11-bn(width=0.125)",
    "alexnet",
    "densenet121",
    "densenet-bc(depth=22, growth=4)",
};

// The shape of images that are large enough for this model and small enough for tests.
inline ImageShape small_images(const ImageModelEntry& entry) {
  const std::int64_t side = std::max<std::int64_t>(16, entry.least_side);
  return {entry.shape.channels, side, side};
}

inline double dot(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return sum;
}

}  // namespace sotto
