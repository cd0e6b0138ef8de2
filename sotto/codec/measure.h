#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "sotto/codec/codec.h"

namespace sotto {

// Medians over the repeats. Rates are in 1e9 bytes of float input a second.
struct Measurement {
  double encode_gbps = 0;
  double decode_gbps = 0;  // add_decoded
  double memcpy_gbps = 0;  // of a copy of the input on one thread, measured between the others
  std::size_t elements = 0;
  std::size_t bytes = 0;      // of a message, header included; the mean over the repeats
  double ratio = 0;           // 4 * elements / bytes
  double relative_error = 0;  // sqrt of the mean over the repeats of |C(x)-x|^2 / |x|^2; 0 for x = 0
};

// Encodes and decodes `input`, a vector of this layout, as one message; the random numbers of each repeat are others.
// Takes as much memory as the input, for what is decoded, beside what the codec takes and its message.
Measurement measure(Codec& codec, const Layout& layout, std::span<const float> input, int repeats);
// Of several codecs that take turns, so that all have the same share of whatever else the machine does.
std::vector<Measurement> measure(std::span<Codec* const> codecs, const Layout& layout, std::span<const float> input,
                                 int repeats);

}  // namespace sotto
