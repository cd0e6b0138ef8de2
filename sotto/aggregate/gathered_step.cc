#include "sotto/aggregate/gathered_step.h"

#include "sotto/aggregate/aggregators.h"
#include "sotto/aggregate/owners.h"
#include "sotto/kernels/matrix.h"

namespace sotto {

bool sparse_can_be_had(const AggregatorParts& parts) {
  return parts.memory->remembers() && sparse_suits(*parts.codec, parts.buckets).empty();
}

GatheredStep::GatheredStep(const AggregatorParts& parts)
    : parts_(parts),
      codec_(make_codec(parts.codec->traits().stages, parts.pool)),
      encoder_(codec_),
      opened_(codec_->make_opened()),
      seen_(parts.buckets.size()) {}

void GatheredStep::add(const Bucket& mean, const Key& key, std::uint64_t bytes_sent) {
  Seen& seen = seen_.at(mean.index);
  seen = {.once = true, .gathered = static_cast<double>(bytes_sent) / (parts_.ranks - 1)};
  encode_again(mean, key, seen);
}

bool GatheredStep::complete() const { return std::ranges::all_of(seen_, &Seen::once); }

// Encodes piece by piece, so that the trial needs little extra memory.
void GatheredStep::encode_again(const Bucket& mean, const Key& key, Seen& seen) {
  constexpr std::size_t most = std::size_t{1} << 18;  // elements of a piece, if the codec's grain allows it
  const Layout& layout = parts_.buckets[mean.index].layout;
  const auto chunks = cut_chunks(layout, codec_->contract(layout), parts_.ranks);
  const Range own = chunks[static_cast<std::size_t>(chunk_of(parts_.rank, mean.index, parts_.ranks))];
  if (own.size() == 0) return;
  const Layout alone = chunk_layout(layout, own);
  const auto chunk = mean.values.subspan(own.begin, own.size());
  seen.second = sizeof(Header);
  for (const Range piece : cut_chunks(alone, codec_->contract(alone), static_cast<int>(own.size() / most + 1))) {
    if (piece.size() == 0) continue;
    const Layout its_layout = chunk_layout(alone, piece);
    encode_piece({chunk.subspan(piece.begin, piece.size()), &its_layout, mean.index}, key, seen);
  }
}

// If the codec cannot encode a mean, that counts as nothing sent.
void GatheredStep::encode_piece(const Bucket& piece, const Key& key, Seen& seen) {
  const Range whole{0, piece.values.size()};
  seen.mean_mean += kernels::dot(piece.values, piece.values);
  try {
    encoder_.encode_alone(piece, key_of_mean(key), {&whole, 1}, {&message_, 1});
  } catch (const NumericError&) {
    return;
  }
  sent_.assign(whole.size(), 0);
  Bucket sent{sent_, piece.layout, piece.index};
  opened_->open(message_.view(), *piece.layout, whole);
  opened_->add_to(sent, 1);
  seen.second += static_cast<double>(message_.bytes().size() - sizeof(Header));
  seen.sent_sent += kernels::dot(sent_, sent_);
  seen.mean_sent += kernels::dot(piece.values, sent_);
}

Forecast GatheredStep::forecast(Communicator& communicator) const {
  const std::size_t buckets = seen_.size();
  std::vector<double> sums(buckets + 3);
  for (std::size_t b = 0; b < buckets; ++b) {
    sums[b] = seen_[b].gathered;
    sums[buckets] += seen_[b].mean_mean;
    sums[buckets + 1] += seen_[b].sent_sent;
    sums[buckets + 2] += seen_[b].mean_sent;
  }
  communicator.all_reduce(std::span(sums), ReduceOp::sum);
  const auto messages = std::span(sums).first(buckets);
  Forecast forecast;
  for (double& bytes : messages) {
    bytes /= parts_.ranks;
    forecast.gather += bytes * (parts_.ranks - 1);
  }
  const double mean_mean = sums[buckets], sent_sent = sums[buckets + 1], mean_sent = sums[buckets + 2];
  if (mean_mean > 0) {
    forecast.steps =
        mean_sent > 0 ? mean_mean / mean_sent * (sent_sent / mean_sent) : std::numeric_limits<double>::infinity();
  }

  // First round: assumes that the bytes of a message are proportional to its elements.
  double scatter = 0;
  for (std::size_t b = 0; b < buckets; ++b) {
    const Layout& layout = parts_.buckets[b].layout;
    const auto chunks = cut_chunks(layout, codec_->contract(layout), parts_.ranks);
    const auto own = static_cast<std::size_t>(chunk_of(parts_.rank, static_cast<int>(b), parts_.ranks));
    const double body = (messages[b] - sizeof(Header)) / static_cast<double>(layout.size());
    for (std::size_t c = 0; c < chunks.size(); ++c) {
      if (c != own && chunks[c].size() > 0) scatter += sizeof(Header) + body * static_cast<double>(chunks[c].size());
    }
    scatter += seen_[b].second * (parts_.ranks - 1);
  }
  communicator.all_reduce({&scatter, 1}, ReduceOp::max);
  forecast.scatter_reduce = scatter;
  if (sparse_can_be_had(parts_)) forecast.sparse = sparse_bytes(parts_, messages);
  return forecast;
}

}  // namespace sotto
