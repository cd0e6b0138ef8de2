#include "app/http/exposition.h"

#include <fmt/format.h>

#include <cmath>

namespace sotto {
namespace {

std::string number_text(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return fmt::format("{}", value);
}

}  // namespace

void Exposition::head(std::string_view name, std::string_view type, std::string_view help) {
  text_ += fmt::format("# HELP {0} {2}\n# TYPE {0} {1}\n", name, type, help);
}

void Exposition::value(std::string_view name, double value, std::string_view labels) {
  text_ += labels.empty() ? fmt::format("{} {}\n", name, number_text(value))
                          : fmt::format("{}{{{}}} {}\n", name, labels, number_text(value));
}

void Exposition::one(std::string_view name, std::string_view type, std::string_view help, double number) {
  head(name, type, help);
  value(name, number);
}

}  // namespace sotto
