#include "app/data/loader.h"

#include <exception>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "sotto/core/mutex.h"
#include "sotto/core/thread.h"
#include "sotto/core/thread_pool.h"

namespace sotto {
// A ring of prefetch + 1 slots; the batch of position s is in slot s % slots. The caller reads the slot of position
// `held_` once it is filled, while the thread fills the positions filled_ .. held_ + prefetch.
class Loader::Impl {
 public:
  Impl(const Dataset& data, LoaderOptions options)
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

  ~Impl() {
    {
      const Lock lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  Batch at(std::uint64_t position) {
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

  // Only this caller changes them.
  const Epochs& epochs() const { return order_.epochs(); }

  void go_on(const ReadingStart& start, Share share) {
    Lock lock(mutex_);
    changed_.wait(lock, [this]() SOTTO_REQUIRES(mutex_) { return !filling_; });
    order_.go_on(start, share);
    held_ = filled_ = start.position;
    changed_.notify_all();
  }

 private:
  struct Slot {
    std::vector<float> images;
    std::vector<std::int64_t> labels;
  };

  void run() {
    Lock lock(mutex_);
    for (;;) {
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
      if (error) {
        error_ = error;
      } else {
        ++filled_;
      }
      changed_.notify_all();
      if (error) return;
    }
  }

  void fill(std::uint64_t position) {
    Slot& slot = slots_[position % slots_.size()];
    const std::size_t pixels = data_.shape().size();
    const std::span<const std::uint32_t> examples = order_.at(position);
    pool_.run(examples.size(), [&](std::size_t i) {
      read(examples[i], order_.round(position, i), std::span(slot.images).subspan(i * pixels, pixels), slot.labels[i]);
    });
  }

  void read(std::uint32_t example, std::uint64_t round, std::span<float> image, std::int64_t& label) const {
    if (options_.augment == Augment::resized_crop) {
      Philox random = augment_random(options_.order.seed, round, example);
      return data_.read_crop(example, random, image, label);
    }
    data_.read(example, image, label);
    if (options_.augment == Augment::crop_flip) crop_flip_.apply(image, options_.order.seed, round, example);
  }

  const Dataset& data_;
  ExampleOrder order_;           // used by the thread while it fills, as is pool_
  const LoaderOptions options_;  // without `own`, which order_ has
  const CropFlip crop_flip_;
  ThreadPool pool_;

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

Loader::Loader(const Dataset& data, LoaderOptions options) : impl_(std::make_unique<Impl>(data, std::move(options))) {}
Loader::~Loader() = default;
Batch Loader::at(std::uint64_t position) { return impl_->at(position); }
const Epochs& Loader::epochs() const { return impl_->epochs(); }
void Loader::go_on(const ReadingStart& start, Share share) { impl_->go_on(start, share); }

}  // namespace sotto
