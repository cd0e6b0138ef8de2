#pragma once

#include <array>
#include <cstddef>
#include <string>

namespace sotto {

// The secret of a job, which all its ranks know and nobody else does: the pre-shared key of their connections (tls.h).
using Secret = std::array<std::byte, 32>;

Secret new_secret();  // of the system's random numbers; CommError if it gives none

std::string secret_text(const Secret& secret);  // as it stands in a file: 64 hexadecimal digits and a newline

// Writes secret_text() to a new file that only its owner may read. ConfigError if there is such a file
// already, or it cannot be written.
void write_secret(const Secret& secret, const std::string& path);

// Reads what write_secret() wrote. ConfigError if it is something else, or if others than its owner may read or change
// it.
Secret read_secret(const std::string& path);

}  // namespace sotto
