#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sotto/core/random.h"
#include "sotto/core/table.h"
#include "sotto/model/model.h"

namespace sotto {

// A batch of noise that owns its examples.
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

inline std::unique_ptr<Model> model_of(const ModelEntry& entry, std::uint64_t seed = 1) {
  return make_model(entry, entry.shape, 10, seed);
}

inline std::vector<float> copy_of(std::span<const float> values) { return {values.begin(), values.end()}; }

// The gradient of one batch alone.
inline std::vector<float> gradient_of(Model& model, const Batch& batch, std::uint64_t random = 5) {
  std::fill(model.gradient().begin(), model.gradient().end(), 0.0F);
  model.accumulate_gradient(batch, 1, random, {});
  return copy_of(model.gradient());
}

inline const ModelEntry& entry_of(std::string_view name) { return model_table().require("model", name); }

inline double dot(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return sum;
}

}  // namespace sotto
