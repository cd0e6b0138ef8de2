#pragma once

#include <memory>
#include <string>
#include <vector>

#include "sotto/codec/codec.h"
#include "sotto/codec/stages.h"

namespace sotto::testing {

// A vector with its layout, and a name for messages.
struct Input {
  std::string name;
  Layout layout;
  std::vector<float> values;
};

// Whether laws take a sample of the codecs, and each of these with one number of ranks or threads: everywhere but in
// `./dev sanitize`.
extern const bool is_sample;
// Every combination of select, quantise and code, and transforms and random selections with some of these. The lists
// have every stage of the table, in more than one form where it has options. A sample has each form in four codecs.
std::vector<std::string> listed_codecs();
// The listed codecs, and hundreds that are generated from the table itself (generated.h), so that a new stage is in
// them.
const std::vector<std::string>& all_codecs();
bool is_stochastic(const std::string& expression);  // found by encoding with several keys
bool transforms(const std::string& expression);
bool selects(const std::string& expression);
bool is_warm(const std::string& expression);  // remembers something from one step to the next
// Whether all intermediate numbers fit floats. Sums of the largest floats do not, nor does such a float divided by a
// probability.
bool fits(const std::string& expression, const Input& input);

Layout mixed_layout();     // as sotto makes them: padded, 4-d, equal shapes, a scalar, an empty segment, odd lengths
Layout borrowed_layout();  // unpadded, as in another framework
std::vector<float> gaussian(const Layout& layout, std::uint64_t seed, float spread = 1);  // padding is zero
// Empty, one element, all zero, one spike, both zeros, denormals, 1e30, equal magnitudes, heavy tails; both layouts.
const std::vector<Input>& all_inputs();

// Encodes with the agreed numbers that the codec itself proposes, as if there were one rank.
std::vector<Message> encode_parts(Codec& codec, const Input& input, std::span<const Range> parts, const Key& key = {},
                                  std::uint16_t bucket = 0);
std::vector<std::byte> encode(Codec& codec, const Input& input, const Key& key = {}, std::uint16_t bucket = 0);
std::vector<std::byte> encode_part(Codec& codec, const Input& input, Range part, const Key& key = {});
// A message with this body, sealed as a sender would do.
std::vector<std::byte> sealed(const Header& header, std::span<const std::byte> body);
// scale * the decoded values, added to zeros.
std::vector<float> decode(const Codec& codec, const Input& input, std::span<const std::byte> message, float scale = 1);
void add_part(const Codec& codec, const Layout& layout, Range part, std::span<const std::byte> message, float scale,
              std::vector<float>& out);

double square_norm(std::span<const float> values);
double square_distance(std::span<const float> a, std::span<const float> b);

}  // namespace sotto::testing
