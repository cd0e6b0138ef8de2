#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace sotto {

// An amount of n: a number, at least 1, or a share such as "5%" of n, rounded up.
class Amount {
 public:
  Amount() = default;
  // ConfigError that names the option.
  static Amount parse(std::string_view option, const std::string& text);

  bool is_share() const { return is_share_; }
  std::size_t of(std::size_t n) const;  // at most n

 private:
  double value_ = 1;
  bool is_share_ = true;
};

}  // namespace sotto
