#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "app/data/images/dataset.h"
#include "sotto/core/examples.h"

namespace sotto {

// Normalises bytes to about mean 0 and variance 1: (byte/255 - mean) / deviation, channel by channel.
struct Normalisation {
  std::array<float, 3> mean;
  std::array<float, 3> deviation;
};
inline constexpr Normalisation mnist_normalisation{{0.1307F}, {0.3081F}};
inline constexpr Normalisation cifar_normalisation{{0.4914F, 0.4822F, 0.4465F}, {0.2470F, 0.2435F, 0.2616F}};
inline constexpr Normalisation cifar100_normalisation{{0.5071F, 0.4865F, 0.4409F}, {0.2673F, 0.2564F, 0.2762F}};
inline constexpr Normalisation svhn_normalisation{{0.4377F, 0.4438F, 0.4728F}, {0.1980F, 0.2010F, 0.1970F}};
inline constexpr Normalisation imagenet_normalisation{{0.485F, 0.456F, 0.406F}, {0.229F, 0.224F, 0.225F}};

// The same as a lookup table of 256 floats per channel.
class Normaliser {
 public:
  Normaliser(ImageShape shape, const Normalisation& normalisation);
  // REQUIRES that both hold shape.size() values, channel after channel.
  void apply(std::span<const std::uint8_t> pixels, std::span<float> image) const;
  // From pixels of four bytes each; the first bytes are the channels.
  void apply_to_pixels(std::span<const std::uint8_t> pixels, std::span<float> image) const;
  std::vector<float> black() const;

 private:
  std::size_t plane_;
  std::vector<std::array<float, 256>> tables_;
};

// Images that are stored as bytes and normalised when they are read.
class StoredDataset final : public Dataset {
 public:
  // Keeps the first `count` of the images. The remark, if there is one, is for remarks(). REQUIRES at least
  // count*shape.size() pixels and count labels below `classes`.
  StoredDataset(ImageShape shape, std::int64_t classes, const Normalisation& normalisation, std::size_t count,
                std::vector<std::uint8_t> pixels, std::vector<std::uint8_t> labels, std::string remark = "");
  std::size_t size() const override { return count_; }
  ImageShape shape() const override { return shape_; }
  std::int64_t classes() const override { return classes_; }
  void read(std::size_t index, std::span<float> image, std::int64_t& label) const override;
  std::int64_t label(std::size_t index) const override;
  std::vector<float> black() const override { return normaliser_.black(); }
  std::vector<std::string> remarks() const override;

 private:
  ImageShape shape_;
  std::int64_t classes_;
  Normaliser normaliser_;
  std::size_t count_;
  std::vector<std::uint8_t> pixels_;
  std::vector<std::uint8_t> labels_;
  std::string remark_;
};

}  // namespace sotto
