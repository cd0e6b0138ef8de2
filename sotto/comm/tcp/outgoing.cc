#include "sotto/comm/tcp/outgoing.h"

#include <fmt/format.h>

#include <utility>

#include "sotto/kernels/checksum.h"

namespace sotto {

TcpOutgoing::Parts TcpOutgoing::next() {
  if (unit_ != Unit::none) return rest_;
  drop();
  unit_ = choose();
  switch (unit_) {
    case Unit::none: return {};
    case Unit::word:
      write_frame(word_, head_);
      has_word_ = false;
      return rest_ = {head_, {}};
    case Unit::again: {
      const auto frame = std::span<const std::byte>(kept_).subspan(again_at_);
      return rest_ = {frame.first(read_tcp_frame(frame, next_).all_bytes()), {}};
    }
    case Unit::piece:
      write_frame(head(next_), head_);
      begun_ = std::max(begun_, next_ + 1);
      return rest_ = {head_, piece(next_)};
  }
  return {};
}

TcpOutgoing::Unit TcpOutgoing::choose() {
  if (has_word_) return Unit::word;
  if (next_ < first_) return Unit::again;
  if (letters_.empty() || (next_ == first_ && kept_bytes() >= most_kept)) return Unit::none;
  return Unit::piece;
}

std::size_t TcpOutgoing::written(std::size_t bytes) {
  for (auto& part : rest_) {
    const std::size_t count = std::min(bytes, part.size());
    part = part.subspan(count);
    bytes -= count;
  }
  if (!rest_[0].empty() || !rest_[1].empty()) return 0;
  const Unit done = std::exchange(unit_, Unit::none);
  if (done == Unit::word) return 0;
  if (done == Unit::again) again_at_ += read_tcp_frame(std::span(kept_).subspan(again_at_), next_).all_bytes();
  ++next_;
  if (done == Unit::again || next_ < first_ + pieces_of(letters_.front().data.size())) return 0;
  keep();
  end_letter();
  return 1;
}

void TcpOutgoing::acknowledge(std::uint64_t due) {
  const std::uint64_t most = next_ + (unit_ == Unit::again || unit_ == Unit::piece ? 1 : 0);
  if (due < acknowledged_ || due > most) refuse(due, acknowledged_, most);
  acknowledged_ = due;
  if (unit_ == Unit::none) drop();
}

std::size_t TcpOutgoing::begin_again(std::uint64_t due) {
  if (due < acknowledged_ || due > begun_) refuse(due, acknowledged_, begun_);
  unit_ = Unit::none;
  has_word_ = false;
  acknowledged_ = next_ = due;
  drop();
  again_at_ = kept_begin_;
  std::size_t complete = 0;
  while (!letters_.empty() && due >= first_ + pieces_of(letters_.front().data.size())) {
    first_ += pieces_of(letters_.front().data.size());
    kept_first_ = first_;
    end_letter();
    ++complete;
  }
  return complete;
}

std::span<const std::byte> TcpOutgoing::piece(std::uint64_t number) const {
  const auto rest = letters_.front().data.subspan((number - first_) * TcpFrame::piece);
  return rest.first(std::min(rest.size(), TcpFrame::piece));
}

// A piece is summed just before it is handed to the system, which then finds it in the processor's cache.
TcpFrame TcpOutgoing::head(std::uint64_t number) {
  const Letter& letter = letters_.front();
  const auto kind = number == first_ ? letter.kind : TcpFrame::Kind::more;
  const std::uint64_t at = number - first_;
  while (crcs_.size() <= at) crcs_.push_back(kernels::crc32(0, piece(first_ + crcs_.size())));
  return {kind, number, letter.data.size() - at * TcpFrame::piece, crcs_[at]};
}

// Copies those frames of the first letter that are not acknowledged. All of the letter was written.
void TcpOutgoing::keep() {
  drop();
  if (kept_begin_ > kept_bytes()) {
    kept_.erase(kept_.begin(), kept_.begin() + static_cast<std::ptrdiff_t>(kept_begin_));
    kept_begin_ = 0;
  }
  if (acknowledged_ > first_) kept_first_ = acknowledged_;
  for (std::uint64_t number = std::max(first_, acknowledged_); number < next_; ++number) {
    std::array<std::byte, TcpFrame::bytes> bytes{};
    write_frame(head(number), bytes);
    kept_.insert(kept_.end(), bytes.begin(), bytes.end());
    const auto data = piece(number);
    kept_.insert(kept_.end(), data.begin(), data.end());
  }
  first_ = next_;
}

void TcpOutgoing::end_letter() {
  letters_.pop_front();
  crcs_.clear();
}

// Forgets kept frames that are acknowledged. Not called while one of them is being written.
void TcpOutgoing::drop() {
  for (; kept_first_ < std::min(first_, acknowledged_); ++kept_first_) {
    kept_begin_ += read_tcp_frame(std::span(kept_).subspan(kept_begin_), kept_first_).all_bytes();
  }
  if (kept_bytes() > 0) return;
  kept_.clear();
  kept_begin_ = 0;
}

void TcpOutgoing::refuse(std::uint64_t due, std::uint64_t from, std::uint64_t to) {
  throw WireError(fmt::format("it says that frame {} is due, which must be one of {} to {}", due, from, to));
}

}  // namespace sotto
