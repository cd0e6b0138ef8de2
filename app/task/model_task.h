#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>

#include "app/task/task.h"
#include "sotto/core/hash.h"

namespace sotto {

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

 protected:
  // `train` is null if the task evaluates only. A tally of training examples has `sums` numbers. Called with braces, so
  // that training data are opened first.
  ModelTask(std::unique_ptr<Data> train, std::unique_ptr<Data> test, std::size_t sums)
      : train_(std::move(train)), test_(std::move(test)), trained_(sums) {}

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
};

}  // namespace sotto
