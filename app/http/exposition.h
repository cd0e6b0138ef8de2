#pragma once

#include <string>
#include <string_view>
#include <utility>

namespace sotto {

// Figures in the text format of Prometheus, version 0.0.4.
class Exposition {
 public:
  static constexpr std::string_view content_type = "text/plain; version=0.0.4; charset=utf-8";  // of the answer

  // The values of a family follow its head.
  void head(std::string_view name, std::string_view type, std::string_view help);
  void value(std::string_view name, double value, std::string_view labels = "");
  void one(std::string_view name, std::string_view type, std::string_view help, double number);
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

}  // namespace sotto
