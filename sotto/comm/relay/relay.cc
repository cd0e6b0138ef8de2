#include "sotto/comm/relay/relay.h"

#include <fmt/format.h>

#include <asio/buffer.hpp>
#include <asio/error.hpp>
#include <asio/read.hpp>
#include <asio/steady_timer.hpp>
#include <asio/write.hpp>
#include <deque>
#include <list>
#include <map>
#include <set>

#include "sotto/comm/interfaces.h"
#include "sotto/comm/relay/connection.h"
#include "sotto/comm/relay/word.h"
#include "sotto/comm/tcp/socket.h"

namespace sotto {
namespace {

using Tcp = asio::ip::tcp;
using Kind = RelayWord::Kind;

constexpr std::chrono::milliseconds pause(20);  // after an error of the listening socket
// At first this many connections may close without a line in the log: a rank closes one if its peer's connection came
// first.
constexpr std::size_t most_silent = 64;
constexpr std::size_t most_gone = 1 << 16;  // doors that are remembered to have gone

}  // namespace

struct Relay::Impl : std::enable_shared_from_this<Impl> {
  Impl(asio::io_context& io, const Tcp::endpoint& endpoint, const RelaySettings& settings, TcpRefusals::Say say)
      : io_(io),
        settings_(settings),
        acceptor_(io),
        again_(io),
        refusals_(std::in_place, "relay", most_silent, std::move(say)) {
    try {
      acceptor_.open(endpoint.protocol());
      acceptor_.set_option(Tcp::acceptor::reuse_address(true));
      acceptor_.bind(endpoint);
      acceptor_.listen();
    } catch (const std::system_error& error) {
      throw CommError(fmt::format("cannot listen at {} port {}: {}", endpoint.address().to_string(), endpoint.port(),
                                  error.code().message()));
    }
  }

  using Shared = std::shared_ptr<RelayConnection>;
  // A door that is served, or was until a moment ago. Its guests wait to be taken.
  struct Door {
    explicit Door(asio::io_context& io) : grace(io) {}
    Shared control;  // null: it broke
    asio::steady_timer grace;
    std::list<Shared> guests;  // the oldest first
  };

  void accept();
  void close();
  std::size_t pairs() const { return carried_.size() / 2; }
  void welcome(Tcp::socket socket);
  void hear(const Shared& connection);
  void serve(const Shared& control, const RelayId& id);
  void hear_more(const Shared& control);
  void end_service(const Shared& control, const asio::error_code& error);
  void call(const Shared& guest, const RelayId& id);
  void announce(Door& door, const Shared& guest);
  void take(const Shared& taker, const RelayId& token);
  void forward(const Shared& from, const Shared& to);
  void part(const Shared& one, const Shared& other);
  void forget(const RelayId& id, Kind answer);
  void send_away(const Shared& connection, Kind answer, const RelayId& id);
  void dismiss(const Shared& connection);

