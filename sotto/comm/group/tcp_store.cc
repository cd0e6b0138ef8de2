#include "sotto/comm/group/tcp_store.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <asio/buffer.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/read.hpp>
#include <asio/write.hpp>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>
#include <vector>

#include "sotto/comm/group/bounded_store.h"
#include "sotto/comm/interfaces.h"
#include "sotto/comm/tcp/socket.h"
#include "sotto/comm/tcp/stream.h"
#include "sotto/comm/tcp/tls.h"
#include "sotto/core/error.h"
#include "sotto/core/thread.h"
#include "sotto/core/timer.h"

namespace sotto {
namespace {

using namespace std::chrono_literals;
using Request = StoreRequest::Kind;

constexpr auto longest_attempt = 5s;           // to connect: a lost first packet is sent again after 1 and 3 s
constexpr auto until_it_stays = 2s;            // a server with too many guests may close a connection at once
constexpr std::uint32_t most_value = 1 << 30;  // the process that serves a store may have written it

double seconds(Clock::duration time) { return std::chrono::duration<double>(time).count(); }

// No answer came over a connection to a store.
struct NoAnswer {
  enum class Why { late, closed, something_else, without_tls, other_secret, wants_secret } why;
};
using Why = NoAnswer::Why;

struct Answer {
  StoreReply head;
  std::string value;
};

// A connection to a store.
class StoreLine {
 public:
  // Whether somebody accepts connections there. If nobody does, the system may have connected the socket to itself.
  bool connect(const SocketAddress& address, Clock::time_point until, const Stop& stop) {
    asio::ip::tcp::socket& socket = stream_->socket();
    const auto place = endpoint_of(address);
    prepare_to_connect(socket, place.protocol());
    ::fcntl(socket.native_handle(), F_SETFD, FD_CLOEXEC);
    const auto end = end_of([&](auto done) { socket.async_connect(place, done); }, until, stop);
    asio::error_code gone;
    socket.set_option(asio::ip::tcp::no_delay(true), gone);
    return end && !*end && socket.local_endpoint(gone) != socket.remote_endpoint(gone) && !gone;
  }

  // Shows that this process is a member, if there is a secret. Throws NoAnswer.
  void prove(const Tls* tls, Clock::time_point until, const Stop& stop) {
    carry([&](auto done) { stream_->start(tls, TcpStream::Side::client, done); }, until, stop);
  }

  // Throws NoAnswer; no other request may follow then.
  Answer ask(const std::string& request, Clock::time_point until, const Stop& stop) {
    carry([&](auto done) { asio::async_write(*stream_, asio::buffer(request), done); }, until, stop);
    Answer answer;
    const auto head = asio::buffer(&answer.head, sizeof(answer.head));
    carry([&](auto done) { asio::async_read(*stream_, head, done); }, until, stop);
    const StoreReply right;
    if (answer.head.word != right.word || answer.head.version != right.version) throw NoAnswer{Why::something_else};
    if (answer.head.kind == StoreReply::Kind::wants_secret) throw NoAnswer{Why::wants_secret};
    if (answer.head.value_bytes > most_value) throw NoAnswer{Why::something_else};
    answer.value.resize(answer.head.value_bytes);
    carry([&](auto done) { asio::async_read(*stream_, asio::buffer(answer.value), done); }, until, stop);
    return answer;
  }

 private:
  // How the operation ended; nothing if it has not. The connection is of no use then.
  template <class Begin>
  std::optional<asio::error_code> end_of(Begin begin, Clock::time_point until, const Stop& stop) {
    constexpr auto look_for_stop = 20ms;
    std::optional<asio::error_code> end;
    begin([&end](const asio::error_code& error, std::size_t = 0) { end = error; });
    io_.restart();
    while (!end && Clock::now() < until) {
      throw_if_stopped(stop);
      io_.run_one_until(stop ? std::min<Clock::time_point>(until, Clock::now() + look_for_stop) : until);
    }
    if (!end) io_.poll();  // this process may have been stopped
    return end;
  }

  template <class Begin>
  void carry(Begin begin, Clock::time_point until, const Stop& stop) {
    const auto end = end_of(begin, until, stop);
    if (!end) throw NoAnswer{Why::late};
    if (is_other_secret(*end)) throw NoAnswer{Why::other_secret};
    if (*end) throw NoAnswer{is_tls_error(*end) ? Why::without_tls : Why::closed};
  }

