#pragma once

#include <cstdio>
#include <string_view>

namespace sotto {

// Flushes the stream, then writes all of the text at once. Returns 0 or an errno: the disk is full, or the pipe has no
// reader (only if SIGPIPE is ignored). Never throws.
int write_text(std::FILE* file, std::string_view text);

// Writes to standard error. What cannot be written is lost: no error, no signal, so that a command that works continues
// and a command that failed keeps its exit status. Never throws.
void print_error(std::string_view text);

// Writes what was printed to standard output. std::system_error if that cannot be done.
void flush_output();

}  // namespace sotto
