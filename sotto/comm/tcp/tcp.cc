#include "sotto/comm/tcp/tcp.h"

#include <fmt/format.h>

#include <asio/io_context.hpp>
#include <asio/ip/address.hpp>
#include <asio/steady_timer.hpp>
#include <exception>

#include "sotto/comm/interfaces.h"
#include "sotto/comm/tcp/door.h"
#include "sotto/comm/tcp/peers.h"
#include "sotto/comm/tcp/through_relay.h"

namespace sotto {
namespace {

constexpr std::chrono::seconds patience(2);  // how long a rank that ends waits for acknowledgements

class TcpCommunicator final : public Communicator, private TcpOwner {
 public:
  // Ranks find each other in this section of the meeting; all must use the same name.
  TcpCommunicator(std::shared_ptr<Meeting> meeting, const std::string& section, const TcpSettings& settings, int rank,
                  int size)
      : Communicator(rank, size, settings.deadline),
        meeting_(std::move(meeting)),
        places_(meeting_, section),
        settings_(settings),
        connections_(make_tcp_peers(io_, rank, size, settings, *this)),
        due_(io_),
        peers_(static_cast<std::size_t>(size)) {
    places_.leave(rank, connections_->place());
  }

  // Peers may still acknowledge what they have read, unless they are busy with something else.
  ~TcpCommunicator() override {
    const auto end = Clock::now() + deadline();
    auto until = std::min(Clock::now() + patience, end);
    for (std::size_t left = connections_->awaited(); !failure_ && left > 0 && Clock::now() < until;) {
      io_.run_one_until(until);
      const std::size_t before = std::exchange(left, connections_->awaited());
      if (left < before) until = std::min(Clock::now() + patience, end);
    }
  }
  TcpCommunicator(const TcpCommunicator&) = delete;
  TcpCommunicator& operator=(const TcpCommunicator&) = delete;

  std::string_view name() const override { return "tcp"; }

  void require_same(std::uint64_t mark, std::string_view otherwise) override {
    mark_ = mark;
    otherwise_ = otherwise;
    for (Peer& peer : peers_) peer.told = peer.asked = false;
  }

  // Others notice the closed connections, and find the reason in the store.
  void give_up(const std::string& reason) override {
    if (failure_) return;  // they know
    failure_ = {-1, reason};
    meeting_->give_up(reason);
    connections_->close();
  }

 private:
  struct Peer {
    std::vector<Recv*> expected;  // in this exchange; the first `arrived` of them are complete
    std::size_t arrived = 0;
    std::size_t unsent = 0;          // messages that were not handed to the system yet
    std::uint64_t held_in = 0;       // the last pass of start_due() in which a message to this peer had to wait
    bool told = true, asked = true;  // whether marks were sent and expected since require_same()
    std::uint64_t mark = 0;          // the last mark received
    Recv its_mark{};
    Send own_mark{};
  };
  struct Failure {
    int peer = -1;
    std::string reason;
  };

  Peer& of(int peer) { return peers_[static_cast<std::size_t>(peer)]; }

  void do_exchange(std::span<const Send> sends, std::span<Recv> recvs) override {
    if (failure_) fail(operation(), failure_->peer, "an operation failed before: " + failure_->reason);
    until_ = Clock::now() + deadline();
    left_ = sends.size() + recvs.size();
    for (Recv& recv : recvs) {
      expect_mark(recv.peer);
      of(recv.peer).expected.push_back(&recv);
    }
    for (const Send& send : sends) {
      send_mark(send.peer);
      ++of(send.peer).unsent;
      waiting_.push_back(&send);
    }
    for (const Recv& recv : recvs) connections_->resume(recv.peer);
    try {
      carry();
    } catch (const std::exception& error) {  // no memory, for one: nothing may write to `recvs` later
      failure_ = {-1, error.what()};
      connections_->close();
      throw;
    }
    if (failure_) give_up_exchange();
    for (const Recv& recv : recvs) {
      of(recv.peer).expected.clear();
      of(recv.peer).arrived = 0;
    }
  }

