#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "app/data/options.h"
#include "app/data/order.h"
#include "app/task/metric.h"
#include "sotto/core/hash.h"
#include "sotto/core/layout.h"

namespace sotto {

// Sums over some examples, such as the loss and the number of right answers. Tallies of disjoint sets of examples may
// be added element by element, also across ranks; Task::metrics() computes metrics from the sum.
using Tally = std::vector<double>;

// Called after each batch of an evaluation with the number of examples done so far. It may throw.
using AfterBatch = std::function<void(std::uint64_t examples)>;

// What one rank trains: a model with its data, loss and metrics, as flat vectors. Code above this folder knows models
// only in this form. Tasks derive from the template ModelTask. All ranks of a run have the same task, each with its own
// share of the examples.
class Task {
 public:
  virtual ~Task() = default;

  virtual const Layout& layout() const = 0;         // of parameters() and gradient()
  virtual const Layout& buffer_layout() const = 0;  // of buffers(), the batch-norm statistics
  virtual std::span<float> parameters() = 0;
  virtual std::span<float> gradient() = 0;
  virtual std::span<float> buffers() = 0;

  virtual std::uint64_t examples(Split split) const = 0;
  // A hash of the number of examples, and of a sample spread over all examples. A run cannot be resumed if the hash
  // differs.
  virtual std::uint64_t sample_hash(Split split) const = 0;
  // Which batch of which epoch a position is.
  virtual const Epochs& epochs() const = 0;
  // Continues reading where `start` says that other ranks stopped, and takes this share of the examples from then on.
  // FileError if an epoch has less than they read.
  virtual void go_on(const ReadingStart& start, Share share) = 0;

  // gradient() += scale * d(mean loss of a batch)/d(parameters); returns that loss. The examples of the batch are a
  // pure function of the seed, `position` and this rank's share, so there is no state to save. Random draws, such as
  // dropout, are a pure function of `random`. calls.ready() is not called for segments that the loss does not depend
  // on.
  virtual double accumulate_gradient(std::uint64_t position, float scale, std::uint64_t random,
                                     const SegmentCalls& calls) = 0;
  // A table of the examples that a partition gives to each rank, numbered from `first_rank`. Empty if all ranks share
  // all examples.
  virtual std::string data_report(int /*first_rank*/) const { return ""; }
  virtual double data_seconds() const = 0;  // how long the last accumulate_gradient() waited for its examples

  // The tally of this share of the examples of a split, in evaluation mode: no gradients, no random draws.
  virtual Tally evaluate(Split split, Share share, const AfterBatch& after_batch = nullptr) = 0;
  // One text for each test example, such as its translation, as the last evaluate() of the test data made it; empty for
  // examples of other shares. Only `translate` makes texts; other tasks return none.
  virtual std::span<const std::string> texts() const { return {}; }
  // The tally of all accumulate_gradient() calls since it was last set to zeros. It is part of a checkpoint.
  virtual Tally& trained() = 0;
  // The metrics of a tally; without values if the tally counted no examples. Metrics of test data only are NaN for a
  // tally of training.
  virtual Metrics metrics(const Tally& tally) const = 0;
  // The loss of a model that has learned nothing; 0 if it cannot be known.
  virtual double loss_of_guessing() const = 0;
  // What the numbers in examples stand for: the names of columns or classes, or the vocabulary. A model is of use only
  // for data with the same meaning. If one of two data sets tells less of its meaning, its text is the beginning of the
  // other's.
  virtual std::string meaning() const { return ""; }
  // Lines about the data that the user ought to know, such as how many examples are left out. Options in them are
  // marked, for spelled().
  virtual std::vector<std::string> remarks() const { return {}; }
};

// The parts that all tasks share: a model of some kind, data for it, and the order in which a rank reads them.
template <class Model, class Data, class Order>
class ModelTask : public Task {
 public:
  const Layout& layout() const final { return model_->layout(); }
  const Layout& buffer_layout() const final { return model_->buffer_layout(); }
  std::span<float> parameters() final { return model_->parameters(); }
  std::span<float> gradient() final { return model_->gradient(); }
  std::span<float> buffers() final { return model_->buffers(); }

  std::uint64_t examples(Split split) const final { return data(split).size(); }
  const Epochs& epochs() const final { return order_->epochs(); }
  void go_on(const ReadingStart& start, Share share) final { order_->go_on(start, share); }
  std::string meaning() const final { return test_->meaning(); }
  double data_seconds() const final { return data_seconds_; }
  Tally& trained() final { return trained_; }
  Metrics metrics(const Tally& tally) const final {
    return {kinds_, tally.at(1) == 0 ? std::vector<double>() : values(tally)};
  }

 protected:
  // `train` is null if the task evaluates only. A tally of training examples has `sums` numbers. Call it with braces:
  // arguments are then evaluated in order, and training data are opened first.
  ModelTask(std::unique_ptr<Data> train, std::unique_ptr<Data> test, std::size_t sums, std::span<const Metric> kinds)
      : train_(std::move(train)), test_(std::move(test)), trained_(sums), kinds_(kinds) {}

  // The values of the metrics, from the tally of at least one example.
  virtual std::vector<double> values(const Tally& tally) const = 0;

  // std::logic_error for training data of a task that evaluates only.
  const Data& data(Split split) const {
    if (split == Split::test) return *test_;
    if (!train_) throw std::logic_error("this task has no training data");
    return *train_;
  }

  // A hash of the number of examples, and of at most `most` of them, spread from the first to the last one. add(hash,
  // examples, index) adds an example. REQUIRES most > 1.
  template <class Add>
  std::uint64_t hash_of_some(Split split, std::size_t most, Add&& add) const {
    const Data& all = data(split);
    Hash hash;
    hash.add(all.size());
    const std::size_t count = std::min<std::size_t>(most, all.size());
    for (std::size_t i = 0; i < count; ++i) {
      add(hash, all, count == all.size() ? i : i * (all.size() - 1) / (count - 1));
    }
    return hash.value();
  }

  std::unique_ptr<Data> train_, test_;
  // Made by the constructor of the derived class; no order without training data.
  std::unique_ptr<Model> model_;
  std::optional<Order> order_;
  double data_seconds_ = 0;
  Tally trained_;

 private:
  std::span<const Metric> kinds_;
};

}  // namespace sotto
