#include "sotto/aggregate/round.h"

#include <numeric>

namespace sotto {

std::span<float> Encoder::proposed(const Bucket& bucket) {
  const auto numbers = agreed_.room(codec_->agreed_count(*bucket.layout));
  if (!numbers.empty()) codec_->propose(bucket, numbers);
  return numbers;
}

void Encoder::encode(const Bucket& bucket, const Key& key, std::span<const Range> parts, std::span<Message> out,
                     Communicator& communicator, Timings& timings) {
  Timer timer;
  const auto agreed = proposed(bucket);
  if (!agreed.empty()) {
    timings.encode += timer.lap();
    communicator.all_reduce(agreed, ReduceOp::max);
    timings.network += timer.lap();
  }
  codec_->encode(bucket, key, agreed, parts, out);
  timings.encode += timer.lap();
}

void Encoder::encode_alone(const Bucket& bucket, const Key& key, std::span<const Range> parts, std::span<Message> out) {
  codec_->encode(bucket, key, proposed(bucket), parts, out);
}

void Round::clear() {
  sends_.clear();
  recvs_.clear();
  more_sent_.clear();
  more_received_.clear();
  rooms_.clear();
}

void Round::send(int peer, const Message& message) { sends_.push_back({peer, message.bytes(), {}}); }

void Round::receive(int peer, std::size_t most_bytes) {
  recvs_.push_back({peer, {}, {}, MessageView::announced_size});
  rooms_.push_back(most_bytes);
}

void Round::exchange(Communicator& communicator) {
  auto free = buffer_.room(std::accumulate(rooms_.begin(), rooms_.end(), std::size_t{0}));
  for (std::size_t i = 0; i < rooms_.size(); ++i) {
    recvs_[i].buffer = free.first(rooms_[i]);
    // The buffer is not initialised: what a peer leaves unwritten must not look like a message from it.
    std::ranges::fill(recvs_[i].buffer.first(std::min(rooms_[i], sizeof(Header))), std::byte{0});
    free = free.subspan(rooms_[i]);
  }
  sends_.insert(sends_.end(), more_sent_.begin(), more_sent_.end());
  recvs_.insert(recvs_.end(), more_received_.begin(), more_received_.end());
  if (!sends_.empty() || !recvs_.empty()) communicator.all_to_all(sends_, recvs_);
}

void Round::decline(Message& message, Header header, std::size_t most_bytes, std::string_view reason) {
  const auto body = message.begin(std::min(reason.size(), most_bytes - sizeof(Header)));
  std::ranges::copy(std::as_bytes(std::span(reason)).first(body.size()), body.begin());
  header.flags = declined;
  message.finish(header, body.size());
}

namespace {

// "rank 2: LATTER rank 3", with the numbers of the whole job.
std::string ranks_of(const Communicator& communicator, std::string_view latter, int peer) {
  return "rank " + std::to_string(communicator.number(communicator.rank())) + ": " + std::string(latter) + " " +
         std::to_string(communicator.number(peer));
}

}  // namespace

// The reason is text of another rank, so only its printable characters are shown.
void Round::tell(const Communicator& communicator, int peer, const MessageView& reason) {
  std::string text;
  for (const std::byte byte : reason.body()) {
    const auto c = std::to_integer<unsigned char>(byte);
    text += c >= 0x20 && c < 0x7F ? static_cast<char>(c) : '?';
  }
  throw NumericError(ranks_of(communicator, "rank", peer) + " could not encode at step " +
                     std::to_string(reason.header().step) + ": " + text);
}

void Round::refuse(const Communicator& communicator, int peer, std::uint32_t step, const WireError& error) {
  throw WireError(ranks_of(communicator, "message of rank", peer) + " at step " + std::to_string(step) + ": " +
                  error.what());
}

}  // namespace sotto
