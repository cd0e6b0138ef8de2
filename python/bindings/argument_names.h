#pragma once

#include <string>
#include <string_view>

namespace sotto::python {

// An error's text that speaks of flags of `sotto train`, of the arguments that stand for them here: "--buckets"
// becomes "bucket_mb", "--codec" "codec".
std::string with_argument_names(std::string_view text);

// How errors write an option here: codec='topk(2)'.
std::string argument_spelling(std::string_view option, std::string_view value);

}  // namespace sotto::python
