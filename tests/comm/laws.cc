#include "laws.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <cstddef>
#include <cstring>
#include <exception>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <vector>

namespace sotto {
namespace {

constexpr std::array<std::size_t, 6> lengths{0, 1, 10, 100, 1000, 100000};

template <class... Args>
void require(bool holds, fmt::format_string<Args...> what, Args&&... args) {
  if (!holds) throw std::runtime_error(fmt::format(what, std::forward<Args>(args)...));
}

template <class T>
std::span<std::byte> bytes_of(std::vector<T>& values) {
  return std::as_writable_bytes(std::span(values));
}

// Small whole numbers, so that sums are exact in any order and in 16 bits.
template <class T>
T value_of(int rank, std::size_t i) {
  return static_cast<T>((static_cast<std::size_t>(rank) * 3 + i) % 7);
}

template <class T>
void check_reduce(Communicator& communicator, std::size_t length, DType type, ReduceOp op) {
  std::vector<T> data(length);
  for (std::size_t i = 0; i < length; ++i) data[i] = value_of<T>(communicator.rank(), i);
  communicator.all_reduce(bytes_of(data), type, op);
  for (std::size_t i = 0; i < length; ++i) {
    T wanted = value_of<T>(0, i);
    for (int rank = 1; rank < communicator.size(); ++rank) {
      const T other = value_of<T>(rank, i);
      wanted = op == ReduceOp::sum   ? static_cast<T>(wanted + other)
               : op == ReduceOp::min ? std::min(wanted, other)
                                     : std::max(wanted, other);
    }
    require(data[i] == wanted, "{} element {} of {}: {} instead of {}", name_of(type), i, length, data[i], wanted);
  }
}

// The bits of a small whole number as a 16-bit float.
std::uint16_t half_of(DType type, int value) {
  float f = static_cast<float>(value);
  std::uint32_t bits = 0;
  std::memcpy(&bits, &f, sizeof(bits));
  if (type == DType::bf16) return static_cast<std::uint16_t>(bits >> 16);
  return value == 0 ? std::uint16_t{0} : static_cast<std::uint16_t>((bits - 0x38000000U) >> 13);
}

void check_half(Communicator& communicator, std::size_t length, DType type) {
  std::vector<std::uint16_t> data(length);
  for (std::size_t i = 0; i < length; ++i) data[i] = half_of(type, value_of<int>(communicator.rank(), i));
  communicator.all_reduce(bytes_of(data), type, ReduceOp::sum);
  for (std::size_t i = 0; i < length; ++i) {
    int wanted = 0;
    for (int rank = 0; rank < communicator.size(); ++rank) wanted += value_of<int>(rank, i);
    require(data[i] == half_of(type, wanted), "{} element {} of {}", name_of(type), i, length);
  }
}

void all_reduce_is_exact(Communicator& communicator) {
  for (const std::size_t length : lengths) {
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::min, ReduceOp::max}) {
      check_reduce<float>(communicator, length, DType::f32, op);
    }
  }
}

void all_types_are_reduced(Communicator& communicator) {
  for (const std::size_t length : {std::size_t{1}, std::size_t{10}, std::size_t{20011}}) {
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::min, ReduceOp::max}) {
      check_reduce<double>(communicator, length, DType::f64, op);
      check_reduce<std::int32_t>(communicator, length, DType::i32, op);
      check_reduce<std::int64_t>(communicator, length, DType::i64, op);
      check_reduce<std::uint8_t>(communicator, length, DType::u8, op);
    }
    check_half(communicator, length, DType::f16);
    check_half(communicator, length, DType::bf16);
  }
}

// Numbers whose sum depends on the order.
float rough(int rank, std::size_t i) {
  return 1.0F / (1.0F + static_cast<float>((i * 2654435761U + static_cast<std::size_t>(rank) * 40503U) % 1000003U));
}

// The sum of a short vector. Below 8 ranks it is made in rank order. From 8 ranks on, the ranks in excess of a power of
// two are first added to a neighbour, and the rest is summed over a balanced tree.
float short_sum(int ranks, std::size_t i) {
  std::vector<float> sums;
  for (int rank = 0; rank < ranks; ++rank) sums.push_back(rough(rank, i));
  if (ranks < 8) return std::accumulate(sums.begin() + 1, sums.end(), sums.front());
  const std::size_t members = std::bit_floor(sums.size());
  for (std::size_t place = 0; sums.size() > members; ++place) {
    sums[place] += sums[place + 1];
    sums.erase(sums.begin() + static_cast<std::ptrdiff_t>(place) + 1);
  }
  for (; sums.size() > 1; sums.resize(sums.size() / 2)) {
    for (std::size_t k = 0; k < sums.size() / 2; ++k) sums[k] = sums[2 * k] + sums[2 * k + 1];
  }
  return sums.front();
}

void sums_are_in_the_documented_order(Communicator& communicator) {
  const int ranks = communicator.size();
  for (const std::size_t length : {std::size_t{4096}, std::size_t{4097}, std::size_t{100000}}) {
    std::vector<float> data(length);
    for (std::size_t i = 0; i < length; ++i) data[i] = rough(communicator.rank(), i);
    communicator.all_reduce(data);
    for (std::size_t i = 0; i < length; ++i) {
      int first = 0;  // above 16 KiB, the sum of part p starts at rank p
      while (length * static_cast<std::size_t>(first + 1) / static_cast<std::size_t>(ranks) <= i) ++first;
      float wanted = rough(first, i);
      for (int k = 1; k < ranks; ++k) wanted += rough((first + k) % ranks, i);
      if (length <= 4096) wanted = short_sum(ranks, i);
      require(std::memcmp(&data[i], &wanted, sizeof(float)) == 0, "element {} of {}", i, length);
    }
  }
}

