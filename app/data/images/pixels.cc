#include "app/data/images/pixels.h"

namespace sotto {

Normaliser::Normaliser(ImageShape shape, const Normalisation& normalisation)
    : plane_(static_cast<std::size_t>(shape.height * shape.width)), tables_(static_cast<std::size_t>(shape.channels)) {
  for (std::size_t channel = 0; channel < tables_.size(); ++channel) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const float value = static_cast<float>(byte) / 255.0F;
      tables_[channel][byte] = (value - normalisation.mean.at(channel)) / normalisation.deviation.at(channel);
    }
  }
}

void Normaliser::apply(std::span<const std::uint8_t> pixels, std::span<float> image) const {
  for (std::size_t channel = 0; channel < tables_.size(); ++channel) {
    const auto& table = tables_[channel];
    const auto from = pixels.subspan(channel * plane_, plane_);
    const auto to = image.subspan(channel * plane_, plane_);
    for (std::size_t i = 0; i < plane_; ++i) to[i] = table[from[i]];
  }
}

void Normaliser::apply_to_pixels(std::span<const std::uint8_t> pixels, std::span<float> image) const {
  for (std::size_t channel = 0; channel < tables_.size(); ++channel) {
    const auto& table = tables_[channel];
    const auto to = image.subspan(channel * plane_, plane_);
    for (std::size_t i = 0; i < plane_; ++i) to[i] = table[pixels[4 * i + channel]];
  }
}

std::vector<float> Normaliser::black() const {
  std::vector<float> values;
  for (const auto& table : tables_) values.push_back(table[0]);
  return values;
}

StoredDataset::StoredDataset(ImageShape shape, std::int64_t classes, const Normalisation& normalisation,
                             std::size_t count, std::vector<std::uint8_t> pixels, std::vector<std::uint8_t> labels,
                             std::string remark)
    : shape_(shape),
      classes_(classes),
      normaliser_(shape, normalisation),
      count_(count),
      pixels_(std::move(pixels)),
      labels_(std::move(labels)),
      remark_(std::move(remark)) {
  if (pixels_.size() < count_ * shape_.size() || labels_.size() < count_) {
    throw std::logic_error("StoredDataset: fewer images or labels than examples");
  }
}

void StoredDataset::read(std::size_t index, std::span<float> image, std::int64_t& label) const {
  if (index >= count_ || image.size() != shape_.size()) throw std::out_of_range("StoredDataset::read");
  normaliser_.apply(std::span(pixels_).subspan(index * shape_.size(), shape_.size()), image);
  label = labels_[index];
}

std::int64_t StoredDataset::label(std::size_t index) const {
  if (index >= count_) throw std::out_of_range("StoredDataset::label");
  return labels_[index];
}

std::vector<std::string> StoredDataset::remarks() const {
  return remark_.empty() ? std::vector<std::string>() : std::vector{remark_};
}

}  // namespace sotto
