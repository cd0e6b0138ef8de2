#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <asio/buffer.hpp>
#include <asio/error.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/ip/v6_only.hpp>
#include <asio/read.hpp>
#include <asio/steady_timer.hpp>
#include <asio/write.hpp>
#include <cerrno>
#include <cstring>
#include <exception>
#include <list>
#include <map>
#include <system_error>
#include <utility>

#include "sotto/comm/group/tcp_store.h"
#include "sotto/comm/tcp/refusals.h"
#include "sotto/comm/tcp/socket.h"
#include "sotto/comm/tcp/stream.h"
#include "sotto/comm/tcp/tls.h"
#include "sotto/core/error.h"
#include "sotto/core/thread.h"

namespace sotto {
namespace {

using namespace std::chrono_literals;
using Tcp = asio::ip::tcp;
using Kind = StoreRequest::Kind;

constexpr std::size_t piece = 256 << 10;     // memory for a request is taken as its bytes come
constexpr std::uint32_t tls_handshake = 22;  // the first byte of a connection with TLS
constexpr std::size_t most_silent = 64;      // connections that may close without a word and a line in the log
constexpr auto pause_of_listener = 20ms;     // after an error, such as too many open files
constexpr auto farewell = 2s;                // for a stranger to read why it is refused
constexpr std::string_view too_silent = "it was silent in the middle of a request";
constexpr std::string_view too_much = "too many bytes of requests and answers are under way";

std::size_t data_bytes(const StoreRequest& head) {
  return std::size_t{head.key_bytes} + head.value_bytes + head.expected_bytes;
}

// Why this is no request; empty: it is one.
std::string wrong_with(const StoreRequest& head, bool is_member, const StoreLimits& limits) {
  const StoreRequest right;
  if (head.word != right.word || head.zero != 0 || head.reserved != 0) return "it did not send a request to a store";
  if (head.version != right.version) return fmt::format("its requests have version {}, not 1", head.version);
  if (head.kind < Kind::hello || head.kind > Kind::remove) return "it sent a request that there is not";
  if ((head.kind == Kind::hello) == is_member) return "it did not begin with a hello";
  if (data_bytes(head) > (is_member ? limits.request : 0)) return "its request is too long";
  return "";
}

std::string text_of(const StoreReply& head, std::string_view value) {
  std::string text(sizeof(head) + value.size(), '\0');
  std::memcpy(text.data(), &head, sizeof(head));
  value.copy(text.data() + sizeof(head), value.size());
  return text;
}

std::string reply_of(StoreReply::Kind kind, std::string_view value, std::int64_t number = 0) {
  return text_of({.kind = kind, .number = number, .value_bytes = static_cast<std::uint32_t>(value.size())}, value);
}

std::string answer_to(const StoreRequest& head, std::string_view data, Store& store) {
  const std::string key(data.substr(0, head.key_bytes));
  const std::string value(data.substr(head.key_bytes, head.value_bytes));
  const auto done = StoreReply::Kind::done;
  try {
    switch (head.kind) {
      case Kind::hello: break;
      case Kind::set: store.set(key, value); break;
      case Kind::get: return reply_of(done, store.get(key));
      case Kind::check: return reply_of(done, "", store.check(key) ? 1 : 0);
      case Kind::add: return reply_of(done, "", store.add(key, head.number));
      case Kind::compare_set: {
        const std::string expected(data.substr(std::size_t{head.key_bytes} + head.value_bytes));
        return reply_of(done, store.compare_set(key, expected, value));
      }
      case Kind::remove: store.remove(key); break;
    }
    return reply_of(done, "");
  } catch (const MissingKey&) {
    return reply_of(StoreReply::Kind::missing, "");
  } catch (const Error& error) {
    return reply_of(StoreReply::Kind::denied, error.what());
  }
}

struct Server {
  struct Guest {
    Guest(Tcp::socket socket, asio::io_context& io)
        : from(origin_of(socket)), patience(io), stream(std::make_shared<TcpStream>(std::move(socket))) {}
    std::string from;
    asio::ip::address address{};
    asio::steady_timer patience;
    std::shared_ptr<TcpStream> stream;
    StoreRequest head;
    std::string data;      // of the request, then the answer
    std::size_t held = 0;  // bytes that count as under way
    bool is_member = false, closed = false;
  };
  using Shared = std::shared_ptr<Guest>;

