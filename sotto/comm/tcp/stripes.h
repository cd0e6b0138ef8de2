#pragma once

#include <asio/io_context.hpp>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sotto/comm/tcp/frame.h"
#include "sotto/comm/tcp/owner.h"
#include "sotto/comm/tcp/settings.h"

namespace sotto {

// One rank's connections to the others, several to each peer. A long message is cut into one stripe for each
// connection, and all carry theirs at the same time. A short message goes over the first connection, which also
// announces long ones. A TCP connection sends only so much in a round trip, and less after each lost packet; several
// send several times as much. Messages between two ranks come in order. The functions do what those of TcpLines do.
class TcpStripes {
 public:
  static constexpr std::size_t least_stripe = 32 << 10;  // a message with shorter stripes, in bytes, is not cut

  // CommError if this rank cannot listen at the address.
  TcpStripes(asio::io_context& io, int rank, int size, const TcpSettings& settings, TcpOwner& owner);
  ~TcpStripes();
  TcpStripes(const TcpStripes&) = delete;
  TcpStripes& operator=(const TcpStripes&) = delete;

  // Of all lines, for TcpOwner::place_of() of the others.
  std::string place() const;
  void send(int peer, TcpFrame::Kind kind, std::span<const std::byte> data);
  void resume(int peer);
  std::string trouble(int peer) const;
  std::size_t awaited() const;
  void close();

  std::size_t connections() const;  // that are open

 private:
  class Lane;
  struct Peer;

  Peer& peer_of(int peer);
  bool striped(std::size_t length) const;
  void send_over(Lane& lane, int peer, TcpFrame::Kind kind, std::span<const std::byte> data);
  void resume_later(Lane& lane, int peer);

  // What the lanes report.
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

}  // namespace sotto
