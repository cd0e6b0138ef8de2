#include "sotto/comm/tcp/door.h"

#include <fmt/format.h>

#include <asio/buffer.hpp>
#include <asio/error.hpp>
#include <asio/read.hpp>
#include <cstring>

#include "sotto/core/bytes.h"

namespace sotto {
namespace {

using Tcp = asio::ip::tcp;

constexpr std::chrono::milliseconds pause(20);
constexpr std::string_view wants_secret = " tls";
constexpr unsigned has_place = 1, has_secret = 2, has_relay = 4;  // bits

// Takes the same time wherever the keys differ, so that nobody can guess a key byte by byte.
bool equal(const TcpKey& one, const TcpKey& other) {
  std::byte difference{};
  for (std::size_t i = 0; i < one.size(); ++i) difference |= one[i] ^ other[i];
  return difference == std::byte{};
}

}  // namespace

// A connection that has not said yet which rank it is from. Operations in progress keep it in memory.
struct TcpDoor::Guest {
  Guest(Tcp::socket socket, std::string its_address)
      : from(std::move(its_address)), stream(std::make_shared<TcpStream>(std::move(socket))) {}
  std::string from;  // its address
  std::shared_ptr<TcpStream> stream;
  std::array<std::byte, TcpHello::bytes> hello{};
  bool dismissed = false;  // then the door may be gone
};

TcpDoor::TcpDoor(asio::io_context& io, int rank, int size, const TcpSettings& settings, Enter enter)
    : rank_(rank),
      size_(size),
      tls_(settings.tls),
      key_(new_relay_id()),
      enter_(std::move(enter)),
      acceptor_(io),
      again_(io),
      refusals_(fmt::format("rank {}", rank), static_cast<std::size_t>(size)) {
  if (settings.relay) {
    relay_ = std::make_unique<TcpRelayDoor>(io, *settings.relay, settings.deadline.least(), [this](Tcp::socket socket) {
      receive(std::move(socket), "somebody who came through the relay");
    });
    return;
  }
  try {
    const Tcp::endpoint endpoint(settings.address, 0);
    acceptor_.open(endpoint.protocol());
    acceptor_.bind(endpoint);
    acceptor_.listen();
  } catch (const std::system_error& error) {
    throw CommError(fmt::format("rank {}: cannot listen at {}: {}", rank_, settings.address.to_string(), error.what()));
  }
  accept();
}

TcpDoor::~TcpDoor() { close(); }

TcpPlace TcpDoor::place() const {
  const Tcp::endpoint endpoint = relay_ ? relay_->relay() : acceptor_.local_endpoint();
  TcpPlace place{.address = endpoint.address(), .port = endpoint.port(), .key = key_};
  if (relay_) place.relay = relay_->id();
  if (tls_) place.secret = tls_->fingerprint(key_);
  return place;
}

// "127.0.0.1 4242 KEY" or, with the fingerprint of the secret, "127.0.0.1 4242 KEY tls01234567", with the key as 32
// hexadecimal digits. At a relay the number of the door follows: "... tls01234567 0123456789abcdef0123456789abcdef".
std::string text_of(const TcpPlace& place) {
  std::string text = fmt::format("{} {} {}", place.address.to_string(), place.port, hex_text(place.key));
  if (place.secret) text += std::string(wants_secret) + hex_text(*place.secret);
  return place.relay ? text + " " + hex_text(*place.relay) : text;
}

TcpPlace read_tcp_place(const std::string& text) {
  const auto space = text.find(' ');
  const auto second = text.find(' ', space + 1);
  if (second == text.npos) throw WireError("it left no address that this version of sotto reads");
  constexpr std::size_t key_digits = 2 * sizeof(TcpKey);
  const std::string_view key = std::string_view(text).substr(second + 1, key_digits);
  std::string_view rest = std::string_view(text).substr(second + 1 + key.size());
  TcpPlace place;
  bool good = true;
  if (rest.starts_with(wants_secret)) {
    constexpr std::size_t print_digits = 2 * sizeof(Tls::Fingerprint);
    rest.remove_prefix(wants_secret.size());
    good = read_hex(rest.substr(0, print_digits), place.secret.emplace());
    rest.remove_prefix(std::min(print_digits, rest.size()));
  }
  asio::error_code bad;
  place.address = asio::ip::make_address(text.substr(0, space), bad);
  const char* const end = text.data() + second;
  const auto port = std::from_chars(text.data() + space + 1, end, place.port);
  good = good && !bad && port.ec == std::errc() && port.ptr == end;
  good = good && read_hex(key, place.key);
  if (good && rest.starts_with(' ')) good = read_hex(rest.substr(1), place.relay.emplace());
  if (!good || (!rest.empty() && !place.relay)) throw WireError("it left no address that this version of sotto reads");
  return place;
}

TcpHello::Place packed(const TcpPlace& place) {
  TcpHello::Place data{};
  ByteWriter writer(data);
  writer.put(static_cast<std::uint8_t>(has_place | (place.secret ? has_secret : 0) | (place.relay ? has_relay : 0)));
  writer.put(place.port);
  writer.put_bytes(place.key);
  writer.put_bytes(place.secret.value_or(Tls::Fingerprint{}));
  writer.put_bytes(place.relay.value_or(RelayId{}));
  writer.put_bytes(std::as_bytes(std::span(std::string_view(place.address.to_string()))));
  return data;
}

std::optional<TcpPlace> read_tcp_place(const TcpHello::Place& data) {
  ByteReader reader(data);
  const auto has = reader.get<std::uint8_t>("place");
  if (has == 0) return std::nullopt;
  TcpPlace place;
  place.port = reader.get<std::uint16_t>("place");
  std::ranges::copy(reader.take(sizeof(TcpKey), "place"), place.key.begin());
  const auto secret = reader.take(sizeof(Tls::Fingerprint), "place");
  const auto relay = reader.take(sizeof(RelayId), "place");
  if ((has & has_secret) != 0) std::ranges::copy(secret, place.secret.emplace().begin());
  if ((has & has_relay) != 0) std::ranges::copy(relay, place.relay.emplace().begin());
  const auto rest = reader.rest();
  std::string address(rest.size(), '\0');
  std::memcpy(address.data(), rest.data(), rest.size());
  address.resize(std::min(address.find('\0'), address.size()));
  asio::error_code bad;
  place.address = asio::ip::make_address(address, bad);
  if (bad) throw WireError("its hello has no address that this version of sotto reads");
  return place;
}

void TcpDoor::close() {
  asio::error_code ignored;
  acceptor_.close(ignored);
  if (relay_) relay_->close();
  again_.cancel();
  while (!guests_.empty()) dismiss(guests_.front());
}

void TcpDoor::accept() {
  acceptor_.async_accept([this](const asio::error_code& error, Tcp::socket socket) {
    if (error == asio::error::operation_aborted || !acceptor_.is_open()) return;
    if (error) {  // such as too many open files
      again_.expires_after(pause);
      again_.async_wait([this](const asio::error_code& stopped) {
        if (!stopped) accept();
      });
      return;
    }
    const std::string from = origin_of(socket);
    receive(std::move(socket), from);
    accept();
  });
}

void TcpDoor::receive(Tcp::socket socket, const std::string& from) {
  if (guests_.size() == most_guests) {
    refusals_.add(guests_.front()->from, fmt::format("it did not say who it is, and {} others came", most_guests));
    dismiss(guests_.front());
  }
  guests_.push_back(std::make_shared<Guest>(std::move(socket), from));
  take_proof(guests_.back());
}

void TcpDoor::take_proof(const std::shared_ptr<Guest>& guest) {
  guest->stream->start(tls_.get(), TcpStream::Side::server, [this, guest](const asio::error_code& error) {
    if (guest->dismissed) return;
    if (error) return refuse(guest, error);
    hear_hello(guest);
  });
}

void TcpDoor::hear_hello(const std::shared_ptr<Guest>& guest) {
  asio::async_read(*guest->stream, asio::buffer(guest->hello),
                   [this, guest](const asio::error_code& error, std::size_t) {
                     if (guest->dismissed) return;
                     if (error) return refuse(guest, error);
                     take_in(*guest);
                     guest->dismissed = true;
                     std::erase(guests_, guest);
                   });
}

void TcpDoor::refuse(const std::shared_ptr<Guest>& guest, const asio::error_code& error) {
  if (is_closed(error)) {
    refusals_.add_silent(guest->from);
  } else if (is_other_secret(error)) {
    refusals_.add(guest->from, "it has another secret, or somebody changed its handshake on the way");
  } else {
    refusals_.add(guest->from, error.message());
  }
  dismiss(guest);
}

void TcpDoor::dismiss(const std::shared_ptr<Guest>& guest) {
  guest->dismissed = true;
  guest->stream->close();
  guests_.remove(std::shared_ptr(guest));
}

void TcpDoor::take_in(const Guest& guest) {
  TcpHello hello;
  std::optional<TcpPlace> place;
  try {
    hello = read_hello(guest.hello);
    place = read_tcp_place(hello.place);
  } catch (const WireError& error) {
    return refusals_.add(guest.from, error.what());
  }
  const bool member = equal(hello.key, key_) && hello.to == static_cast<std::uint32_t>(rank_) &&
                      hello.size == static_cast<std::uint32_t>(size_) && hello.from < hello.size &&
                      hello.from != hello.to;
  if (!member) return refusals_.add(guest.from, "it does not know this rank's key, or is of another job");
  enter_(hello, place, guest.stream);
}

}  // namespace sotto