  Server(const Tcp::endpoint& place, std::shared_ptr<const Tls> secret, const StoreLimits& bounds)
      : limits(bounds),
        tls(std::move(secret)),
        store(make_memory_store(bounds.stored)),
        listener(io, place.protocol()),
        again(io),
        refusals("the ranks' meeting place", most_silent) {
    ::fcntl(listener.native_handle(), F_SETFD, FD_CLOEXEC);
    listener.set_option(Tcp::acceptor::reuse_address(true));  // an old job may have had the port
    if (place.address().is_v6()) listener.set_option(asio::ip::v6_only(false));
    listener.bind(place);
    listener.listen();  // detects ports in use that binding alone does not
    accept();
    thread = start_thread("the store in which ranks meet", [this] { run(); });
  }
  ~Server() {
    io.stop();
    if (thread.joinable()) thread.join();
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  void run() {
    while (!io.stopped()) {
      try {
        io.run();
      } catch (const std::exception& error) {  // no memory; the connection ends when its patience does
        refusals.add("whoever connects", error.what());
      }
    }
  }

  void accept() {
    listener.async_accept([this](const asio::error_code& error, Tcp::socket socket) {
      if (error) return accept_later(error.message());
      accept();
      welcome(std::move(socket));
    });
  }

  // There may be too many open files: the connection that has waited longest gives way.
  void accept_later(const std::string& error) {
    refusals.add("whoever connects", error);
    if (!waiting.empty()) dismiss(Shared(waiting.front()));
    again.expires_after(pause_of_listener);
    again.async_wait([this](const asio::error_code&) { accept(); });
  }

  void welcome(Tcp::socket socket) {
    asio::error_code gone;
    ::fcntl(socket.native_handle(), F_SETFD, FD_CLOEXEC);
    socket.set_option(Tcp::no_delay(true), gone);
    limit_silence(socket, 3h);  // of a machine that is gone; an interrupted cable may come back
    const auto address = socket.remote_endpoint(gone).address();
    const auto guest = std::make_shared<Guest>(std::move(socket), io);
    guest->address = address;
    waiting.push_back(guest);
    if (++connections[address] > limits.of_an_address) {
      refusals.add(guest->from, fmt::format("there are {} connections from its address", limits.of_an_address));
      return dismiss(guest);
    }
    if (waiting.size() > limits.guests) {
      refusals.add(waiting.front()->from, "it did not say who it is, and others came");
      dismiss(Shared(waiting.front()));
    }
    limit(guest, limits.silence, too_silent);
    guest->stream->start(tls.get(), TcpStream::Side::server, [this, guest](const asio::error_code& error) {
      if (guest->closed) return;
      if (error) return refuse_handshake(guest, error);
      hear(guest);
    });
  }

  void refuse_handshake(const Shared& guest, const asio::error_code& error) {
    if (is_closed(error)) {
      refusals.add_silent(guest->from);
    } else if (is_other_secret(error)) {
      refusals.add(guest->from, "it has another secret, or somebody changed its handshake on the way");
    } else {
      refusals.add(guest->from, "it did not show that it has the secret: " + error.message());
      // Without TLS, which such a member does not use.
      const std::string reply = reply_of(StoreReply::Kind::wants_secret, "");
      static_cast<void>(::send(guest->stream->socket().native_handle(), reply.data(), reply.size(), MSG_NOSIGNAL));
    }
    dismiss(guest);
  }

  // Ends the connection then; `why` is for the log.
  void limit(const Shared& guest, std::chrono::milliseconds time, std::string_view why) {
    guest->patience.expires_after(time);
    guest->patience.async_wait([this, guest, why](const asio::error_code& stopped) {
      const bool extended = guest->patience.expiry() > asio::steady_timer::clock_type::now();
      if (stopped || guest->closed || extended) return;
      if (!why.empty()) refusals.add(guest->from, std::string(why));
      dismiss(guest);
    });
  }

  // What follows an operation on the connection.
  template <class Next>
  auto then(const Shared& guest, Next next) {
    return [this, guest, next](const asio::error_code& error, std::size_t) {
      if (guest->closed) return;
      error ? part(guest) : next(guest);
    };
  }

  // A member may be silent for as long as it likes between two requests.
  void hear(const Shared& guest) {
    asio::async_read(*guest->stream, asio::buffer(&guest->head, sizeof(guest->head)),
                     then(guest, [this](const Shared& each) {
                       if (each->is_member) limit(each, limits.silence, too_silent);
                       const std::string wrong = wrong_with(each->head, each->is_member, limits);
                       wrong.empty() ? hear_data(each) : refuse(each, wrong);
                     }));
  }

  void hear_data(const Shared& guest) {
    const std::size_t had = guest->data.size(), more = std::min(piece, data_bytes(guest->head) - had);
    if (more == 0) return answer(guest);
    if (!hold(*guest, had + more)) return refuse(guest, too_much);
    guest->data.resize(had + more);
    asio::async_read(*guest->stream, asio::buffer(guest->data) + had,
                     then(guest, [this](const Shared& each) { hear_data(each); }));
  }

  void answer(const Shared& guest) {
    guest->data = answer_to(guest->head, guest->data, *store);
    if (!hold(*guest, guest->data.size())) return refuse(guest, too_much);
    asio::async_write(*guest->stream, asio::buffer(guest->data), then(guest, [this](const Shared& each) {
      if (!std::exchange(each->is_member, true)) waiting.remove(each);
      each->patience.expires_at(asio::steady_timer::time_point::max());
      each->data = {};
      hold(*each, 0);
      hear(each);
    }));
  }

  // The connection stays a moment: if it were closed while something that came is unread, the answer would be lost.
  void refuse(const Shared& guest, std::string_view why) {
    // TLS may be the first attempt of a member with a secret, if a server without one will do.
    if (guest->head.word % 256 != tls_handshake) refusals.add(guest->from, std::string(why));
    guest->data = reply_of(StoreReply::Kind::denied, why);
    limit(guest, farewell, "");
    asio::async_write(*guest->stream, asio::buffer(guest->data), then(guest, [](const Shared& each) {
      asio::error_code gone;
      each->stream->socket().shutdown(Tcp::socket::shutdown_send, gone);
    }));
  }

  // It has closed the connection, or lost it.
  void part(const Shared& guest) {
    if (!guest->is_member) refusals.add_silent(guest->from);
    dismiss(guest);
  }

  void dismiss(const Shared& guest) {
    if (std::exchange(guest->closed, true)) return;
    hold(*guest, 0);
    guest->patience.cancel();
    guest->stream->close();
    waiting.remove(Shared(guest));
    if (--connections[guest->address] == 0) connections.erase(guest->address);
  }

  bool hold(Guest& guest, std::size_t bytes) {
    if (bytes > guest.held && under_way + (bytes - guest.held) > limits.under_way) return false;
    under_way = under_way - guest.held + bytes;
    guest.held = bytes;
    return true;
  }

  StoreLimits limits;
  std::shared_ptr<const Tls> tls;
  StorePtr store;
  asio::io_context io;
  Tcp::acceptor listener;
  asio::steady_timer again;
  std::list<Shared> waiting;  // those that are no members yet; the oldest first
  std::map<asio::ip::address, std::size_t> connections;
  std::uint64_t under_way = 0;
  TcpRefusals refusals;
  std::thread thread;
};

}  // namespace

ServedStore serve_store(const std::optional<SocketAddress>& address, std::uint16_t port, std::shared_ptr<const Tls> tls,
                        const StoreLimits& limits) {
  const auto serve = [&](const Tcp::endpoint& place) {
    const auto server = std::make_shared<Server>(place, tls, limits);
    return ServedStore{StorePtr(server, server->store.get()), server->listener.local_endpoint().port()};
  };
  if (address) return serve(endpoint_of(*address));
  try {
    return serve({Tcp::v6(), port});
  } catch (const std::system_error& error) {
    if (error.code() != asio::error::address_family_not_supported && error.code().value() != EADDRNOTAVAIL) throw;
    return serve({Tcp::v4(), port});  // this machine has no IPv6
  }
}

}  // namespace sotto
