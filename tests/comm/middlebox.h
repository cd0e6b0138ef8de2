#pragma once

// A machine on the way between two ranks that does some harm.
#include <algorithm>
#include <array>
#include <asio/buffer.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/write.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace sotto::test {

// Stands before a door. When so many bytes have come over one connection, `way` 0: from the one who connects, 1: from
// the door, it does its deed. It does so `times` times, each to another connection, and leaves the first `skip` alone.
class Middlebox {
 public:
  enum class Deed {
    cut,      // closes the connection
    flip,     // changes a bit of the next byte
    swallow,  // takes all that comes from now on, from both sides, and passes nothing on
    choke     // the same, of what comes this way
  };

  Middlebox(asio::io_context& io, std::uint16_t port, Deed deed, std::size_t way, std::size_t at, int times = 1,
            int skip = 0)
      : io_(io),
        to_(asio::ip::address_v4::loopback(), port),
        deed_(deed),
        way_(way),
        at_(at),
        times_(times),
        skip_(skip),
        acceptor_(io, {asio::ip::address_v4::loopback(), 0}) {
    accept();
  }
  std::uint16_t port() const { return acceptor_.local_endpoint().port(); }

  void close() {  // of all connections that are not over
    asio::error_code ignored;
    acceptor_.close(ignored);
    for (const auto& one : pairs_) {
      if (const auto pair = one.lock()) {
        pair->near.close(ignored);
        pair->far.close(ignored);
      }
    }
  }

  int done = 0;         // deeds
  int connections = 0;  // that came

 private:
  struct Pair {
    explicit Pair(asio::io_context& io) : near(io), far(io) {}
    asio::ip::tcp::socket near, far;
    std::array<std::array<char, 4096>, 2> rooms{};
    std::array<std::size_t, 2> passed{};
    std::array<bool, 2> mute{};
    bool harmed = false;
  };

  void accept() {
    auto pair = std::make_shared<Pair>(io_);
    acceptor_.async_accept(pair->near, [this, pair](const asio::error_code& error) {
      if (error) return;
      pair->harmed = ++connections <= skip_;
      pairs_.push_back(pair);
      asio::error_code refused;
      pair->far.connect(to_, refused);
      if (!refused) {
        forward(pair, 0);
        forward(pair, 1);
      }
      accept();
    });
  }
  void forward(const std::shared_ptr<Pair>& pair, std::size_t way) {
    auto& from = way == 0 ? pair->near : pair->far;
    from.async_read_some(asio::buffer(pair->rooms.at(way)),
                         [this, pair, way](const asio::error_code& error, std::size_t bytes) {
                           if (error == asio::error::operation_aborted) return;
                           if (error || !pass(*pair, way, bytes)) return close(*pair);
                           forward(pair, way);
                         });
  }
  // False: the connection ends.
  bool pass(Pair& pair, std::size_t way, std::size_t bytes) {
    auto& to = way == 0 ? pair.far : pair.near;
    auto& room = pair.rooms.at(way);
    std::size_t& passed = pair.passed.at(way);
    const std::size_t needed = deed_ == Deed::flip ? at_ + 1 : at_;
    const bool now = !pair.harmed && done < times_ && way == way_ && needed <= passed + bytes;
    std::size_t count = bytes;
    if (now) {
      ++done;
      pair.harmed = true;
      if (deed_ == Deed::flip) {
        char& byte = room.at(at_ - passed);
        byte = static_cast<char>(byte ^ (1 << at_ % 8));
      } else {
        count = at_ - passed;
      }
    }
    asio::error_code error;
    if (!pair.mute.at(way)) asio::write(to, asio::buffer(room, count), error);
    passed += count;
    if (now && deed_ == Deed::swallow) pair.mute = {true, true};
    if (now && deed_ == Deed::choke) pair.mute.at(way) = true;
    return !error && !(now && deed_ == Deed::cut);
  }
  // One that swallows says nothing of the end of one side, either.
  static void close(Pair& pair) {
    if (pair.mute[0] || pair.mute[1]) return;
    asio::error_code ignored;
    pair.near.close(ignored);
    pair.far.close(ignored);
  }

  asio::io_context& io_;
  asio::ip::tcp::endpoint to_;
  Deed deed_;
  std::size_t way_, at_;
  int times_, skip_;
  asio::ip::tcp::acceptor acceptor_;
  std::vector<std::weak_ptr<Pair>> pairs_;
};

}  // namespace sotto::test