  // The first message in a direction after require_same() is preceded by a mark.
  void expect_mark(int number) {
    Peer& peer = of(number);
    if (std::exchange(peer.asked, true)) return;
    peer.its_mark = {number, std::as_writable_bytes(std::span(&peer.mark, 1))};
    peer.expected.push_back(&peer.its_mark);
    ++left_;
    traffic_.bytes_received += sizeof(peer.mark);
  }
  void send_mark(int number) {
    Peer& peer = of(number);
    if (std::exchange(peer.told, true)) return;
    peer.own_mark = {number, std::as_bytes(std::span(&mark_, 1))};
    waiting_.push_back(&peer.own_mark);
    ++peer.unsent;
    ++left_;
    traffic_.bytes_sent += sizeof(mark_);
    ++traffic_.messages_sent;
  }

  // Runs the connections until the exchange is complete or has failed.
  void carry() {
    while (true) {
      if (!waiting_.empty()) start_due();
      if (left_ == 0 || failure_) return;
      if (Clock::now() >= until_) return time_out();
      io_.run_one_until(until_);
    }
  }

  // Starts the sends whose time has come; those to one peer stay in order.
  void start_due() {
    const auto now = Clock::now();
    auto next = Clock::time_point::max();
    ++pass_;
    std::erase_if(waiting_, [&](const Send* send) {
      Peer& peer = of(send->peer);
      if (peer.held_in == pass_) return false;
      if (send->not_before <= now) {
        connections_->send(send->peer, TcpFrame::Kind::message, send->data);
        return true;
      }
      peer.held_in = pass_;
      next = std::min(next, send->not_before);
      return false;
    });
    if (waiting_.empty() || next == due_.expiry()) return;
    due_.expires_at(next);
    due_.async_wait([](const asio::error_code&) {});
  }

  void time_out() {
    const auto late = [](const Peer& peer) { return peer.arrived < peer.expected.size(); };
    auto found = std::ranges::find_if(peers_, late);
    if (found == peers_.end()) found = std::ranges::find_if(peers_, [](const Peer& peer) { return peer.unsent > 0; });
    const int peer = static_cast<int>(found - peers_.begin());
    const std::string trouble = connections_->trouble(peer);
    failure_ = {peer, fmt::format("timed out after {:g} s{}{}", std::chrono::duration<double>(deadline()).count(),
                                  trouble.empty() ? "" : ": ", trouble)};
  }

  // The memory of the messages belongs to the caller, so no operation may use it when the caller learns of the failure.
  [[noreturn]] void give_up_exchange() {
    const std::string cause = meeting_->report(failure_->peer, failure(operation(), failure_->peer, failure_->reason));
    connections_->close();
    fail(operation(), failure_->peer, reason_with(failure_->reason, cause));
  }

  std::unique_ptr<Communicator> do_clone() override {
    return std::make_unique<TcpCommunicator>(meeting_, meeting_->next_name("tcp"), settings_, rank(), size());
  }

  std::unique_ptr<Mailbox> do_open_mailbox(std::size_t max_bytes) override {
    return make_tcp_mailbox(meeting_, meeting_->next_name("mail"), settings_, rank(), size(), max_bytes);
  }

  std::optional<std::string> place_of(int peer) override { return places_.find(peer, until_); }

  std::optional<std::span<std::byte>> room_for(int from, const TcpFrame& frame) override {
    if (frame.kind != TcpFrame::Kind::message) {
      throw WireError(fmt::format("a frame of kind {} came, which is no message", static_cast<int>(frame.kind)));
    }
    Peer& peer = of(from);
    if (peer.arrived == peer.expected.size()) return std::nullopt;
    const std::span<std::byte> room = peer.expected[peer.arrived]->buffer;
    if (frame.length > room.size()) {
      throw WireError(fmt::format("a message of {} bytes for a room of {}", frame.length, room.size()));
    }
    return room.first(static_cast<std::size_t>(frame.length));
  }

  bool received(int from, const TcpFrame& /*frame*/) override {
    Peer& peer = of(from);
    Recv* const recv = peer.expected[peer.arrived++];
    recv->arrived = Clock::now();
    --left_;
    if (recv == &peer.its_mark && peer.mark != mark_ && !failure_) failure_ = {from, std::string(otherwise_)};
    return true;
  }

