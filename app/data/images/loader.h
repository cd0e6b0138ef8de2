#pragma once

#include <cstdint>
#include <exception>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "app/data/images/dataset.h"
#include "app/data/order.h"
#include "sotto/core/examples.h"
#include "sotto/core/random.h"
#include "sotto/core/thread.h"
#include "sotto/core/thread_pool.h"

namespace sotto {

// Random changes of training images.
enum class Augment : std::uint8_t {
  none,
  crop_flip,     // CropFlip
  resized_crop,  // Dataset::read_crop()
};
// The meaning of the option `augment` for these data. ConfigError if they do not support it.
Augment read_augment(const std::string& text, const Dataset& data);

// The random numbers of the changes of an image.
inline Philox augment_random(std::uint64_t seed, std::uint64_t epoch, std::uint32_t example) {
  return {seed, Purpose::augment, epoch << 32U | example};
}

// Pads an image by `pad` black pixels on each side, crops it to its old size at a random place, and mirrors it with
// probability 1/2 (He et al., CVPR 2016, on CIFAR): as torchvision's RandomCrop and RandomHorizontalFlip.
class CropFlip {
 public:
  // `black` is the value of a black pixel in each channel.
  CropFlip(const ImageShape& shape, std::vector<float> black, std::int64_t pad = 4);

  // The change of the image is a pure function of (seed, epoch, example). Several threads may call this at once.
  void apply(std::span<float> image, std::uint64_t seed, std::uint64_t epoch, std::uint32_t example) const;

 private:
  ImageShape shape_;
  std::vector<float> black_;
  std::int64_t pad_;
};

struct LoaderOptions {
  OrderOptions order{};
  std::size_t prefetch = 2;
  Augment augment = Augment::none;
  int threads = 1;                   // that read and change the images of a batch; no bit depends on them
  std::vector<std::uint32_t> own{};  // the examples of this rank alone; empty: all ranks share all
};

// The training images of one rank, in the order of ExampleOrder. A batch is a pure function of its position, so there
// is no state to save. A thread reads ahead, with the help of others if there are several `threads`.
class Loader {
 public:
  // ConfigError when the data cannot fill one global batch.
  Loader(const Dataset& data, LoaderOptions options);
  ~Loader();
  // The batch of this position (counted from 0 over all epochs); valid until the next call. Any order is allowed, but
  // only consecutive positions benefit from reading ahead.
  Batch at(std::uint64_t position);
  const Epochs& epochs() const { return order_.epochs(); }  // changed only by go_on(), not by the thread
  void go_on(const ReadingStart& start, Share share);

 private:
  struct Slot {
    std::vector<float> images;
    std::vector<std::int64_t> labels;
  };
  void run();
  void fill(std::uint64_t position);
  void read(std::uint32_t example, std::uint64_t round, std::span<float> image, std::int64_t& label) const;

  const Dataset& data_;
  ExampleOrder order_;           // used by the thread while it fills, as is pool_
  const LoaderOptions options_;  // without `own`, which order_ has
  const CropFlip crop_flip_;
  ThreadPool pool_;

  // A ring of prefetch + 1 slots; the batch of position s is in slot s % slots. The caller reads the slot of position
  // `held_` once it is filled, while the thread fills the positions filled_ .. held_ + prefetch.
  Mutex mutex_;
  Condition changed_;
  std::vector<Slot> slots_;  // held_ and filled_ say which thread may use a slot
  std::uint64_t held_ SOTTO_GUARDED_BY(mutex_) = 0;
  std::uint64_t filled_ SOTTO_GUARDED_BY(mutex_) = 0;
  bool filling_ SOTTO_GUARDED_BY(mutex_) = false;
  bool stop_ SOTTO_GUARDED_BY(mutex_) = false;
  std::exception_ptr error_ SOTTO_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace sotto
