#pragma once

#include <span>
#include <string>

#include "app/cli/flags.h"

namespace sotto {

// `sotto train --replay RUN`: repeats the training of the run in the folder `run`, in a new folder, and compares. `own`
// are the names of the options of the command itself. Returns the exit status: 0 if nothing differs. ConfigError or
// FileError if that cannot be done.
int run_replay(const std::string& run, const Flags& flags, std::span<const std::string> own);

}  // namespace sotto
