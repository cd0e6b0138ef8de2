#include "sotto/comm/tcp/through_relay.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <asio/buffer.hpp>
#include <asio/error.hpp>
#include <asio/read.hpp>
#include <asio/write.hpp>
#include <cerrno>
#include <thread>

#include "sotto/comm/group/bounded_store.h"

namespace sotto {
namespace {

using namespace std::chrono_literals;
using Tcp = asio::ip::tcp;
using Kind = RelayWord::Kind;

constexpr std::chrono::milliseconds shortest_pause = 20ms, longest_pause = 1s;  // between attempts to connect

// Says a word, and reads the answer into the same room, which `owner` keeps in memory.
template <class Owner, class Handler>
void converse(Tcp::socket& socket, RelayRoom& room, Owner owner, Handler handler) {
  asio::async_write(
      socket, asio::buffer(room), [&socket, &room, owner, handler](const asio::error_code& error, std::size_t) {
        if (error) return handler(error);
        asio::async_read(socket, asio::buffer(room), [owner, handler](const asio::error_code& silent, std::size_t) {
          static_cast<void>(owner);
          handler(silent);
        });
      });
}

}  // namespace

// A connection that is made for a guest of the relay.
struct TcpRelayDoor::Take {
  explicit Take(asio::io_context& io) : socket(io) {}
  Tcp::socket socket;
  RelayRoom word{};
  Clock::time_point since = Clock::now();
  bool dismissed = false;
};

TcpRelayDoor::TcpRelayDoor(asio::io_context& io, const Tcp::endpoint& relay, std::chrono::milliseconds deadline,
                           Come come)
    : io_(io),
      relay_(relay),
      deadline_(deadline),
      come_(std::move(come)),
      control_(io),
      again_(io),
      pause_(shortest_pause),
      pulse_(io, deadline, [this] { beat(); }) {
  if (serve_now()) {
    heard_ = Clock::now();
    hear();
  } else {
    serve_later();
  }
}

TcpRelayDoor::~TcpRelayDoor() { close(); }

void TcpRelayDoor::close() {
  if (std::exchange(closed_, true)) return;
  ++turn_;
  again_.cancel();
  asio::error_code ignored;
  if (served_) {
    const RelayRoom bytes = write_relay_word({Kind::leave, id_});
    control_.non_blocking(true, ignored);
    control_.write_some(asio::buffer(bytes), ignored);
  }
  control_.close(ignored);
  for (const auto& take : std::exchange(takes_, {})) {
    take->dismissed = true;
    take->socket.close(ignored);
  }
}

bool TcpRelayDoor::serve_now() {
  prepare_to_connect(control_, relay_.protocol());
  asio::error_code error;
  control_.non_blocking(true, error);
  const int file = control_.native_handle();
  pollfd connected{file, POLLOUT, 0};
  if (error || (::connect(file, relay_.data(), static_cast<socklen_t>(relay_.size())) != 0 && errno != EINPROGRESS) ||
      ::poll(&connected, 1, 1000) != 1) {
    return false;
  }
  limit_silence(control_, deadline_);
  const RelayRoom bytes = write_relay_word({Kind::serve, id_});
  served_ = control_.write_some(asio::buffer(bytes), error) == bytes.size();  // an error if it is not connected
  return served_;
}

void TcpRelayDoor::serve() {
  served_ = false;
  control_ = Tcp::socket(io_);
  prepare_to_connect(control_, relay_.protocol());
  control_.async_connect(relay_, [this, turn = turn_](const asio::error_code& error) {
    if (turn != turn_) return;
    if (error) return serve_later();
    limit_silence(control_, deadline_);
    word_ = write_relay_word({Kind::serve, id_});
    asio::async_write(control_, asio::buffer(word_), [this, turn](const asio::error_code& broken, std::size_t) {
      if (turn != turn_) return;
      if (broken) return serve_later();
      served_ = true;
      heard_ = Clock::now();
      hear();
    });
  });
}

void TcpRelayDoor::serve_later() {
  ++turn_;
  served_ = false;
  asio::error_code ignored;
  control_.close(ignored);
  again_.expires_after(pause_);
  pause_ = std::min(2 * pause_, longest_pause);
  again_.async_wait([this, turn = turn_](const asio::error_code&) {
    if (turn == turn_) serve();
  });
}

void TcpRelayDoor::hear() {
  asio::async_read(control_, asio::buffer(word_), [this, turn = turn_](const asio::error_code& error, std::size_t) {
    if (turn != turn_) return;
    if (error) return serve_later();
    RelayWord word;
    try {
      word = read_relay_word(word_);
    } catch (const WireError&) {  // another program listens there now; perhaps not for long
      return serve_later();
    }
    pause_ = shortest_pause;
    heard_ = Clock::now();
    if (word.kind == Kind::guest) take(word.id);
    hear();
  });
}

// Asks the relay whether it is there, so that a connection that carries nothing any more is noticed.
void TcpRelayDoor::beat() {
  while (!takes_.empty() && pulse_.too_silent(takes_.front()->since)) {
    finish(std::shared_ptr(takes_.front()), asio::error::timed_out);
  }
  if (!served_ || closed_) return;
  asio::error_code error;
  control_.non_blocking(true, error);
  const RelayRoom question = write_relay_word({Kind::ask, id_});
  if (pulse_.too_silent(heard_) || control_.write_some(asio::buffer(question), error) != question.size()) serve_later();
}

// A guest that could not be taken calls again.
void TcpRelayDoor::take(const RelayId& guest) {
  if (takes_.size() == most_takes) finish(std::shared_ptr(takes_.front()), asio::error::timed_out);
  const auto take = std::make_shared<Take>(io_);
  takes_.push_back(take);
  take->word = write_relay_word({Kind::take, guest});
  prepare_to_connect(take->socket, relay_.protocol());
  take->socket.async_connect(relay_, [this, take](const asio::error_code& error) {
    if (take->dismissed) return;
    if (error) return finish(take, error);
    limit_silence(take->socket, deadline_);
    converse(take->socket, take->word, take, [this, take](const asio::error_code& silent) {
      if (!take->dismissed) finish(take, silent);
    });
  });
}

void TcpRelayDoor::finish(const std::shared_ptr<Take>& take, const asio::error_code& error) {
  take->dismissed = true;
  takes_.remove(std::shared_ptr(take));
  try {
    if (!error && read_relay_word(take->word).kind == Kind::joined) come_(std::move(take->socket));
  } catch (const WireError&) {  // as above
  }
  asio::error_code ignored;
  take->socket.close(ignored);
}

void call_relay(const std::shared_ptr<TcpStream>& stream, const RelayId& id,
                const std::function<void(const asio::error_code& error, RelayWord::Kind answer)>& handler) {
  const auto room = std::make_shared<RelayRoom>(write_relay_word({Kind::call, id}));
  converse(stream->socket(), *room, std::pair(stream, room), [handler, room](const asio::error_code& error) {
    if (error) return handler(error, Kind::absent);
    Kind answer = Kind::absent;
    try {
      answer = read_relay_word(*room).kind;
    } catch (const WireError&) {
      return handler(asio::error::no_protocol_option, answer);
    }
    handler(error, answer);
  });
}

Tcp::endpoint find_relay(const std::string& said, const std::string& place, std::chrono::milliseconds deadline,
                         const Stop& stop) {
  const auto begin = Clock::now(), until = begin + deadline;
  const MeetingPlace at = read_meeting_place(said, place);
  const auto addresses = bounded(until, stop, [at] { return resolve(at.host, at.port); });
  throw_if_stopped(stop);
  if (!addresses) throw CommError(fmt::format("nobody says where the host `{}` of the relay is", at.host));
  std::vector<Tcp::endpoint> endpoints;
  for (const SocketAddress& address : *addresses) endpoints.push_back(endpoint_of(address));
  constexpr int most_strange = 3;  // answers: one may have been changed on the way
  int strange = 0;
  for (std::size_t i = 0;; ++i) {
    const Tcp::endpoint& endpoint = endpoints[i % endpoints.size()];
    asio::io_context io{1};
    Tcp::socket socket(io);
    const RelayWord question{Kind::ask, new_relay_id()};
    RelayRoom room = write_relay_word(question);
    std::optional<asio::error_code> answer;
    prepare_to_connect(socket, endpoint.protocol());
    socket.async_connect(endpoint, [&](const asio::error_code& error) {
      if (error) return static_cast<void>(answer = error);
      converse(socket, room, 0, [&](const asio::error_code& silent) { answer = silent; });
    });
    const auto patient = std::min(until, Clock::now() + 10s);
    while (!answer && Clock::now() < patient) {
      io.run_one_for(50ms);
      throw_if_stopped(stop);
    }
    if (answer && !*answer) {
      const RelayRoom right = write_relay_word({Kind::here, question.id});
      if (room == right) return endpoint;
      if (++strange < most_strange) continue;
      throw CommError(fmt::format("what listens at {} is no relay of sotto", place));
    }
    if (Clock::now() + 200ms >= until) {
      const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
      throw CommError(
          fmt::format("no relay answers at {} for {:.1f} s: {}; does `sotto relay`, of this version, run there?", place,
                      seconds, answer ? answer->message() : "it is silent"));
    }
    for (const auto next = Clock::now() + 200ms; Clock::now() < next;) {
      std::this_thread::sleep_for(20ms);
      throw_if_stopped(stop);
    }
  }
}

}  // namespace sotto
