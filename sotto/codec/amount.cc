#include "sotto/codec/amount.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sotto/codec/select/candidates.h"
#include "sotto/core/error.h"
#include "sotto/core/options.h"

namespace sotto {

Amount Amount::parse(std::string_view option, const std::string& text) {
  Amount amount;
  amount.value_ = parse_double(option, text);
  amount.is_share_ = text.ends_with('%');
  const bool whole = amount.value_ >= 1 && amount.value_ <= 4294967295.0 && amount.value_ == std::floor(amount.value_);
  const bool share = amount.value_ > 0 && amount.value_ <= 1;
  if (amount.is_share_ ? !share : !whole) {
    throw ConfigError(
        fmt::format("{} is a whole number, at least 1, or a share above 0 and up to 100%; not {}", option, text));
  }
  return amount;
}

std::size_t Amount::of(std::size_t n) const {
  return is_share_ ? share_of(value_, n) : std::min(n, static_cast<std::size_t>(value_));
}

}  // namespace sotto
