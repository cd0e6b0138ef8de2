#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <numeric>

#include "tests/comm/law_checks.h"

namespace sotto::law {
namespace {

constexpr std::array<std::size_t, 6> lengths{0, 1, 10, 100, 1000, 100000};

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

// 16-bit floats of small whole numbers, as bits.
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

// Of a short vector: in rank order; from 8 ranks on over a balanced tree, before which the ranks that are too many for
// a power of two are added to a neighbour.
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

}  // namespace

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

void sums_are_in_the_documented_order(Communicator& communicator) {
  const int ranks = communicator.size();
  for (const std::size_t length : {std::size_t{4096}, std::size_t{4097}, std::size_t{100000}}) {
    std::vector<float> data(length);
    for (std::size_t i = 0; i < length; ++i) data[i] = rough(communicator.rank(), i);
    communicator.all_reduce(data);
    for (std::size_t i = 0; i < length; ++i) {
      int first = 0;  // above 16 KiB part p of the vector starts at rank p
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

}  // namespace sotto::law