  asio::io_context& io_;
  RelaySettings settings_;
  Tcp::acceptor acceptor_;
  asio::steady_timer again_;
  std::optional<TcpRefusals> refusals_;  // until the relay is closed
  std::list<Shared> waiting_;            // that have said nothing yet, and guests; the oldest first
  std::map<RelayId, Shared> guests_;
  std::map<RelayId, std::shared_ptr<Door>> doors_;
  std::set<RelayId> gone_;
  std::deque<RelayId> gone_since_;  // the oldest first
  std::set<Shared> carried_;
};

void Relay::Impl::accept() {
  acceptor_.async_accept([self = shared_from_this()](const asio::error_code& error, Tcp::socket socket) {
    if (!self->acceptor_.is_open()) return;
    if (!error) {
      self->welcome(std::move(socket));
      return self->accept();
    }
    // There may be too many open files: the connection that has waited longest gives way.
    self->refusals_->add("whoever connects", error.message());
    if (!self->waiting_.empty()) self->dismiss(Shared(self->waiting_.front()));
    self->again_.expires_after(pause);
    self->again_.async_wait([self](const asio::error_code& stopped) {
      if (!stopped && self->acceptor_.is_open()) self->accept();
    });
  });
}

void Relay::Impl::close() {
  asio::error_code ignored;
  acceptor_.close(ignored);
  again_.cancel();
  for (const auto& [id, door] : std::exchange(doors_, {})) {
    door->grace.cancel();
    if (door->control) dismiss(Shared(door->control));
  }
  while (!waiting_.empty()) dismiss(Shared(waiting_.front()));
  while (!carried_.empty()) dismiss(Shared(*carried_.begin()));
  refusals_.reset();
}

void Relay::Impl::welcome(Tcp::socket socket) {
  if (waiting_.size() >= settings_.most_waiting) {
    const Shared oldest = waiting_.front();
    if (!oldest->guest) refusals_->add(oldest->from, "it said nothing, and many others came");
    dismiss(oldest);
  }
  const auto connection = std::make_shared<RelayConnection>(std::move(socket));
  waiting_.push_back(connection);
  connection->patience.expires_after(settings_.patience);
  connection->patience.async_wait([self = shared_from_this(), connection](const asio::error_code& stopped) {
    if (stopped || connection->heard || connection->closed) return;
    self->refusals_->add(connection->from, "it did not say what it wants");
    self->dismiss(connection);
  });
  hear(connection);
}

void Relay::Impl::hear(const Shared& connection) {
  asio::async_read(connection->socket, asio::buffer(connection->word), RelayConnection::Rest{connection},
                   [self = shared_from_this(), connection](const asio::error_code& error, std::size_t) {
                     if (connection->closed) return;
                     if (is_closed(error)) {
                       self->refusals_->add_silent(connection->from);
                       return self->dismiss(connection);
                     }
                     try {
                       if (error) throw WireError(error.message());
                       const RelayWord word = read_relay_word(connection->word);
                       connection->heard = true;
                       connection->patience.cancel();
                       self->waiting_.remove(Shared(connection));
                       switch (word.kind) {
                         case Kind::ask: return self->send_away(connection, Kind::here, word.id);
                         case Kind::serve: return self->serve(connection, word.id);
                         case Kind::call: return self->call(connection, word.id);
                         case Kind::take: return self->take(connection, word.id);
                         default: throw WireError("it begins with a word that only a relay says");
                       }
                     } catch (const WireError& wrong) {
                       self->refusals_->add(connection->from, wrong.what());
                       self->dismiss(connection);
                     }
                   });
}

// A later connection takes over the door: the rank knows that its former one broke, even if the relay does not.
void Relay::Impl::serve(const Shared& control, const RelayId& id) {
  auto& door = doors_[id];
  if (!door && doors_.size() > settings_.most_doors) {
    doors_.erase(id);
    refusals_->add(control->from, fmt::format("{} doors are served already", settings_.most_doors));
    return dismiss(control);
  }
  if (!door) door = std::make_shared<Door>(io_);
  const std::shared_ptr<Door> kept = door;
  kept->grace.cancel();
  if (const Shared before = std::exchange(kept->control, control)) dismiss(before);
  if (gone_.erase(id) > 0) std::erase(gone_since_, id);
  control->door = id;
  for (const Shared& guest : std::list<Shared>(kept->guests)) announce(*kept, guest);
  hear_more(control);
}

void Relay::Impl::hear_more(const Shared& control) {
  asio::async_read(control->socket, asio::buffer(control->word),
                   [self = shared_from_this(), control](const asio::error_code& error, std::size_t) {
                     if (control->closed) return;
                     if (error) return self->end_service(control, error);
                     try {
                       const Kind kind = read_relay_word(control->word).kind;
                       if (kind == Kind::leave) return self->forget(RelayId(control->door), Kind::gone);
                       if (kind != Kind::ask) throw WireError("a word that its server may not say");
                       if (!control->say(Kind::here, control->door)) throw WireError("it does not read the answers");
                       self->hear_more(control);
                     } catch (const WireError& wrong) {
                       self->refusals_->add(control->from, wrong.what());
                       self->end_service(control, asio::error::eof);
                     }
                   });
}

// A connection closes when its rank has ended, but also when somebody cuts it. In the latter case the rank comes again,
// unless it is busy. The relay therefore waits a moment before it says that the rank has gone.
void Relay::Impl::end_service(const Shared& control, const asio::error_code& error) {
  const RelayId id = control->door;
  const std::shared_ptr<Door> door = doors_.at(id);
  door->control = nullptr;
  dismiss(control);
  if (!is_closed(error)) return forget(id, Kind::absent);
  door->grace.expires_after(settings_.grace);
  door->grace.async_wait([self = shared_from_this(), door, id](const asio::error_code& stopped) {
    const auto found = self->doors_.find(id);
    if (stopped || found == self->doors_.end() || found->second != door || door->control) return;
    self->forget(id, Kind::gone);
  });
}

void Relay::Impl::forget(const RelayId& id, Kind answer) {
  const auto found = doors_.find(id);
  const std::shared_ptr<Door> door = found->second;
  doors_.erase(found);
  door->grace.cancel();
  if (door->control) dismiss(Shared(door->control));
  if (answer == Kind::gone && gone_.insert(id).second) {
    gone_since_.push_back(id);
    if (gone_since_.size() > most_gone) {
      gone_.erase(gone_since_.front());
      gone_since_.pop_front();
    }
  }
  for (const Shared& guest : std::exchange(door->guests, {})) send_away(guest, answer, id);
}

// A guest says nothing while it waits: if there is something to read, the guest has gone, or is no member of the job.
void Relay::Impl::call(const Shared& guest, const RelayId& id) {
  const auto found = doors_.find(id);
  if (found == doors_.end()) return send_away(guest, gone_.contains(id) ? Kind::gone : Kind::absent, id);
  Door& door = *found->second;
  if (door.guests.size() >= settings_.most_guests) dismiss(Shared(door.guests.front()));
  guest->guest = true;
  guest->door = id;
  guest->token = new_relay_id();
  waiting_.push_back(guest);
  guests_[guest->token] = guest;
  door.guests.push_back(guest);
  guest->patience.expires_after(settings_.patience);
  guest->patience.async_wait([self = shared_from_this(), guest](const asio::error_code& stopped) {
    if (!stopped && guest->guest && !guest->closed) self->dismiss(guest);
  });
  guest->socket.async_wait(Tcp::socket::wait_read, [self = shared_from_this(), guest](const asio::error_code&) {
    if (guest->guest && !guest->closed) self->dismiss(guest);
  });
  announce(door, guest);
}

void Relay::Impl::announce(Door& door, const Shared& guest) {
  if (door.control && !door.control->say(Kind::guest, guest->token)) dismiss(guest);
}

void Relay::Impl::take(const Shared& taker, const RelayId& token) {
  const auto found = guests_.find(token);
  if (found == guests_.end()) return dismiss(taker);  // the guest has gone, or there was none
  const Shared guest = found->second;
  guest->guest = false;
  guest->patience.cancel();
  guest->socket.cancel();
  guests_.erase(found);
  waiting_.remove(guest);
  if (const auto door = doors_.find(guest->door); door != doors_.end()) door->second->guests.remove(guest);
  if (pairs() >= settings_.most_pairs) {
    refusals_->add(guest->from, fmt::format("{} pairs are joined already", settings_.most_pairs));
    return part(guest, taker);
  }
  carried_.insert({guest, taker});
  if (!taker->say(Kind::joined, token) || !guest->say(Kind::joined, guest->door)) return part(guest, taker);
  for (const Shared& one : {guest, taker}) one->ahead.resize(room);
  forward(guest, taker);
  forward(taker, guest);
}

void Relay::Impl::forward(const Shared& from, const Shared& to) {
  from->socket.async_read_some(asio::buffer(from->ahead),
                               [self = shared_from_this(), from, to](const asio::error_code& error, std::size_t bytes) {
                                 if (from->closed) return;
                                 if (error == asio::error::eof && !to->ended) {
                                   from->ended = true;
                                   asio::error_code ignored;
                                   to->socket.shutdown(Tcp::socket::shutdown_send, ignored);
                                   return;
                                 }
                                 if (error) return self->part(from, to);
                                 asio::async_write(to->socket, asio::buffer(from->ahead.data(), bytes),
                                                   [self, from, to](const asio::error_code& broken, std::size_t) {
                                                     if (from->closed) return;
                                                     if (broken) return self->part(from, to);
                                                     self->forward(from, to);
                                                   });
                               });
}

void Relay::Impl::part(const Shared& one, const Shared& other) {
  dismiss(one);
  dismiss(other);
}

void Relay::Impl::send_away(const Shared& connection, Kind answer, const RelayId& id) {
  connection->say(answer, id);
  dismiss(connection);
}

// REQUIRES that `connection` is no reference into one of the lists, which lose their element here.
void Relay::Impl::dismiss(const Shared& connection) {
  connection->closed = true;
  connection->patience.cancel();
  asio::error_code ignored;
  connection->socket.close(ignored);
  waiting_.remove(connection);
  carried_.erase(connection);
  if (!connection->guest) return;
  guests_.erase(connection->token);
  if (const auto door = doors_.find(connection->door); door != doors_.end()) door->second->guests.remove(connection);
}

Relay::Relay(asio::io_context& io, const Tcp::endpoint& endpoint, const RelaySettings& settings, TcpRefusals::Say say)
    : impl_(std::make_shared<Impl>(io, endpoint, settings, std::move(say))) {
  impl_->accept();
}

Relay::~Relay() { impl_->close(); }

Tcp::endpoint Relay::endpoint() const { return impl_->acceptor_.local_endpoint(); }
std::size_t Relay::doors() const { return impl_->doors_.size(); }
std::size_t Relay::waiting() const { return impl_->waiting_.size(); }
std::size_t Relay::pairs() const { return impl_->pairs(); }

int serve_relay(const MeetingPlace& place, const std::function<void(std::uint16_t port)>& listens, const Stop& stop) {
  constexpr std::chrono::milliseconds between_looks(50);
  asio::io_context io{1};
  const Relay relay(io, endpoint_of(resolve(place.host, place.port).front()));
  listens(relay.endpoint().port());
  while (stop() == 0) io.run_for(between_looks);
  return stop();
}

}  // namespace sotto
