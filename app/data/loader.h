#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "app/data/augment.h"
#include "app/data/dataset.h"
#include "app/data/order.h"
#include "sotto/core/batch.h"

namespace sotto {

struct LoaderOptions {
  OrderOptions order{};
  std::size_t prefetch = 2;
  Augment augment = Augment::none;
  int threads = 1;                   // that read and change the images of a batch; no bit depends on them
  std::vector<std::uint32_t> own{};  // the examples of this rank alone; empty: all ranks share all
};

// The training images of one rank, in the order of ExampleOrder. A batch is a pure function of its position, so there
// is no state to save. A thread reads ahead, and may have others help.
class Loader {
 public:
  // ConfigError when the data cannot fill one global batch.
  Loader(const Dataset& data, LoaderOptions options);
  ~Loader();
  // The batch of this position (counted from 0 over all epochs); valid until the next call. Any order is allowed, but
  // only consecutive positions benefit from reading ahead.
  Batch at(std::uint64_t position);
  const Epochs& epochs() const;
  // As ExampleOrder::go_on().
  void go_on(const ReadingStart& start, Share share);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sotto
