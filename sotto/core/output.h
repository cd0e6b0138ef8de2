#pragma once

#include <cstdio>
#include <string_view>

namespace sotto {

// Writes all of it to a stream at once, after what its buffer holds. 0, or the errno of why it could not: the disk is
// full, or nobody reads the pipe any more, which is told where SIGPIPE is ignored. Never throws.
int write_text(std::FILE* file, std::string_view text);

}  // namespace sotto
