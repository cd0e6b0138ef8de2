#pragma once

#include <string>

#include "app/report/settings.h"
#include "app/train/options/options.h"

namespace sotto {

// All options of a run by name.
Settings read_settings(const TrainOptions& options);

// The line that repeats a run: all settings that are not the usual ones.
std::string train_command(const Settings& settings);

}  // namespace sotto
