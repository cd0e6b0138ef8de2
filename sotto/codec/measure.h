#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "sotto/codec/codec.h"
#include "sotto/codec/decoded_errors.h"
#include "sotto/core/table.h"

namespace sotto {

// Synthetic inputs for measurements and tests. They are fast, and equal for equal seeds on every machine, up to the
// last bits of the mathematical library.
struct SampleEntry {
  std::string_view name;
  std::string_view summary;
  void (*fill)(std::uint64_t seed, std::span<float> out);
};

const Table<SampleEntry>& sample_table();

// ConfigError for an unknown name: "gaussian", "student", "sparse".
void fill_sample(std::string_view option, std::string_view name, std::uint64_t seed, std::span<float> out);

// Medians over the repeats. Rates are in 1e9 bytes of float input a second.
struct Measurement {
  double encode_gbps = 0;
  double decode_gbps = 0;  // of MessageReader: open() and add_to()
  double memcpy_gbps = 0;  // a copy of the input on one thread, made before each encoding
  std::size_t elements = 0;
  std::size_t bytes = 0;      // of all messages, headers included; the mean over the repeats
  double ratio = 0;           // 4 * elements / bytes
  double relative_error = 0;  // sqrt of the mean over the repeats of |C(x)-x|^2 / |x|^2; 0 for x = 0
};

// Encodes and decodes `input`, a vector of this layout, as one message. If it has more than `most` elements, it becomes
// the messages of several buckets (plan_buckets). Each repeat draws other random numbers. Needs memory for a decoded
// bucket besides the memory of the codec and its message.
Measurement measure(Codec& codec, const Layout& layout, std::span<const float> input, int repeats,
                    std::size_t most = most_elements);
// Measures several codecs in turn, so that other load on the machine affects all of them alike.
std::vector<Measurement> measure(std::span<Codec* const> codecs, const Layout& layout, std::span<const float> input,
                                 int repeats, std::size_t most = most_elements);

// A measurement, the errors of its last repeat, and the bytes that the messages of that repeat consist of
// (MessageReader::add_shares).
struct MeasuredErrors {
  Measurement measurement;
  DecodedErrors errors;
  std::vector<std::size_t> tensors;  // bytes of each segment of the layout
  std::int64_t together = 0;         // all other bytes of the messages
};
// There is a message for each of the given buckets of the vector.
std::vector<MeasuredErrors> measure_errors(std::span<Codec* const> codecs, const Layout& layout,
                                           std::span<const BucketPlan> buckets, std::span<const float> input,
                                           int repeats);

// One way to add up messages: the seconds that it takes to open and add them, and |sum - wanted| / |wanted|, where
// `wanted` is the sum of the vectors themselves.
struct AddedMessages {
  double seconds = 0;
  double error = 0;
};
struct MeasuredMerge {
  AddedMessages each;                   // one message after the other is opened and added to one vector
  std::optional<AddedMessages> merged;  // all are opened, and merged before they are decoded, if the codec does that
};

// Measures how long it takes to add up counts[i] messages, for each i. Messages are encoded from `inputs`, vectors of
// this layout, in turn. Messages that a code stage coded are not merged, since each would need memory for its decoded
// body. REQUIRES an input.
std::vector<MeasuredMerge> measure_merges(Codec& codec, const Layout& layout,
                                          std::span<const std::span<const float>> inputs,
                                          std::span<const std::size_t> counts, std::size_t most = most_elements);

}  // namespace sotto
