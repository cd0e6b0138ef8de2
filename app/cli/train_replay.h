#pragma once

#include <span>
#include <string>

#include "app/cli/flags.h"

namespace sotto {

// `sotto train --replay RUN`: trains again what the run in the folder `run` has trained, in a folder of its own, and
// compares. `own` are the names of the options of the command itself. Returns the exit status: 0 if nothing differs.
// ConfigError or FileError if that cannot be done.
int run_replay(const std::string& run, const Flags& flags, std::span<const std::string> own);

}  // namespace sotto
