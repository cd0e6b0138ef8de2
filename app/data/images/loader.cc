#include "app/data/images/loader.h"

namespace sotto {

Augment read_augment(const std::string& text, const Dataset& data) {
  if (text == "crop-flip") return Augment::crop_flip;
  if (text == "resized-crop" && !data.decodes()) {
    throw ConfigError(named("augment", text) +
                      ": is for pictures in files, and these images have one size; crop-flip "
                      "is for them");
  }
  return text != "none" && data.decodes() ? Augment::resized_crop : Augment::none;
}

CropFlip::CropFlip(const ImageShape& shape, std::vector<float> black, std::int64_t pad)
    : shape_(shape), black_(std::move(black)), pad_(pad) {}

void CropFlip::apply(std::span<float> image, std::uint64_t seed, std::uint64_t epoch, std::uint32_t example) const {
  Philox random = augment_random(seed, epoch, example);
  const auto shift = [&] {
    return static_cast<std::int64_t>(random.below(static_cast<std::uint32_t>(2 * pad_ + 1))) - pad_;
  };
  const std::int64_t down = shift(), right = shift();
  const bool mirrored = random.below(2) == 1;
  thread_local std::vector<float> before;  // the image as it was
  before.assign(image.begin(), image.end());
  const auto [channels, height, width] = shape_;
  auto to = image.begin();
  for (std::int64_t channel = 0; channel < channels; ++channel) {
    const float black = black_[static_cast<std::size_t>(channel)];
    for (std::int64_t y = down; y < down + height; ++y) {
      const float* row = before.data() + (channel * height + y) * width;
      for (std::int64_t i = 0; i < width; ++i) {
        const std::int64_t x = right + (mirrored ? width - 1 - i : i);
        const bool inside = y >= 0 && y < height && x >= 0 && x < width;
        *to++ = inside ? row[x] : black;
      }
    }
  }
}

Loader::Loader(const Dataset& data, LoaderOptions options)
    : data_(data),
      order_(data.size(), options.order, std::move(options.own)),
      options_(std::move(options)),
      crop_flip_(data.shape(), data.black()),
      pool_(options_.threads),
      slots_(options_.prefetch + 1) {
  for (Slot& slot : slots_) {
    slot.images.resize(options_.order.batch * data.shape().size());
    slot.labels.resize(options_.order.batch);
  }
  thread_ = start_thread("loading data", [this] { run(); });
}

Loader::~Loader() {
  {
    const Lock lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

Batch Loader::at(std::uint64_t position) {
  Lock lock(mutex_);
  if (position < held_ || position > filled_) {  // a jump: the batches read ahead are useless
    changed_.wait(lock, [this]() SOTTO_REQUIRES(mutex_) { return !filling_; });
    filled_ = position;
  }
  held_ = position;
  changed_.notify_all();
  changed_.wait(lock, [&]() SOTTO_REQUIRES(mutex_) { return filled_ > position || error_; });
  if (error_) std::rethrow_exception(error_);
  const Slot& slot = slots_[position % slots_.size()];
  return {slot.images, slot.labels, data_.shape()};
}

void Loader::go_on(const ReadingStart& start, Share share) {
  Lock lock(mutex_);
  changed_.wait(lock, [this]() SOTTO_REQUIRES(mutex_) { return !filling_; });
  order_.go_on(start, share);
  held_ = filled_ = start.position;
  changed_.notify_all();
}

void Loader::run() {
  Lock lock(mutex_);
  while (!error_) {
    changed_.wait(lock, [this]() SOTTO_REQUIRES(mutex_) { return stop_ || filled_ <= held_ + options_.prefetch; });
    if (stop_) return;
    const std::uint64_t position = filled_;
    filling_ = true;
    lock.unlock();
    std::exception_ptr error;
    try {
      fill(position);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    filling_ = false;
    error_ = error;
    if (!error) ++filled_;
    changed_.notify_all();
  }
}

void Loader::fill(std::uint64_t position) {
  Slot& slot = slots_[position % slots_.size()];
  const std::size_t pixels = data_.shape().size();
  const std::span<const std::uint32_t> examples = order_.at(position);
  pool_.run(examples.size(), [&](std::size_t i) {
    read(examples[i], order_.round(position, i), std::span(slot.images).subspan(i * pixels, pixels), slot.labels[i]);
  });
}

void Loader::read(std::uint32_t example, std::uint64_t round, std::span<float> image, std::int64_t& label) const {
  if (options_.augment == Augment::resized_crop) {
    Philox random = augment_random(options_.order.seed, round, example);
    return data_.read_crop(example, random, image, label);
  }
  data_.read(example, image, label);
  if (options_.augment == Augment::crop_flip) crop_flip_.apply(image, options_.order.seed, round, example);
}

}  // namespace sotto
