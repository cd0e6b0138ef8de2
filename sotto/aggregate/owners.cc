#include "sotto/aggregate/owners.h"

#include <exception>
#include <iterator>

#include "sotto/codec/pieces.h"
#include "sotto/core/hash.h"

namespace sotto {
namespace {

// How many elements of a segment belong together: cuts are at multiples of it.
std::size_t grain_of(const Segment& segment, const Contract& contract) {
  const std::size_t rows = segment.shape.empty() ? 1 : static_cast<std::size_t>(segment.shape.front());
  switch (contract.grain) {
    case Contract::Grain::element: break;
    case Contract::Grain::block: return contract.block;
    case Contract::Grain::row: return segment.numel() / std::max<std::size_t>(rows, 1);
    case Contract::Grain::segment: return segment.numel();
  }
  return 1;
}

std::size_t nearest(std::size_t target, std::size_t low, std::size_t high) {
  return target - low <= high - target ? low : high;
}

std::size_t nearest_cut(const Layout& layout, const Contract& contract, std::size_t target) {
  if (contract.grain == Contract::Grain::element) {
    const std::size_t low = target / Layout::alignment * Layout::alignment;
    return nearest(target, low, std::min(low + Layout::alignment, layout.size()));
  }
  const auto segments = layout.segments();
  const auto next = std::ranges::upper_bound(segments, target, {}, &Segment::offset);
  if (next == segments.begin()) return 0;
  const Segment& segment = *std::prev(next);
  const std::size_t end = next == segments.end() ? layout.size() : next->offset;
  if (segment.numel() == 0) return nearest(target, segment.offset, end);
  const std::size_t grain = std::max<std::size_t>(grain_of(segment, contract), 1);
  const std::size_t within = std::min(target - segment.offset, segment.numel() - 1);
  const std::size_t low = segment.offset + within / grain * grain;
  const std::size_t high = low + grain >= segment.range().end ? end : low + grain;
  return nearest(target, low, high);
}

}  // namespace

std::vector<Range> cut_chunks(const Layout& layout, const Contract& contract, int ranks) {
  const auto count = static_cast<std::size_t>(ranks);
  std::vector<Range> chunks(count);
  std::size_t begin = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const bool last = i + 1 == count;
    const std::size_t end = last ? layout.size() : nearest_cut(layout, contract, layout.size() * (i + 1) / count);
    chunks[i] = {begin, end};
    begin = end;
  }
  return chunks;
}

Layout chunk_layout(const Layout& layout, Range chunk) {
  std::vector<Piece> pieces;
  cut_pieces(layout, chunk, pieces);
  std::vector<Segment> segments;
  for (const Piece& piece : pieces) {
    Segment segment = layout.segments()[piece.segment];
    const std::size_t size = piece.range.size();
    if (size != segment.numel()) {
      const std::size_t row = segment.numel() / static_cast<std::size_t>(segment.shape.front());
      if (segment.shape.size() > 1 && piece.first % row == 0 && size % row == 0) {
        segment.shape.front() = static_cast<std::int64_t>(size / row);
      } else {  // one row: a single dimension would look like a whole bias
        segment.shape = {1, static_cast<std::int64_t>(size)};
      }
    }
    segment.offset = piece.range.begin - chunk.begin;
    segments.push_back(std::move(segment));
  }
  return {std::move(segments), chunk.size()};
}

Key key_of_mean(Key key) {
  Hash hash;
  hash.add("mean");
  hash.add(key.seed);
  key.seed = hash.value();
  return key;
}

Owners::Owners(const AggregatorParts& parts, std::shared_ptr<Codec> codec, float share)
    : rank_(parts.rank),
      ranks_(parts.ranks),
      share_(share),
      codec_(std::move(codec)),
      mean_codec_(make_codec(codec_->traits().stages, parts.pool)),
      encoder_(codec_),
      mean_encoder_(mean_codec_),
      own_(static_cast<std::size_t>(parts.ranks)),
      sent_(codec_),
      received_(codec_),
      means_(mean_codec_) {}

Cut Owners::cut(const Layout& layout, int bucket, std::vector<Range> chunks) const {
  Cut cut;
  cut.index = bucket;
  cut.chunks = std::move(chunks);
  cut.own = chunk_of_peer(cut, rank_);
  cut.room = codec_->max_bytes(layout, cut.chunk());
  for (const Range chunk : cut.chunks) {
    const Layout& alone = cut.layouts.emplace_back(chunk_layout(layout, chunk));
    cut.mean_rooms.push_back(mean_codec_->max_bytes(alone, {0, alone.size()}));
  }
  return cut;
}

void Owners::exchange(const Bucket& prepared, const Key& key, const Cut& cut, Communicator& communicator,
                      Timings& timings) {
  encoder_.encode(prepared, key, cut.chunks, own_, communicator, timings);
  const Timer timer;
  round_.clear();
  for_each_peer([&](int peer) {
    const std::size_t chunk = chunk_of_peer(cut, peer);
    if (cut.chunks[chunk].size() > 0) round_.send(peer, own_[chunk]);
    if (cut.chunk().size() > 0) round_.receive(peer, cut.room);
  });
  round_.exchange(communicator);
  timings.network += timer.seconds();
}

