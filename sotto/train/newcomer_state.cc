#include "sotto/train/newcomer_state.h"

#include <algorithm>
#include <array>
#include <utility>

namespace sotto {
namespace {

constexpr std::size_t chunk_bytes = std::size_t{1} << 20;
constexpr std::byte goes_on{1}, done{0};  // what the donor tells those that wait

std::span<std::byte> chunk(std::span<std::byte> bytes, std::size_t number) {
  const std::size_t begin = number * chunk_bytes;
  return bytes.subspan(begin, std::min(chunk_bytes, bytes.size() - begin));
}

}  // namespace

NewcomerState::NewcomerState(Communicator& communicator, int donor, std::vector<int> newcomers)
    : communicator_(communicator), donor_(donor), newcomers_(std::move(newcomers)), told_(Clock::now()) {
  if (communicator.rank() == donor) place_ = 0;
  for (int rank = 0; rank < communicator.size(); ++rank) {
    const auto newcomer = std::ranges::find(newcomers_, rank);
    if (newcomer == newcomers_.end() && rank != donor) others_.push_back(rank);
    if (newcomer != newcomers_.end() && rank == communicator.rank()) {
      place_ = 1 + static_cast<int>(newcomer - newcomers_.begin());
    }
  }
}

void NewcomerState::pass(std::span<std::byte> bytes) {
  if (place_ < 0) return;
  const std::size_t chunks = (bytes.size() + chunk_bytes - 1) / chunk_bytes;
  const auto place = static_cast<std::size_t>(place_);
  // In each round a rank receives one chunk and passes on the one before it.
  for (std::size_t round = 0; round < chunks + newcomers_.size() - 1; ++round) {
    std::array<Send, 1> send;
    std::array<Recv, 1> recv;
    const bool sends = place < newcomers_.size() && round >= place && round - place < chunks;
    const bool receives = place > 0 && round + 1 >= place && round + 1 - place < chunks;
    if (sends) send[0] = {newcomers_[place], chunk(bytes, round - place)};
    if (receives)
      recv[0] = {.peer = place == 1 ? donor_ : newcomers_[place - 2], .buffer = chunk(bytes, round + 1 - place)};
    if (!sends && !receives) continue;
    communicator_.exchange(std::span(send).first(sends ? 1 : 0), std::span(recv).first(receives ? 1 : 0));
    if (place == 0 && Clock::now() - told_ > communicator_.deadline() / 4) tell_others(goes_on);
  }
}

void NewcomerState::finish() {
  if (place_ == 0) return tell_others(done);
  if (place_ > 0) return;
  for (std::byte word = goes_on; word != done;) {
    Recv recv{.peer = donor_, .buffer = std::span(&word, 1)};
    communicator_.exchange({}, std::span(&recv, 1));
  }
}

void NewcomerState::tell_others(std::byte word) {
  std::vector<Send> sends;
  for (const int rank : others_) sends.push_back({rank, std::span(&word, 1)});
  communicator_.exchange(sends, {});
  told_ = Clock::now();
}

}  // namespace sotto
