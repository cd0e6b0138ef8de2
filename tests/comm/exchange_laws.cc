#include <chrono>
#include <cstdint>
#include <cstring>
#include <exception>
#include <string>
#include <string_view>
#include <thread>

#include "tests/comm/law_checks.h"

namespace sotto::law {
namespace {

// A message that says its length in its first four bytes, or is empty.
std::vector<std::byte> letter(int from, int to, int number) {
  const auto seed = static_cast<std::uint32_t>(from * 31 + to * 17 + number * 7);
  const std::uint32_t length = seed % 5 == 0 ? 0 : 4 + (seed * seed * 37U) % 70000U;
  std::vector<std::byte> text(length, static_cast<std::byte>(seed));
  if (length > 0) std::memcpy(text.data(), &length, sizeof(length));
  return text;
}

std::size_t letter_length(std::span<const std::byte> buffer) {
  std::uint32_t length = 0;
  std::memcpy(&length, buffer.data(), sizeof(length));
  return length;
}

// `count` letters to and from every peer in each of two exchanges; they come in order, and no byte behind them is
// touched.
void exchange_letters(Communicator& communicator, int count) {
  constexpr std::size_t room = 70010;
  constexpr auto untouched = std::byte{0xEE};
  const int rank = communicator.rank();
  for (int round = 0; round < 2; ++round) {
    std::vector<std::vector<std::byte>> written;
    std::vector<std::vector<std::byte>> rooms;
    std::vector<Send> sends;
    std::vector<Recv> recvs;
    std::uint64_t sent = 0;
    std::uint64_t received = 0;
    for (int number = 0; number < count; ++number) {
      for (int peer = 0; peer < communicator.size(); ++peer) {
        if (peer == rank) continue;
        written.push_back(letter(rank, peer, round * count + number));
        sent += written.back().size();
        rooms.emplace_back(room, untouched);
        std::memset(rooms.back().data(), 0, 4);  // the length of an empty letter
        sends.push_back({peer, {}});
        recvs.push_back({peer, {}, {}, letter_length});
      }
    }
    for (std::size_t i = 0; i < sends.size(); ++i) {
      sends[i].data = written[i];
      recvs[i].buffer = rooms[i];
    }
    const auto before = communicator.traffic();
    const auto begin = Clock::now();
    communicator.exchange(sends, recvs);
    for (std::size_t i = 0; i < recvs.size(); ++i) {
      const int number = round * count + static_cast<int>(i) / (communicator.size() - 1);
      const auto wanted = letter(recvs[i].peer, rank, number);
      received += wanted.size();
      const std::size_t start = wanted.empty() ? 4 : 0;
      require(start != 0 || std::memcmp(rooms[i].data(), wanted.data(), wanted.size()) == 0,
              "letter {} from {} is another", number, recvs[i].peer);
      for (std::size_t at = std::max(start, wanted.size()); at < room; ++at) {
        require(rooms[i][at] == untouched, "byte {} behind letter {} from {}", at, number, recvs[i].peer);
      }
      require(recvs[i].arrived >= begin && recvs[i].arrived <= Clock::now(), "the time of arrival");
    }
    require(communicator.traffic().bytes_sent - before.bytes_sent == sent, "bytes sent in an exchange");
    require(communicator.traffic().bytes_received - before.bytes_received == received, "bytes received in an exchange");
    require(communicator.traffic().messages_sent - before.messages_sent == sends.size(),
            "messages sent in an exchange");
  }
}

template <class Function>
void require_logic_error(Function function, std::string_view what) {
  try {
    function();
  } catch (const std::logic_error&) {
    return;
  }
  throw std::runtime_error("no logic_error: " + std::string(what));
}

}  // namespace

void ragged_messages_arrive(Communicator& communicator) { exchange_letters(communicator, 1); }
void messages_stay_in_order(Communicator& communicator) { exchange_letters(communicator, 6); }

// Long messages of some ranks go in rounds, beside short ones of others that go at once, and pairs with two or none.
void all_to_all_arrives(Communicator& communicator) {
  const int ranks = communicator.size(), mine = communicator.rank();
  const auto length = [](int from, int to, int number) -> std::size_t {
    if ((from + to) % 5 == 4 && number == 0) return 0;
    return from % 2 == 0 ? 70000 + static_cast<std::size_t>(to + number) : static_cast<std::size_t>(3 * to + number);
  };
  const auto letters = [&](int from, int to) { return (from + to) % 5 == 3 ? 0 : 2; };
  for (int repeat = 0; repeat < 2; ++repeat) {
    std::vector<std::vector<float>> sent, received;
    std::vector<Send> sends;
    std::vector<Recv> recvs;
    for (int number = 0; number < 2; ++number) {
      for (int peer = ranks - 1; peer >= 0; --peer) {  // any order will do
        if (peer == mine) continue;
        if (number < letters(mine, peer)) {
          auto& data = sent.emplace_back(length(mine, peer, number));
          for (std::size_t i = 0; i < data.size(); ++i)
            data[i] = rough(mine * ranks + peer, i + static_cast<std::size_t>(number));
          sends.push_back({peer, bytes_of(data)});
        }
        if (number < letters(peer, mine)) {
          auto& room = received.emplace_back(length(peer, mine, number));
          recvs.push_back({peer, bytes_of(room)});
        }
      }
    }
    communicator.all_to_all(sends, recvs);
    std::vector<int> numbers(static_cast<std::size_t>(ranks));
    for (std::size_t m = 0; m < recvs.size(); ++m) {
      const int number = numbers[static_cast<std::size_t>(recvs[m].peer)]++;
      require(recvs[m].arrived != Clock::time_point{}, "a message of {} has no time of arrival", recvs[m].peer);
      for (std::size_t i = 0; i < received[m].size(); ++i) {
        require(received[m][i] == rough(recvs[m].peer * ranks + mine, i + static_cast<std::size_t>(number)),
                "element {} of message {} from {}", i, number, recvs[m].peer);
      }
    }
  }
}

void one_way_messages_arrive(Communicator& communicator) {
  if (communicator.size() == 1) return;
  std::vector<float> data(1000, static_cast<float>(communicator.rank()));
  if (communicator.rank() == 0) {  // a star: rank 0 only receives
    std::vector<float> all(1000 * static_cast<std::size_t>(communicator.size()));
    std::vector<Recv> recvs;
    for (int peer = 1; peer < communicator.size(); ++peer) {
      recvs.push_back({peer, bytes_of(all).subspan(4000 * static_cast<std::size_t>(peer), 4000)});
    }
    communicator.exchange({}, recvs);
    for (std::size_t i = 1000; i < all.size(); ++i)
      require(all[i] == static_cast<float>(i / 1000), "a message of the star");
  } else {
    const Send send{0, bytes_of(data)};
    communicator.exchange({&send, 1}, {});
  }
}

void not_before_is_kept(Communicator& communicator) {
  if (communicator.size() == 1) return;
  using Ticks = Clock::rep;
  const int size = communicator.size();
  const auto due = Clock::now() + std::chrono::milliseconds(30);
  const Ticks mine = due.time_since_epoch().count();
  Ticks theirs = 0;
  const Send send{(communicator.rank() + 1) % size, std::as_bytes(std::span(&mine, 1)), due};
  Recv recv{(communicator.rank() + size - 1) % size, std::as_writable_bytes(std::span(&theirs, 1))};
  communicator.exchange({&send, 1}, {&recv, 1});
  // One clock for all processes of a machine.
  require(recv.arrived.time_since_epoch().count() >= theirs, "a message came before its time");
}

void clones_work_beside(Communicator& communicator) {
  const auto twin = communicator.clone();
  const auto third = communicator.clone();
  require(twin->rank() == communicator.rank() && twin->size() == communicator.size(), "a clone's ranks");
  const auto work = [](Communicator& mine, std::size_t length) {
    for (int i = 0; i < 10; ++i) {
      std::vector<float> data(length, 1.0F);
      mine.all_reduce(data);
      require(data.front() == static_cast<float>(mine.size()) && data.back() == data.front(), "a sum of {}", length);
      mine.barrier();
    }
  };
  std::exception_ptr error;
  std::thread beside([&] {
    try {
      work(*twin, 10000);
    } catch (...) {
      error = std::current_exception();
    }
  });
  try {
    work(communicator, 5000);
    work(*third, 100);
  } catch (...) {
    beside.join();
    throw;
  }
  beside.join();
  if (error) std::rethrow_exception(error);
}

void arguments_are_checked(Communicator& communicator) {
  std::vector<float> data(4);
  for (const int peer : {-1, communicator.rank(), communicator.size()}) {
    const Send send{peer, bytes_of(data)};
    Recv recv{peer, bytes_of(data)};
    require_logic_error([&] { communicator.exchange({&send, 1}, {}); }, "a peer to send to");
    require_logic_error([&] { communicator.exchange({}, {&recv, 1}); }, "a peer to receive from");
  }
  require_logic_error([&] { communicator.broadcast(bytes_of(data), communicator.size()); }, "a root");
  require_logic_error([&] { communicator.all_reduce(bytes_of(data).first(3), DType::f32, ReduceOp::sum); }, "a size");
  require_logic_error([&] { communicator.all_reduce(bytes_of(data).subspan(1, 4), DType::f32, ReduceOp::sum); },
                      "alignment");
  require_logic_error([&] { communicator.all_gather(bytes_of(data), bytes_of(data).first(15)); }, "a size");
}

}  // namespace sotto::law
