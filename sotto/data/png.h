#pragma once

#include <memory>
#include <span>

#include "sotto/data/picture.h"

namespace sotto {

bool is_png(std::span<const std::byte> bytes);

// A PNG file, by libpng, of any colour type, depth and interlacing. Of 16 bits the upper 8 are taken, and transparency
// is ignored: a pixel has the colour that is stored for it.
std::unique_ptr<Picture> open_png(std::span<const std::byte> bytes);

}  // namespace sotto
