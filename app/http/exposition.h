#pragma once

#include <fmt/format.h>

#include <cmath>
#include <string>
#include <string_view>
#include <utility>

namespace sotto {

// Figures in the text format of Prometheus, version 0.0.4.
class Exposition {
 public:
  static constexpr std::string_view content_type = "text/plain; version=0.0.4; charset=utf-8";  // of the answer

  // The values of a family follow its head.
  void head(std::string_view name, std::string_view type, std::string_view help) {
    text_ += fmt::format("# HELP {0} {2}\n# TYPE {0} {1}\n", name, type, help);
  }
  void value(std::string_view name, double value, std::string_view labels = "") {
    const std::string number = std::isnan(value)   ? "NaN"
                               : std::isinf(value) ? (value > 0 ? "+Inf" : "-Inf")
                                                   : fmt::format("{}", value);
    text_ += labels.empty() ? fmt::format("{} {}\n", name, number) : fmt::format("{}{{{}}} {}\n", name, labels, number);
  }
  void one(std::string_view name, std::string_view type, std::string_view help, double number) {
    head(name, type, help);
    value(name, number);
  }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

}  // namespace sotto
