#pragma once

#include <span>
#include <string>

#include "sotto/train/options.h"

namespace sotto {

enum class TableStyle { plain, markdown, json };

// Trains the same job once with each codec, in folders of their own under options.train_dir, and prints one table. A
// job that fails has a row that says so. Returns 0, or the status of the first job that failed; a signal ends all of
// it.
int compare_codecs(const TrainOptions& options, std::span<const std::string> codecs, TableStyle style);

}  // namespace sotto
