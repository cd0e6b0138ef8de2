#pragma once

#include <limits>
#include <vector>

namespace sotto {

// One axis of a plot: maps values to shares of its length. A logarithmic one leaves out values that are not positive.
class Axis {
 public:
  explicit Axis(bool logarithmic) : logarithmic_(logarithmic) {}

  bool shows(double value) const;
  void cover(double value);
  // Adds a margin on both sides, as a share of the length, so that points do not lie on the frame.
  void widen(double margin);
  double share(double value) const { return (scaled(value) - low_) / (high_ - low_); }
  std::vector<double> ticks() const;

 private:
  double scaled(double value) const;
  std::vector<double> decades() const;
  std::vector<double> steps() const;

  bool logarithmic_;
  double low_ = std::numeric_limits<double>::infinity();
  double high_ = -std::numeric_limits<double>::infinity();
};

}  // namespace sotto
