#include "app/cli/svg.h"

#include <fmt/format.h>

namespace sotto::svg {

std::string document(double width, double height, std::string_view content) {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" "
      "font-family=\"sans-serif\" font-size=\"11\">\n<rect width=\"100%\" height=\"100%\" "
      "fill=\"white\"/>\n{2}</svg>\n",
      width, height, content);
}

}  // namespace sotto::svg
