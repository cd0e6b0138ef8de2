#pragma once

#include <cstddef>
#include <span>

namespace sotto {

// The orientation, 1 to 8, in the first directory of Exif data (a TIFF file without an image); 1 if there is none, or
// if the data are damaged.
int exif_orientation(std::span<const std::byte> tiff);

}  // namespace sotto
