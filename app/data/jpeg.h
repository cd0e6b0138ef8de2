#pragma once

#include <memory>
#include <span>

#include "app/data/picture.h"

namespace sotto {

bool is_jpeg(std::span<const std::byte> bytes);

// A JPEG file, by libjpeg-turbo: baseline or progressive, grey, YCbCr, RGB, CMYK or YCCK. Four-channel files with
// Adobe's mark hold inverted values, as in Pillow. At full size pixels have the bits of libjpeg-turbo's slow, exact
// transform, whatever window is decoded.
std::unique_ptr<Picture> open_jpeg(std::span<const std::byte> bytes);

}  // namespace sotto
