#pragma once

#include <memory>

#include "app/data/rows.h"

namespace sotto {

// Lines of numbers with commas between them. A first line with anything but numbers names the columns; the label is
// the first of label, target, class and y among these names, else the first column. FileError, with file and line, for
// other numbers of columns than before, for cells that are empty or hold no finite number, and for a first line that
// numbers the columns.
std::unique_ptr<Rows> open_csv(const DataOptions& options, Split split);

}  // namespace sotto
