#pragma once

#include <cstddef>
#include <span>

namespace sotto {

// The orientation, 1 to 8, that Exif data (a TIFF file without an image) give in their first directory; 1 where they
// give none, or are damaged.
int exif_orientation(std::span<const std::byte> tiff);

}  // namespace sotto
