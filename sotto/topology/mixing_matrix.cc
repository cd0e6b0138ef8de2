#include "sotto/topology/mixing_matrix.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace sotto {
namespace {

constexpr double tolerance = 1e-12;  // above the rounding errors of some hundred rounds

bool near(double a, double b) { return std::abs(a - b) < tolerance; }

}  // namespace

MixingMatrix::MixingMatrix(int ranks) : ranks_(ranks), shares_(static_cast<std::size_t>(ranks * ranks)) {}

MixingMatrix MixingMatrix::identity(int ranks) {
  MixingMatrix matrix(ranks);
  for (int rank = 0; rank < ranks; ++rank) matrix.share(rank, rank) = 1;
  return matrix;
}

MixingMatrix MixingMatrix::of(const Graph& graph, const Mixing& mixing) {
  MixingMatrix matrix(graph.ranks());
  for (int rank = 0; rank < graph.ranks(); ++rank) {
    const Shares shares = mixing.shares(graph, rank);
    matrix.share(rank, rank) = shares.kept;
    for (std::size_t i = 0; i < shares.sent.size(); ++i) matrix.share(graph.out(rank)[i], rank) = shares.sent[i];
  }
  return matrix;
}

MixingMatrix MixingMatrix::operator*(const MixingMatrix& before) const {
  MixingMatrix product(ranks_);
  for (int i = 0; i < ranks_; ++i) {
    for (int k = 0; k < ranks_; ++k) {
      for (int j = 0; j < ranks_; ++j) product.share(i, j) += at(i, k) * before.at(k, j);
    }
  }
  return product;
}

bool MixingMatrix::doubly_stochastic() const {
  for (int i = 0; i < ranks_; ++i) {
    const auto row = shares_.begin() + i * ranks_;
    if (!near(std::accumulate(row, row + ranks_, 0.0), 1)) return false;
  }
  return true;
}

bool MixingMatrix::averages() const {
  for (int i = 0; i < ranks_; ++i) {
    const auto row = shares_.begin() + i * ranks_;
    const double weight = std::accumulate(row, row + ranks_, 0.0);
    if (!std::all_of(row, row + ranks_, [&](double share) { return near(share / weight, 1.0 / ranks_); })) return false;
  }
  return true;
}

// Columns add up to 1. So a matrix of 1 / ranks, subtracted, makes that eigenvalue 0 and leaves the others; and the
// largest that is left is the limit of |A^k|^(1/k). Squaring doubles k.
double MixingMatrix::second_eigenvalue() const {
  MixingMatrix power = *this;  // A^k, divided by its norm
  for (double& share : power.shares_) share -= 1.0 / ranks_;
  double logarithm = 0;  // of |A^k|^(1/k); `exponent` is 1/k
  for (double exponent = 1; exponent > tolerance / 10; exponent /= 2) {
    const double norm =
        std::sqrt(std::inner_product(power.shares_.begin(), power.shares_.end(), power.shares_.begin(), 0.0));
    if (norm == 0) return 0;
    logarithm += exponent * std::log(norm);
    for (double& share : power.shares_) share /= norm;
    power = power * power;
  }
  return std::exp(logarithm);
}

bool doubly_stochastic(const Topology& topology, const Mixing& mixing) {
  std::vector<double> received(static_cast<std::size_t>(topology.ranks()));
  for (std::size_t number = 0; number < topology.period(); ++number) {
    const Graph& graph = topology.round(number);
    std::ranges::fill(received, 0);
    for (int rank = 0; rank < graph.ranks(); ++rank) {
      const Shares shares = mixing.shares(graph, rank);
      received[static_cast<std::size_t>(rank)] += shares.kept;
      for (std::size_t i = 0; i < shares.sent.size(); ++i) {
        received[static_cast<std::size_t>(graph.out(rank)[i])] += shares.sent[i];
      }
    }
    if (!std::ranges::all_of(received, [](double sum) { return near(sum, 1); })) return false;
  }
  return true;
}

Consensus consensus(const Topology& topology, const Mixing& mixing) {
  constexpr std::size_t most_periods = 4;  // a topology that is not exact after these averages only in the limit
  Consensus found;
  found.doubly_stochastic = true;
  MixingMatrix product = MixingMatrix::identity(topology.ranks());
  if (product.averages()) found.exact_after = 0;
  for (std::size_t round = 0; round < most_periods * topology.period(); ++round) {
    const MixingMatrix matrix = MixingMatrix::of(topology.round(round), mixing);
    product = matrix * product;
    found.doubly_stochastic = found.doubly_stochastic && matrix.doubly_stochastic();
    if (round + 1 == topology.period()) {
      const double left = product.averages() ? 0 : product.second_eigenvalue();
      found.spectral_gap = 1 - std::pow(left, 1.0 / static_cast<double>(topology.period()));
    }
    if (!found.exact_after && product.averages()) found.exact_after = round + 1;
  }
  return found;
}

}  // namespace sotto
