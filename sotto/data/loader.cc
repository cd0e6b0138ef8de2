#include "sotto/data/loader.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <limits>
#include <optional>
#include <stdexcept>
#include <thread>
#include <vector>

#include "sotto/core/error.h"
#include "sotto/core/mutex.h"
#include "sotto/core/random.h"
#include "sotto/core/thread.h"
#include "sotto/data/augment.h"

namespace sotto {
namespace {

std::uint64_t whole_steps(const Dataset& data, const LoaderOptions& options) {
  if (options.ranks < 1 || options.rank < 0 || options.rank >= options.ranks) {
    throw std::logic_error("Loader: rank must be in [0, ranks)");
  }
  if (options.batch == 0) throw ConfigError("the batch size must be at least 1");
  if (data.size() > std::numeric_limits<std::uint32_t>::max()) {
    throw ConfigError(fmt::format("{} training examples are more than the loader can count (2^32)", data.size()));
  }
  const auto ranks = static_cast<std::size_t>(options.ranks);
  // Compared by division: a huge batch must not overflow into a small product.
  if (options.batch > data.size() / ranks) {
    throw ConfigError(
        fmt::format("{} training examples cannot fill one global batch of {} ranks x {} examples; use a smaller batch, "
                    "fewer ranks or more data",
                    data.size(), ranks, options.batch));
  }
  return data.size() / (ranks * options.batch);
}

}  // namespace

// A ring of prefetch + 1 slots; the batch of micro-step s is in slot s % slots. The caller reads the slot of step
// `held_` once it is filled, while the thread fills the steps filled_ .. held_ + prefetch.
class Loader::Impl {
 public:
  Impl(const Dataset& data, LoaderOptions options)
      : data_(data),
        options_(options),
        steps_per_epoch_(whole_steps(data, options)),
        order_(data.size()),
        slots_(options.prefetch + 1) {
    for (Slot& slot : slots_) {
      slot.images.resize(options.batch * data.shape().size());
      slot.labels.resize(options.batch);
    }
    if (options.augment) augment_.emplace(data.shape(), data.black());
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

  Batch at(std::uint64_t step) {
    Lock lock(mutex_);
    if (step < held_ || step > filled_) {  // a jump: the batches read ahead are useless
      changed_.wait(lock, [this]() SOTTO_REQUIRES(mutex_) { return !filling_; });
      filled_ = step;
    }
    held_ = step;
    changed_.notify_all();
    changed_.wait(lock, [&]() SOTTO_REQUIRES(mutex_) { return filled_ > step || error_; });
    if (error_) std::rethrow_exception(error_);
    const Slot& slot = slots_[step % slots_.size()];
    return {slot.images, slot.labels, data_.shape()};
  }

  std::uint64_t steps_per_epoch() const { return steps_per_epoch_; }

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
      const std::uint64_t step = filled_;
      filling_ = true;
      lock.unlock();
      std::exception_ptr error;
      try {
        fill(step);
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

  void fill(std::uint64_t step) {
    const std::uint64_t epoch = step / steps_per_epoch_;
    if (!shuffled_ || epoch != epoch_) {
      shuffle(order_, options_.seed, epoch);
      epoch_ = epoch;
      shuffled_ = true;
    }
    Slot& slot = slots_[step % slots_.size()];
    const std::size_t pixels = data_.shape().size();
    const auto rank = static_cast<std::size_t>(options_.rank);
    const auto ranks = static_cast<std::size_t>(options_.ranks);
    const std::size_t first = ((step % steps_per_epoch_) * ranks + rank) * options_.batch;
    for (std::size_t i = 0; i < options_.batch; ++i) {
      const std::uint32_t example = order_[first + i];
      const auto image = std::span(slot.images).subspan(i * pixels, pixels);
      data_.read(example, image, slot.labels[i]);
      if (augment_) augment_->apply(image, options_.seed, epoch, example);
    }
  }

  const Dataset& data_;
  const LoaderOptions options_;
  const std::uint64_t steps_per_epoch_;

  // Only the thread uses these four: the permutation of `epoch_`, and whether it was made.
  std::optional<CropFlip> augment_;
  std::vector<std::uint32_t> order_;
  std::uint64_t epoch_ = 0;
  bool shuffled_ = false;

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

Loader::Loader(const Dataset& data, LoaderOptions options) : impl_(std::make_unique<Impl>(data, options)) {}
Loader::~Loader() = default;
Batch Loader::at(std::uint64_t micro_step) { return impl_->at(micro_step); }
std::uint64_t Loader::steps_per_epoch() const { return impl_->steps_per_epoch(); }

}  // namespace sotto