void gathers(Communicator& communicator) {
  for (const std::size_t length : lengths) {
    std::vector<float> mine(length);
    std::vector<float> all(length * static_cast<std::size_t>(communicator.size()), -1.0F);
    for (std::size_t i = 0; i < length; ++i) mine[i] = rough(communicator.rank(), i);
    communicator.all_gather(bytes_of(mine), bytes_of(all));
    for (int rank = 0; rank < communicator.size(); ++rank) {
      for (std::size_t i = 0; i < length; ++i) {
        require(all[static_cast<std::size_t>(rank) * length + i] == rough(rank, i), "element {} of rank {}", i, rank);
      }
    }
  }
}

void broadcasts(Communicator& communicator) {
  for (int root = 0; root < communicator.size(); ++root) {
    for (const std::size_t length : lengths) {
      std::vector<float> data(length);
      for (std::size_t i = 0; i < length; ++i) data[i] = rough(communicator.rank(), i);
      communicator.broadcast(bytes_of(data), root);
      for (std::size_t i = 0; i < length; ++i) require(data[i] == rough(root, i), "element {} from {}", i, root);
    }
  }
}

void barriers_end(Communicator& communicator) {
  for (int i = 0; i < 20; ++i) communicator.barrier();
}

// A message whose first four bytes are its length, or an empty one.
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

// In each of two exchanges, sends `count` letters to every peer and receives as many. They must come in order, and no
// byte after a letter may be touched.
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

void ragged_messages_arrive(Communicator& communicator) { exchange_letters(communicator, 1); }
void messages_stay_in_order(Communicator& communicator) { exchange_letters(communicator, 6); }

// Some ranks send long messages, which go in rounds, and others short ones, which go at once. A pair exchanges two
// messages or none.
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
  // All processes of a machine share a clock.
  require(recv.arrived.time_since_epoch().count() >= theirs, "a message came before its time");
}

void bytes_follow_the_formulas(Communicator& communicator) {
  const auto sent_by = [&](auto&& call) {
    const std::uint64_t before = communicator.traffic().bytes_sent;
    call();
    return communicator.traffic().bytes_sent - before;
  };
  const auto others = static_cast<std::uint64_t>(communicator.size() - 1);
  for (const std::size_t length :
       {std::size_t{0}, std::size_t{1}, std::size_t{4096}, std::size_t{4097}, std::size_t{100003}}) {
    std::vector<float> data(length, 1.0F);
    const auto reduced = sent_by([&] { communicator.all_reduce(data); });
    require(reduced == communicator.all_reduce_bytes(length, DType::f32), "all_reduce of {}: {} bytes", length,
            reduced);
    const double ring = 2.0 * static_cast<double>(others * 4 * length) / communicator.size();
    require(length <= 4096 || std::abs(static_cast<double>(reduced) - ring) <= 8, "a large all_reduce sends 2n(W-1)/W");

    std::vector<float> all(length * static_cast<std::size_t>(communicator.size()));
    require(sent_by([&] { communicator.all_gather(bytes_of(data), bytes_of(all)); }) == others * 4 * length,
            "all_gather");

    std::int64_t total = static_cast<std::int64_t>(sent_by([&] { communicator.broadcast(bytes_of(data), 0); }));
    communicator.all_reduce(std::as_writable_bytes(std::span(&total, 1)), DType::i64, ReduceOp::sum);
    require(static_cast<std::uint64_t>(total) == others * 4 * length, "broadcast: every other rank gets the data once");
  }
  require(sent_by([&] { communicator.barrier(); }) == 0, "a barrier sends no payload");
  require(communicator.traffic().seconds > 0, "time");
}

void clones_work_beside(Communicator& communicator) {
  const auto twin = communicator.clone();
  const auto third = communicator.clone();
  require(twin->rank() == communicator.rank() && twin->size() == communicator.size(), "a clone's ranks");
  const auto work = [](Communicator& mine, std::size_t length) {
    for (int i = 0; i < 10; ++i) {
      check_reduce<float>(mine, length, DType::f32, ReduceOp::sum);
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

template <class Function>
void require_logic_error(Function function, std::string_view what) {
  try {
    function();
  } catch (const std::logic_error&) {
    return;
  }
  throw std::runtime_error("no logic_error: " + std::string(what));
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

constexpr std::array table{
    Law{"all_reduce_is_exact", all_reduce_is_exact},
    Law{"all_types_are_reduced", all_types_are_reduced},
    Law{"sums_are_in_the_documented_order", sums_are_in_the_documented_order},
    Law{"gathers", gathers},
    Law{"broadcasts", broadcasts},
    Law{"barriers_end", barriers_end},
    Law{"ragged_messages_arrive", ragged_messages_arrive},
    Law{"messages_stay_in_order", messages_stay_in_order},
    Law{"all_to_all_arrives", all_to_all_arrives},
    Law{"one_way_messages_arrive", one_way_messages_arrive},
    Law{"not_before_is_kept", not_before_is_kept},
    Law{"bytes_follow_the_formulas", bytes_follow_the_formulas},
    Law{"clones_work_beside", clones_work_beside},
    Law{"arguments_are_checked", arguments_are_checked},
};

}  // namespace

std::span<const Law> laws() { return table; }

void check_laws(Communicator& communicator) {
  for (const Law& law : laws()) {
    try {
      law.check(communicator);
    } catch (const std::exception& error) {
      throw std::runtime_error(std::string(law.name) + ": " + error.what());
    }
  }
}

}  // namespace sotto