  asio::io_context io_;
  std::shared_ptr<TcpStream> stream_ = std::make_shared<TcpStream>(asio::ip::tcp::socket(io_));
};

std::string text_of(StoreRequest head, std::string_view key, std::string_view value, std::string_view expected) {
  head.key_bytes = static_cast<std::uint32_t>(key.size());
  head.value_bytes = static_cast<std::uint32_t>(value.size());
  head.expected_bytes = static_cast<std::uint32_t>(expected.size());
  std::string text(sizeof(head), '\0');
  std::memcpy(text.data(), &head, sizeof(head));
  return text.append(key).append(value).append(expected);
}

class TcpStore final : public Store {
 public:
  TcpStore(std::unique_ptr<StoreLine> line, std::string place, std::chrono::milliseconds limit)
      : place_(std::move(place)), limit_(limit), line_(std::move(line)) {}

  void set(const std::string& key, const std::string& value) override { ask({.kind = Request::set}, key, value); }
  std::string get(const std::string& key) override {
    if (auto value = find(key)) return *std::move(value);
    await(key, Clock::now() + limit_);
    if (auto value = find(key)) return *std::move(value);
    throw MissingKey(fmt::format("somebody has removed `{}`", visible(key)));
  }
  bool check(const std::string& key) override { return ask({.kind = Request::check}, key).head.number != 0; }
  std::int64_t add(const std::string& key, std::int64_t number) override {
    return ask({.kind = Request::add, .number = number}, key).head.number;
  }
  std::string compare_set(const std::string& key, const std::string& expected, const std::string& desired) override {
    return ask({.kind = Request::compare_set}, key, desired, expected).value;
  }
  void remove(const std::string& key) override { ask({.kind = Request::remove}, key); }

 private:
  std::optional<std::string> find(const std::string& key) {
    Answer answer = ask({.kind = Request::get}, key);
    if (answer.head.kind == StoreReply::Kind::missing) return std::nullopt;
    return std::move(answer.value);
  }

  Answer ask(const StoreRequest& head, std::string_view key, std::string_view value = {},
             std::string_view expected = {}) {
    if (key.size() + value.size() + expected.size() > StoreLimits().request) {
      throw CommError(fmt::format("{} takes at most {} bytes at a time", place_, StoreLimits().request));
    }
    const Lock lock(mutex_);
    if (late_) throw CommError(fmt::format("{} did not answer before", place_));
    if (!line_) throw StoreClosed(fmt::format("{} closed the connection", place_));
    const auto begin = Clock::now();
    try {
      Answer answer = line_->ask(text_of(head, key, value, expected), begin + limit_, {});
      if (answer.head.kind != StoreReply::Kind::denied) return answer;
      throw CommError(fmt::format("{} refuses a request: {}", place_, visible(answer.value)));
    } catch (const NoAnswer& none) {
      line_.reset();
      late_ = none.why == Why::late;
      if (!late_) throw StoreClosed(fmt::format("{} closed the connection", place_));
      throw CommError(fmt::format("{} does not answer, for {:.3g} s", place_, seconds(Clock::now() - begin)));
    }
  }

