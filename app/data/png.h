#pragma once

#include <memory>
#include <span>

#include "app/data/picture.h"

namespace sotto {

bool is_png(std::span<const std::byte> bytes);

// A PNG file, by libpng, of any colour type, depth and interlacing. If samples have 16 bits, the upper 8 are used.
// Transparency is ignored: a pixel has its stored colour.
std::unique_ptr<Picture> open_png(std::span<const std::byte> bytes);

}  // namespace sotto
