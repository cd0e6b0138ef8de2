#include "app/train/newcomer_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "sotto/core/error.h"
#include "sotto/core/thread.h"
#include "sotto/core/timer.h"

namespace sotto {
namespace {

// A chunk is a message: its length in bytes, and the bytes.
constexpr std::size_t least_bytes = 1024, most_bytes = std::size_t{1} << 22;
using Length = std::uint64_t;

std::size_t length_of(std::span<const std::byte> message) {
  Length length = 0;
  std::memcpy(&length, message.data(), sizeof length);
  return sizeof length + static_cast<std::size_t>(length);
}

}  // namespace

// Passes on what it visits.
class NewcomerState::Chain final : public StateVisitor {
 public:
  Chain(Communicator& communicator, int donor, const std::vector<int>& newcomers, const std::atomic<bool>& stop)
      : communicator_(communicator), stop_(stop) {
    std::vector<int> ranks = newcomers;
    ranks.insert(ranks.begin(), donor);
    const auto own = std::ranges::find(ranks, communicator.rank());
    is_in_ = own != ranks.end();
    if (!is_in_) return;
    if (own != ranks.begin()) {
      from_ = *(own - 1);
      chunk_ = most_bytes;  // all that it has
    }
    if (own + 1 != ranks.end()) to_ = *(own + 1);
  }
  bool is_in() const { return is_in_; }
  std::uint64_t bytes() const { return bytes_; }

  void visit(std::string_view /*name*/, std::vector<float>& values) override { pass_vector(values); }
  void visit(std::string_view /*name*/, std::vector<std::uint8_t>& bytes) override { pass_vector(bytes); }
  void visit(std::string_view /*name*/, std::uint64_t& value) override {
    pass(std::as_writable_bytes(std::span(&value, 1)));
  }

 private:
  template <class T>
  void pass_vector(std::vector<T>& values) {
    std::uint64_t size = values.size();
    pass(std::as_writable_bytes(std::span(&size, 1)));
    values.resize(size);
    pass(std::as_writable_bytes(std::span(values)));
  }

  // A newcomer receives one chunk, and passes on what it has.
  void pass(std::span<std::byte> bytes) {
    bytes_ += bytes.size();
    std::size_t had = from_ ? 0 : bytes.size(), passed = to_ ? 0 : bytes.size();
    while (had < bytes.size() || passed < bytes.size()) {
      if (stop_) throw CommError("the group changes");
      const std::span<std::byte> next = bytes.subspan(passed, had > passed ? std::min(had - passed, chunk_) : 0);
      if (!next.empty()) fill(out_, next);
      in_.resize(sizeof(Length) + std::min(most_bytes, bytes.size() - had));
      std::array<Send, 1> send{Send{to_.value_or(0), out_}};
      std::array<Recv, 1> recv{Recv{.peer = from_.value_or(0), .buffer = in_, .length = length_of}};
      const Timer timer;
      communicator_.exchange(std::span(send).first(next.empty() ? 0 : 1),
                             std::span(recv).first(had < bytes.size() ? 1 : 0));
      if (!from_) choose_chunk(next.size(), timer.seconds());
      passed += next.size();
      if (had < bytes.size()) had += take(bytes.subspan(had));
    }
  }

  static void fill(std::vector<std::byte>& message, std::span<const std::byte> bytes) {
    const Length length = bytes.size();
    message.resize(sizeof length + bytes.size());
    std::memcpy(message.data(), &length, sizeof length);
    std::ranges::copy(bytes, message.begin() + sizeof length);
  }

  // Returns how many bytes came.
  std::size_t take(std::span<std::byte> room) {
    const std::size_t bytes = length_of(in_) - sizeof(Length);
    if (bytes == 0 || bytes > std::min(room.size(), most_bytes)) {
      throw CommError(fmt::format("rank {} sent a chunk of {} bytes", *from_, bytes));
    }
    std::ranges::copy(std::span(in_).subspan(sizeof(Length), bytes), room.begin());
    return bytes;
  }

  // Messages of training wait behind a chunk, so it should not take much longer than the shortest message.
  void choose_chunk(std::size_t bytes, double seconds) {
    least_seconds_ = std::min(least_seconds_, seconds);
    const double wanted = std::max(0.02, 4 * least_seconds_);
    const double fits = static_cast<double>(bytes) * wanted / std::max(seconds, 1e-6);
    if (bytes < chunk_ && fits > static_cast<double>(chunk_)) return;  // it was the end of a vector
    chunk_ = static_cast<std::size_t>(std::clamp(std::min(fits, 2.0 * static_cast<double>(bytes)),
                                                 static_cast<double>(least_bytes), static_cast<double>(most_bytes)));
  }

  Communicator& communicator_;
  const std::atomic<bool>& stop_;
  bool is_in_ = false;
  std::uint64_t bytes_ = 0;
  std::optional<int> from_, to_;  // the ranks before and after this one in the chain
  std::size_t chunk_ = least_bytes;
  double least_seconds_ = 1;
  std::vector<std::byte> out_, in_;
};

NewcomerState::NewcomerState(std::unique_ptr<Communicator> communicator, int donor, const std::vector<int>& newcomers,
                             const Visit& visit)
    : communicator_(std::move(communicator)) {
  Chain chain(*communicator_, donor, newcomers, stop_);
  if (!chain.is_in()) return;
  visit(state_);  // a newcomer's tells the names
  passing_ = begin_work([this, chain]() mutable {
    try {
      const Timer timer;
      state_.visit_all(chain);
      bytes_ = chain.bytes();
      seconds_ = timer.seconds();
    } catch (const std::exception& error) {
      if (!stop_) communicator_->give_up(error.what());  // otherwise others know why the group changes
      throw;
    }
  });
}

NewcomerState::~NewcomerState() { stop_ = true; }

bool NewcomerState::wait_for(std::chrono::milliseconds time) {
  if (!passing_.valid()) return true;
  if (passing_.wait_for(time) != std::future_status::ready) return false;
  passing_.get();
  return true;
}

void NewcomerState::give(const Visit& visit) {
  state_.give();
  visit(state_);
}

}  // namespace sotto