  const std::string place_;
  const std::chrono::milliseconds limit_;
  Mutex mutex_;
  std::unique_ptr<StoreLine> line_ SOTTO_GUARDED_BY(mutex_);  // null: it is of no use any more
  bool late_ SOTTO_GUARDED_BY(mutex_) = false;
};

// No store for this process is served there.
[[noreturn]] void refuse(const std::string& place, Why why, Clock::duration after) {
  const std::string meeting = "the ranks' meeting place at " + place;
  const std::string secret = named("secret");
  if (why == Why::other_secret)
    throw ConfigError(fmt::format("{} has another {}; give all the same one", meeting, secret));
  if (why == Why::wants_secret) {
    throw ConfigError(fmt::format("{} wants a {}, and this process has none; give all the same one", meeting, secret));
  }
  if (why == Why::without_tls) {
    throw ConfigError(
        fmt::format("what answers at {} shows no {}, and this process has one; is it a meeting place "
                    "without a secret, or another program?",
                    place, secret));
  }
  const std::string_view does = why == Why::late     ? "does not answer"
                                : why == Why::closed ? "closes them at once"
                                                     : "answers something else";
  throw CommError(
      fmt::format("what accepts connections at {} is no meeting place of ranks: it {}, for {:.3g} s; is it another "
                  "program, or stopped?",
                  place, does, seconds(after)));
}

[[noreturn]] void cannot_serve(const std::string& host, std::uint16_t port, std::string_view why) {
  throw CommError(fmt::format("cannot serve the ranks' meeting place at {}:{}: {}", host, port, why));
}

}  // namespace

TcpStores::TcpStores(const std::optional<Secret>& secret, Plain plain, const StoreLimits& limits)
    : tls_(secret ? std::make_shared<const Tls>(*secret) : nullptr), plain_(plain), limits_(limits) {}

ServedStore TcpStores::serve(const std::string& host, std::uint16_t port, std::chrono::milliseconds deadline,
                             const Stop& stop) const {
  const auto until = Clock::now() + deadline;
  const auto addresses = resolve(host, port);
  ServedStore served;
  try {
    const auto address = is_loopback(host) ? std::optional(addresses.front()) : std::nullopt;
    served = serve_store(address, port, tls_, limits_);
  } catch (const std::system_error& error) {
    if (error.code().value() != EADDRINUSE) cannot_serve(host, port, error.code().message());
    throw PortInUse(
        fmt::format("port {} is in use by another program; choose another as the meeting place, {}:PORT", port, host));
  }
  if (is_loopback(host)) return served;
  // The host may be another machine, which may serve a store, too.
  const std::string mark = "served/" + new_job_name();
  served.store->set(mark, "");
  try {
    const auto left = std::max(1ms, std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()));
    if (!join(host, served.port, left, stop)->check(mark)) throw ConfigError("another store");
  } catch (const Stopped&) {
    throw;
  } catch (const ConfigError&) {
    cannot_serve(host, port, "another machine serves one there; give an address of this machine");
  } catch (const CommError&) {
    cannot_serve(host, port, "nothing answers there; is it an address of this machine?");
  }
  served.store->remove(mark);
  return served;
}

StorePtr TcpStores::join(const std::string& host, std::uint16_t port, std::chrono::milliseconds deadline,
                         const Stop& stop, std::string_view server) const {
  const std::string place = fmt::format("{}:{}", host, port);
  const auto begin = Clock::now(), until = begin + deadline;
  const auto addresses = bounded(until, stop, [host, port] { return resolve(host, port); });
  throw_if_stopped(stop);
  if (!addresses) {
    throw CommError(fmt::format("nobody says where the host `{}` is, for {:g} s", host, seconds(deadline)));
  }
  std::optional<Why> why;
  const auto attempt = [&](const SocketAddress& address, const Tls* tls) -> StorePtr {
    auto line = std::make_unique<StoreLine>();
    if (!line->connect(address, std::min(until, Clock::now() + longest_attempt), stop)) return nullptr;
    line->prove(tls, until, stop);
    if (line->ask(text_of({}, {}, {}, {}), until, stop).head.kind != StoreReply::Kind::done) {
      throw NoAnswer{Why::something_else};
    }
    return std::make_shared<TcpStore>(std::move(line), "the ranks' meeting place at " + place, deadline + 1s);
  };
  for (Patience patience(200ms);; patience.pause(until)) {
    for (const SocketAddress& address : *addresses) {
      for (const Tls* tls : {tls_.get(), static_cast<const Tls*>(nullptr)}) {
        try {
          if (StorePtr store = attempt(address, tls)) return store;
        } catch (const NoAnswer& none) {
          why = none.why;
        }
        if (tls == nullptr || why != Why::without_tls || plain_ == Plain::never) break;
      }
    }
    const auto now = Clock::now();
    if (why && (why != Why::closed || now >= std::min(until, begin + until_it_stays))) refuse(place, *why, now - begin);
    throw_if_stopped(stop);
    if (now < until) continue;
    throw CommError(fmt::format("nobody serves the ranks' meeting place at {}, for {:g} s; is {} running there?", place,
                                seconds(deadline), server));
  }
}

const StoreService& plain_stores() {
  static const TcpStores stores;
  return stores;
}

}  // namespace sotto
