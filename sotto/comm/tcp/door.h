#pragma once

#include <asio/io_context.hpp>
#include <asio/ip/address.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/steady_timer.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>

#include "sotto/comm/deadline.h"
#include "sotto/comm/tcp/frame.h"
#include "sotto/comm/tcp/refusals.h"
#include "sotto/comm/tcp/stream.h"
#include "sotto/comm/tcp/through_relay.h"
#include "sotto/comm/tcp/tls.h"
#include "sotto/comm/transport.h"

namespace sotto {

// How a rank and its peers reach each other.
struct TcpSettings {
  TransportOptions options{};      // as the user gave them; the members below follow from these:
  asio::ip::address address;       // where this rank listens, unless there is a relay
  std::shared_ptr<const Tls> tls;  // the secret of all ranks; null: none, and everything can be read on the way
  Deadline deadline{std::chrono::seconds(60)};
  // Peers reach this rank through this relay (relay.h). Through it this rank reaches those peers that have a relay.
  std::optional<asio::ip::tcp::endpoint> relay{};
};

// Where a rank's door is, and what a peer needs to be let in.
struct TcpPlace {
  asio::ip::address address;  // of the rank, or of its relay as the rank sees it
  std::uint16_t port = 0;
  std::optional<RelayId> relay{};  // the number of the door there
  TcpKey key{};
  std::optional<Tls::Fingerprint> secret{};  // of the secret, with the key; nothing: no secret is wanted
};

// For the store in which ranks meet.
std::string text_of(const TcpPlace& place);
TcpPlace read_tcp_place(const std::string& text);  // WireError if it is something else
// The same for a hello, shorter than the text: a byte whose bits say what is there (1: anything, 2: a secret, 4: a
// relay), the port (u16), the key, the fingerprint of the secret, the number at the relay, and the address as text,
// with zeros after it. Reading returns nothing if the hello has no place.
TcpHello::Place packed(const TcpPlace& place);
std::optional<TcpPlace> read_tcp_place(const TcpHello::Place& data);  // WireError if it is something else

// Where a rank listens for its peers. If there is a secret, a new connection must first prove that it knows it, and is
// private from then on. Then it must say which rank it is from, with the key of this door.
// Connections of strangers, and those that send garbage, are closed; the only effect is a line in the log
// (TcpRefusals). At most `most_guests` connections stay open that have not yet sent a hello; a member whose connection
// was closed for that reason tries again. Everything runs on the thread that runs the io_context.
class TcpDoor {
 public:
  static constexpr std::size_t most_guests = 64;
  // Called when the peer hello.from has come. `place` is its own door, if the hello has it. The connection is closed
  // unless the callee keeps `stream`.
  using Enter = std::function<void(const TcpHello& hello, const std::optional<TcpPlace>& place,
                                   std::shared_ptr<TcpStream> stream)>;

  // If settings have a relay, peers come through it. Otherwise listens at settings.address, at a port that the system
  // chooses; CommError if that is not possible.
  TcpDoor(asio::io_context& io, int rank, int size, const TcpSettings& settings, Enter enter);
  ~TcpDoor();
  TcpDoor(const TcpDoor&) = delete;
  TcpDoor& operator=(const TcpDoor&) = delete;

  TcpPlace place() const;
  void close();  // lets no connection in any more

 private:
  struct Guest;
  void accept();
  void receive(asio::ip::tcp::socket socket, const std::string& from);
  void take_proof(const std::shared_ptr<Guest>& guest);
  void hear_hello(const std::shared_ptr<Guest>& guest);
  void take_in(const Guest& guest);
  void refuse(const std::shared_ptr<Guest>& guest, const asio::error_code& error);
  void dismiss(const std::shared_ptr<Guest>& guest);

  int rank_, size_;
  std::shared_ptr<const Tls> tls_;
  TcpKey key_;
  Enter enter_;
  asio::ip::tcp::acceptor acceptor_;          // closed if there is a relay
  asio::steady_timer again_;                  // after an error that may pass
  std::list<std::shared_ptr<Guest>> guests_;  // the oldest first
  TcpRefusals refusals_;
  std::unique_ptr<TcpRelayDoor> relay_;  // null: none; the last member, whose destruction calls nothing
};

}  // namespace sotto