Bucket Owners::sum(const Bucket& bucket, const Key& key, const Cut& cut, const Communicator& communicator) {
  round_.open(communicator,
              {.generation = key.generation,
               .step = key.step,
               .bucket = bucket.index,
               .part = static_cast<std::uint16_t>(cut.own)},
              [&](const MessageView& message) {
                received_[message.header().origin].open(message, *bucket.layout, cut.chunk());
              });
  Bucket sum = bucket;  // as long as the bucket, so that each value has its place; only the chunk is written
  sum.values = sum_.room(bucket.values.size());
  const auto values = sum.values.subspan(cut.chunk().begin, cut.chunk().size());
  std::ranges::fill(values, 0.0F);
  if (!values.empty()) {
    sent_[cut.own].open(own_[cut.own].view(), *bucket.layout, cut.chunk());
    for (int rank = 0; rank < ranks_; ++rank) {
      (rank == rank_ ? sent_[cut.own] : received_[static_cast<std::size_t>(rank)]).add_to(sum, share_);
    }
  }
  return {values, &cut.layouts[cut.own], bucket.index};
}

Owners::SentChunks Owners::sent(const Layout& layout, const Cut& cut) {
  for (std::size_t i = 0; i < cut.chunks.size(); ++i) {
    const bool is_open = i == cut.own && cut.chunk().size() > 0;  // sum() opened it
    if (!is_open) sent_[i].open(own_[i].view(), layout, cut.chunks[i]);
  }
  return SentChunks(sent_.first(cut.chunks.size()));
}

void Owners::spread(const Bucket& mean, Bucket& bucket, const Key& key, const Cut& cut, Communicator& communicator,
                    Timings& timings) {
  Timer timer;
  const std::exception_ptr failure = encode_mean(mean, key, cut);
  timings.encode += timer.lap();
  exchange_means(cut, communicator);
  timings.network += timer.lap();
  if (failure) std::rethrow_exception(failure);
  decode_means(bucket, key, cut, communicator);
  timings.decode += timer.lap();
}

// A mean may be too large for the codec although no rank's own vector was. Then this rank tells all ranks that wait for
// the mean.
std::exception_ptr Owners::encode_mean(const Bucket& mean, const Key& key, const Cut& cut) {
  const Range whole{0, mean.values.size()};
  if (whole.size() == 0) return nullptr;
  try {
    mean_encoder_.encode_alone(mean, key_of_mean(key), {&whole, 1}, {&own_mean_, 1});
    return nullptr;
  } catch (const NumericError& error) {
    const Header header{.generation = key.generation, .origin = key.rank, .step = key.step, .bucket = mean.index};
    Round::decline(own_mean_, header, cut.mean_rooms[cut.own], error.what());
    return std::current_exception();
  }
}

void Owners::exchange_means(const Cut& cut, Communicator& communicator) {
  round_.clear();
  for_each_peer([&](int peer) {
    const std::size_t chunk = chunk_of_peer(cut, peer);
    if (cut.chunk().size() > 0) round_.send(peer, own_mean_);
    if (cut.chunks[chunk].size() > 0) round_.receive(peer, cut.mean_rooms[chunk]);
  });
  round_.exchange(communicator);
}

// Opens all messages before it decodes the first into the bucket.
void Owners::decode_means(Bucket& bucket, const Key& key, const Cut& cut, const Communicator& communicator) {
  const auto open = [&](std::size_t chunk, const MessageView& message) {
    const Layout& layout = cut.layouts[chunk];
    means_[chunk].open(message, layout, {0, layout.size()});
  };
  round_.open(communicator, {.generation = key.generation, .step = key.step, .bucket = bucket.index},
              [&](const MessageView& message) { open(chunk_of_peer(cut, message.header().origin), message); });
  if (cut.chunk().size() > 0) open(cut.own, own_mean_.view());
  std::ranges::fill(bucket.values, 0.0F);
  for (std::size_t i = 0; i < cut.chunks.size(); ++i) {
    const Range chunk = cut.chunks[i];
    if (chunk.size() == 0) continue;
    Bucket part{bucket.values.subspan(chunk.begin, chunk.size()), &cut.layouts[i], bucket.index};
    means_[i].add_to(part, 1);
  }
}

void Owners::subtract_sent(Bucket& mean, const Cut& cut) {
  if (!mean.values.empty()) means_[cut.own].add_to(mean, -1);
}

void Owners::clear_spread(Bucket& out, const Cut& cut) {
  for (std::size_t i = 0; i < cut.chunks.size(); ++i) {
    const Range chunk = cut.chunks[i];
    if (chunk.size() == 0) continue;
    Bucket part{out.values.subspan(chunk.begin, chunk.size()), &cut.layouts[i], out.index};
    means_[i].clear_chosen(part);
  }
}

}  // namespace sotto
