// Several connections to each peer, which share long messages.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <asio/post.hpp>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sotto/comm/tcp/lines.h"
#include "sotto/comm/tcp/peers.h"
#include "sotto/core/bytes.h"
#include "sotto/core/error.h"

namespace sotto {
namespace {

using Length = std::array<std::byte, sizeof(std::uint64_t)>;  // of a long message: what its announcement says

Length write_length(std::uint64_t length) {
  Length bytes{};
  ByteWriter(bytes).put(length);
  return bytes;
}

// The stripes of a message are equally long, but the last one may be shorter. Stripe `lane` ends where the next one
// begins.
std::size_t stripe_begin(std::size_t whole, std::size_t lane, std::size_t lanes) {
  return std::min(lane * ((whole + lanes - 1) / lanes), whole);
}

template <class Byte>
std::span<Byte> stripe_of(std::span<Byte> whole, std::size_t lane, std::size_t lanes) {
  const std::size_t begin = stripe_begin(whole.size(), lane, lanes);
  return whole.subspan(begin, stripe_begin(whole.size(), lane + 1, lanes) - begin);
}

class TcpStripes final : public TcpPeers {
 public:
  TcpStripes(asio::io_context& io, int rank, int size, const TcpSettings& settings, TcpOwner& owner);

  std::string place() const override;
  void send(int peer, TcpFrame::Kind kind, std::span<const std::byte> data) override;
  void resume(int peer) override;
  std::string trouble(int peer) const override;
  std::size_t awaited() const override;
  void close() override;
  std::size_t connections() const override;

 private:
  class Lane;
  struct Peer;

  Peer& peer_of(int peer);
  bool striped(std::size_t length) const { return length >= lanes_.size() * least_stripe; }
  void send_over(Lane& lane, int peer, TcpFrame::Kind kind, std::span<const std::byte> data);
  void resume_later(Lane& lane, int peer);

  // Called by the lanes.
  std::optional<std::span<std::byte>> room_for(const Lane& lane, int peer, const TcpFrame& frame);
  bool received(const Lane& lane, int peer, const TcpFrame& frame);
  void sent(const Lane& lane, int peer);
  void lost(const Lane& lane, int peer, const std::string& reason);

  void lose_if_needed(int peer);

  asio::io_context& io_;
  TcpOwner& owner_;
  std::vector<std::unique_ptr<Peer>> peers_;  // by rank; null: not used yet
  std::vector<std::unique_ptr<Lane>> lanes_;
};

struct TcpStripes::Peer {
  struct Letter {
    std::size_t unsent;  // its parts that were not sent yet
    Length length;
  };
  // A long message that was announced.
  struct Whole {
    std::size_t length;
    std::size_t left;                          // stripes that have not arrived
    std::optional<std::span<std::byte>> room;  // once the owner has given it
    TcpFrame::Kind kind = TcpFrame::Kind::message;
  };
  // What one lane does for this peer.
  struct Way {
    std::deque<Letter*> sending;  // the letter of each part that the lane was told to send
    bool arrived = false;         // its stripe of the long message has arrived
    std::string lost;             // why it is lost; empty: it is not
    bool used = false;            // something was sent over it, or was to come
  };

  explicit Peer(std::size_t lanes) : ways(lanes) {}
  // Whether something is to go or to come over this way.
  bool needs(const Way& way) const {
    const bool expected = whole ? !way.arrived : &way == &ways.front();
    return expected || !way.sending.empty();
  }

  std::string places;          // of its lanes; empty: not known yet
  std::deque<Letter> letters;  // letters that were not reported to the owner as sent
  Length length{};             // of the message that is being announced
  std::optional<Whole> whole;
  std::vector<Way> ways;  // by lane
  std::string lost;
};

// The first connections to all peers, or the second ones, and so on.
class TcpStripes::Lane final : private TcpOwner {
 public:
  Lane(TcpStripes& all, std::size_t number, asio::io_context& io, int rank, int size, const TcpSettings& settings)
      : lines(io, rank, size, settings, *this, number), all_(all), number_(number) {}

  std::size_t number() const { return number_; }
  TcpLines lines;

