#pragma once

#include <string>
#include <string_view>

namespace sotto::python {

// An error's text that speaks of flags of `sotto train`, of the arguments that stand for them here: "--buckets"
// becomes "bucket_mb", "--codec" "codec".
std::string with_argument_names(std::string_view text);

}  // namespace sotto::python
