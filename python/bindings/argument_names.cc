#include "python/bindings/argument_names.h"

#include <algorithm>
#include <cctype>

namespace sotto::python {

std::string with_argument_names(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    const bool flag = text.substr(i).starts_with("--") && i + 2 < text.size() &&
                      std::islower(static_cast<unsigned char>(text[i + 2])) != 0;
    if (!flag) {
      out += text[i++];
      continue;
    }
    std::string name;
    for (i += 2; i < text.size() && (std::islower(static_cast<unsigned char>(text[i])) != 0 || text[i] == '-'); ++i) {
      name += text[i] == '-' ? '_' : text[i];
    }
    out += name == "buckets" ? "bucket_mb" : name;
  }
  return out;
}

std::string argument_spelling(std::string_view option, std::string_view value) {
  std::string name = option == "buckets" ? "bucket_mb" : std::string(option);
  std::ranges::replace(name, '-', '_');
  return value.empty() ? name : name + "='" + std::string(value) + "'";
}

}  // namespace sotto::python