  void sent(int to) override {
    --of(to).unsent;
    --left_;
  }

  // Peers may end before others. Only ranks that still need such a peer fail.
  void lost(int peer, const std::string& reason) override {
    const bool needed = of(peer).arrived < of(peer).expected.size() || of(peer).unsent > 0;
    if (needed && !failure_) failure_ = {peer, reason};
  }

  std::shared_ptr<Meeting> meeting_;
  TcpPlaces places_;
  TcpSettings settings_;
  asio::io_context io_{1};
  std::unique_ptr<TcpPeers> connections_;
  asio::steady_timer due_;          // when the next message that waits for its time may leave
  std::optional<Failure> failure_;  // permanent: ranks are out of step
  std::uint64_t mark_ = 0;          // of require_same()
  std::string_view otherwise_;

  // For the current exchange; kept, so that a step allocates nothing.
  Clock::time_point until_;
  std::size_t left_ = 0;              // messages that are not complete
  std::vector<const Send*> waiting_;  // messages that wait for their time
  std::uint64_t pass_ = 0;
  std::vector<Peer> peers_;
};

// The address to listen at: the one in the options, or the one from which packets go to the host of the store.
// ConfigError if everybody could read what is sent there.
asio::ip::address own_address(const World& world, const TransportOptions& options, bool is_private) {
  std::string said = options.address == "localhost" ? "127.0.0.1" : options.address;
  if (!options.interface.empty()) {
    const Interface interface = require_interface(options.interface);
    if (interface.addresses.empty()) {
      throw ConfigError(fmt::format("{}: it has no address", named("interface", options.interface)));
    }
    said = interface.addresses.front();
  }
  const bool chosen_here = said.empty();  // near_address() returns the loopback only if the ranks meet there
  if (chosen_here) said = near_address(world, options.connect_deadline, options.stop);
  asio::error_code unreadable;
  const auto address = asio::ip::make_address(said, unreadable);
  if (unreadable) throw ConfigError(fmt::format("{}: it is no numeric address", named("address", said)));
  if (address.is_loopback() && !chosen_here && world.local_size < world.size) {
    throw ConfigError(fmt::format("{}: ranks on other hosts cannot come there", named("address", said)));
  }
  if (address.is_loopback() || is_private) return address;
  throw ConfigError(fmt::format(
      "{}: ranks would meet at {}, where others can read and change what they send; give all ranks the same {} "
      "(`sotto secret new FILE` makes one), or choose {}",
      named("backend", "tcp"), said, named("secret"), named("backend", "gloo")));
}

}  // namespace

std::unique_ptr<Communicator> connect_tcp(const World& world, const TransportOptions& options) {
  const std::string& secret = options.secret.empty() ? world.secret : options.secret;
  TcpSettings settings{.options = options, .address = {}, .tls = nullptr, .deadline = options.deadline};
  if (!secret.empty()) settings.tls = std::make_shared<const Tls>(read_secret(secret));
  if (options.relay.empty()) {
    settings.address = own_address(world, options, settings.tls != nullptr);
  } else {
    const std::string said = named("relay", options.relay);
    if (!settings.tls) {
      throw ConfigError(
          fmt::format("{}: the relay, and others on the way, could read and change what ranks send; give "
                      "all ranks the same {} (`sotto secret new FILE` makes one)",
                      said, named("secret")));
    }
    settings.relay = find_relay(said, options.relay, options.connect_deadline, options.stop);
  }
  auto meeting = std::make_shared<Meeting>(world, "tcp", options.connect_deadline, options.stop);
  return connect_tcp(std::move(meeting), settings, world.rank, world.size);
}

std::unique_ptr<Communicator> connect_tcp(std::shared_ptr<Meeting> meeting, const TcpSettings& settings, int rank,
                                          int size) {
  return std::make_unique<TcpCommunicator>(std::move(meeting), "tcp", settings, rank, size);
}

}  // namespace sotto
