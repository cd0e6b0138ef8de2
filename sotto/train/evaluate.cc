#include "sotto/train/evaluate.h"

#include <algorithm>
#include <array>
#include <vector>

namespace sotto {

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

Score evaluate_together(Model& model, std::span<const float> parameters, const Dataset& data, std::size_t batch,
                        Communicator& communicator) {
  const std::vector<float> own(model.buffers().begin(), model.buffers().end());
  std::vector<float> trained;
  if (!parameters.empty()) {
    trained.assign(model.parameters().begin(), model.parameters().end());
    std::ranges::copy(parameters, model.parameters().begin());
  }
  average_buffers(model.buffers(), communicator);
  const Score mine = evaluate_share(model, data, batch, communicator.rank(), communicator.size());
  std::ranges::copy(own, model.buffers().begin());
  std::ranges::copy(trained, model.parameters().begin());

  std::array<double, 4> sums = {mine.loss, static_cast<double>(mine.count), static_cast<double>(mine.top1),
                                static_cast<double>(mine.top5)};
  communicator.all_reduce(std::span<double>(sums));
  return {sums[0], static_cast<std::uint64_t>(sums[1]), static_cast<std::uint64_t>(sums[2]),
          static_cast<std::uint64_t>(sums[3])};
}

void average_buffers(std::span<float> buffers, Communicator& communicator) {
  if (buffers.empty() || communicator.size() == 1) return;
  communicator.all_reduce(buffers);
  for (float& value : buffers) value /= static_cast<float>(communicator.size());
}

}  // namespace sotto