 private:
  std::optional<std::string> place_of(int peer) override {
    std::string& places = all_.peer_of(peer).places;
    if (places.empty()) places = all_.owner_.place_of(peer).value_or("");
    return places;
  }
  std::optional<std::span<std::byte>> room_for(int peer, const TcpFrame& frame) override {
    return all_.room_for(*this, peer, frame);
  }
  bool received(int peer, const TcpFrame& frame) override { return all_.received(*this, peer, frame); }
  void sent(int peer) override { all_.sent(*this, peer); }
  void lost(int peer, const std::string& reason) override { all_.lost(*this, peer, reason); }

  TcpStripes& all_;
  std::size_t number_;
};

TcpStripes::TcpStripes(asio::io_context& io, int rank, int size, const TcpSettings& settings, TcpOwner& owner)
    : io_(io), owner_(owner), peers_(static_cast<std::size_t>(size)) {
  for (std::size_t i = 0; i < static_cast<std::size_t>(settings.options.streams); ++i) {
    lanes_.push_back(std::make_unique<Lane>(*this, i, io, rank, size, settings));
  }
}

TcpStripes::Peer& TcpStripes::peer_of(int peer) {
  auto& found = peers_.at(static_cast<std::size_t>(peer));
  if (!found) found = std::make_unique<Peer>(lanes_.size());
  return *found;
}

std::string TcpStripes::place() const {
  std::string text;
  for (const auto& lane : lanes_) text += (text.empty() ? "" : "\n") + lane->lines.place();
  return text;
}

void TcpStripes::send(int peer, TcpFrame::Kind kind, std::span<const std::byte> data) {
  Peer& to = peer_of(peer);
  if (!to.lost.empty()) return owner_.lost(peer, to.lost);
  if (!striped(data.size())) {
    to.letters.push_back({1, {}});
    return send_over(*lanes_.front(), peer, kind, data);
  }
  to.letters.push_back({1 + lanes_.size(), write_length(data.size())});
  send_over(*lanes_.front(), peer, TcpFrame::Kind::stripes, to.letters.back().length);
  for (const auto& lane : lanes_) {
    if (!to.lost.empty()) return;
    send_over(*lane, peer, kind, stripe_of(data, lane->number(), lanes_.size()));
  }
}

void TcpStripes::send_over(Lane& lane, int peer, TcpFrame::Kind kind, std::span<const std::byte> data) {
  Peer& to = peer_of(peer);
  to.ways[lane.number()].sending.push_back(&to.letters.back());
  to.ways[lane.number()].used = true;
  lane.lines.send(peer, kind, data);
}

// All messages come, or are announced, over the first lane. The other lanes connect when it has announced a message.
void TcpStripes::resume(int peer) {
  const Peer& from = peer_of(peer);
  if (!from.lost.empty()) return owner_.lost(peer, from.lost);
  for (const auto& lane : lanes_) {
    if (!from.lost.empty()) return;
    const Peer::Way& way = from.ways[lane->number()];
    if (lane == lanes_.front() || (way.used && way.lost.empty())) lane->lines.resume(peer);
  }
}

// Not at once: resume() may lose the lane and with it all lanes, and one of them may be in the middle of its work.
void TcpStripes::resume_later(Lane& lane, int peer) {
  asio::post(io_, [this, &lane, peer] {
    const Peer& from = peer_of(peer);
    if (from.lost.empty() && from.ways[lane.number()].lost.empty()) lane.lines.resume(peer);
  });
}

std::string TcpStripes::trouble(int peer) const {
  const auto& of = peers_.at(static_cast<std::size_t>(peer));
  for (const auto& lane : lanes_) {
    std::string text = of && of->needs(of->ways[lane->number()]) ? lane->lines.trouble(peer) : "";
    if (!text.empty()) return text;
  }
  return "";
}

std::size_t TcpStripes::awaited() const {
  std::size_t bytes = 0;
  for (const auto& lane : lanes_) bytes += lane->lines.awaited();
  return bytes;
}

std::size_t TcpStripes::connections() const {
  std::size_t count = 0;
  for (const auto& lane : lanes_) count += lane->lines.connections();
  return count;
}

void TcpStripes::close() {
  for (const auto& lane : lanes_) lane->lines.close();
}

// The first lane's next message waits until all stripes of the present one have come, since messages come in order.
std::optional<std::span<std::byte>> TcpStripes::room_for(const Lane& lane, int peer, const TcpFrame& frame) {
  Peer& from = peer_of(peer);
  const bool first = lane.number() == 0;
  auto& whole = from.whole;
  if (from.ways[lane.number()].arrived || (!first && (!whole || !whole->room))) return std::nullopt;
  if (frame.kind == TcpFrame::Kind::stripes) {
    if (!first || whole || frame.length != sizeof(Length))
      throw WireError("it announces a message where none may come");
    return from.length;
  }
  if (!whole) return owner_.room_for(peer, frame);
  const std::size_t number = lane.number(), begin = stripe_begin(whole->length, number, lanes_.size());
  const std::size_t length = stripe_begin(whole->length, number + 1, lanes_.size()) - begin;
  if (frame.length != length) {
    throw WireError(fmt::format("a stripe of {} bytes came where {} were due", frame.length, length));
  }
  if (first) {
    whole->room = owner_.room_for(peer, {frame.kind, frame.sequence, whole->length});
    if (!whole->room) return std::nullopt;
    whole->kind = frame.kind;
    for (std::size_t i = 1; i < lanes_.size(); ++i) {
      from.ways[i].used = true;
      resume_later(*lanes_[i], peer);
    }
  }
  if (frame.kind != whole->kind) throw WireError("the stripes of a message are of different kinds");
  return whole->room->subspan(begin, length);
}

bool TcpStripes::received(const Lane& lane, int peer, const TcpFrame& frame) {
  Peer& from = peer_of(peer);
  if (frame.kind == TcpFrame::Kind::stripes) {
    const auto length = ByteReader(from.length).get<std::uint64_t>("length");
    if (!striped(length))
      throw WireError(fmt::format("it announces a message of {} bytes, which has no stripes", length));
    from.whole = {.length = length, .left = lanes_.size(), .room = std::nullopt};
    lose_if_needed(peer);
    return true;
  }
  if (!from.whole) return owner_.received(peer, frame);
  from.ways[lane.number()].arrived = true;
  from.whole->left -= 1;
  if (from.whole->left > 0) return true;
  const std::size_t length = std::exchange(from.whole, std::nullopt)->length;
  for (Peer::Way& way : from.ways) way.arrived = false;
  const bool goes_on = owner_.received(peer, {frame.kind, frame.sequence, length});
  lose_if_needed(peer);
  resume_later(*lanes_.front(), peer);
  return goes_on;
}

void TcpStripes::sent(const Lane& lane, int peer) {
  Peer& to = peer_of(peer);
  auto& sending = to.ways[lane.number()].sending;
  sending.front()->unsent -= 1;
  sending.pop_front();
  while (!to.letters.empty() && to.letters.front().unsent == 0) {
    to.letters.pop_front();
    owner_.sent(peer);
  }
}

void TcpStripes::lost(const Lane& lane, int peer, const std::string& reason) {
  Peer& of = peer_of(peer);
  if (!of.lost.empty()) return;
  of.ways[lane.number()].lost = reason;
  lose_if_needed(peer);
}

// A peer that ends closes its connections in any order, and data that it sent over one of them may still be unread. The
// loss of a lane therefore matters only once something is to go or to come over it.
void TcpStripes::lose_if_needed(int peer) {
  Peer& of = peer_of(peer);
  const auto found = std::ranges::find_if(of.ways, [&](const auto& way) { return !way.lost.empty() && of.needs(way); });
  if (!of.lost.empty() || found == of.ways.end()) return;
  of.lost = found->lost;
  for (const auto& lane : lanes_) lane->lines.lose(peer, of.lost);
  of.letters.clear();
  for (Peer::Way& way : of.ways) way.sending.clear();
  of.whole.reset();
  owner_.lost(peer, of.lost);
}

}  // namespace

std::unique_ptr<TcpPeers> make_tcp_peers(asio::io_context& io, int rank, int size, const TcpSettings& settings,
                                         TcpOwner& owner) {
  if (settings.options.streams == 1) return std::make_unique<TcpLines>(io, rank, size, settings, owner);
  return std::make_unique<TcpStripes>(io, rank, size, settings, owner);
}

}  // namespace sotto
