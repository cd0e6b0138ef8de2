#include "sotto/train/evaluate.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "sotto/aggregate/aggregate.h"

namespace sotto {

namespace {

// Puts values in the place of others for as long as it lives; none: leaves them.
class Replaced {
 public:
  Replaced(std::span<float> place, std::span<const float> values) : place_(place) {
    if (values.empty()) return;
    own_.assign(place.begin(), place.end());
    std::ranges::copy(values, place.begin());
  }
  ~Replaced() { std::ranges::copy(own_, place_.begin()); }
  Replaced(const Replaced&) = delete;
  Replaced& operator=(const Replaced&) = delete;

 private:
  std::span<float> place_;
  std::vector<float> own_;
};

}  // namespace

Score evaluate_share(Model& model, const Dataset& data, std::size_t batch, int rank, int ranks) {
  const std::size_t image = data.shape().size();
  batch = std::min(batch, data.size());
  std::vector<float> images(batch * image);
  std::vector<std::int64_t> labels(batch);
  Score total;
  std::size_t filled = 0;
  const auto flush = [&] {
    if (filled == 0) return;
    const Score part = model.evaluate({std::span<const float>(images).first(filled * image),
                                       std::span<const std::int64_t>(labels).first(filled), data.shape()});
    total.loss += part.loss;
    total.count += part.count;
    total.top1 += part.top1;
    total.top5 += part.top5;
    filled = 0;
  };
  for (std::size_t i = static_cast<std::size_t>(rank); i < data.size(); i += static_cast<std::size_t>(ranks)) {
    data.read(i, std::span(images).subspan(filled * image, image), labels[filled]);
    if (++filled == batch) flush();
  }
  flush();
  return total;
}

Score evaluate_alone(Model& model, std::span<const float> parameters, const Dataset& data, std::size_t batch) {
  const Replaced wanted(model.parameters(), parameters);
  return evaluate_share(model, data, batch, 0, 1);
}

Score evaluate_together(Model& model, std::span<const float> parameters, const Dataset& data, std::size_t batch,
                        Communicator& communicator) {
  std::vector<float> buffers(model.buffers().begin(), model.buffers().end());
  aggregate(buffers, Op::avg, communicator);
  const Replaced mean(model.buffers(), buffers), wanted(model.parameters(), parameters);
  const Score mine = evaluate_share(model, data, batch, communicator.rank(), communicator.size());
  std::array<double, 4> sums = {mine.loss, static_cast<double>(mine.count), static_cast<double>(mine.top1),
                                static_cast<double>(mine.top5)};
  communicator.all_reduce(std::span<double>(sums));
  return {sums[0], static_cast<std::uint64_t>(sums[1]), static_cast<std::uint64_t>(sums[2]),
          static_cast<std::uint64_t>(sums[3])};
}

MeanModel mean_model(std::span<const float> parameters, Communicator& communicator) {
  MeanModel mean{{parameters.begin(), parameters.end()}};
  aggregate(mean.parameters, Op::avg, communicator);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const double apart = static_cast<double>(parameters[i]) - static_cast<double>(mean.parameters[i]);
    mean.distance += apart * apart;
  }
  communicator.all_reduce(std::span(&mean.distance, 1));
  mean.distance = std::sqrt(mean.distance / communicator.size());
  return mean;
}

}  // namespace sotto
