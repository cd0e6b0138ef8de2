// The parser of sentences, with any text. It is refused as a ConfigError, or has a canonical form that reads back as
// itself, and a codec that says how large its messages are.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "sotto/aggregate/aggregator.h"
#include "sotto/core/error.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace sotto;
  const std::string text(reinterpret_cast<const char*>(data), size);
  std::string canonical;
  try {
    canonical = canonical_method("--codec", text);
    Layout layout;
    layout.append("weight", {5, 9});
    layout.append("bias", {7});
    const auto codec = make_codec("--codec", read_method("--codec", text).codec);
    if (codec->max_bytes(layout, {0, layout.size()}) < sizeof(Header)) std::abort();
    codec->contract(layout);
  } catch (const ConfigError&) {
    return 0;
  }
  if (canonical_method("--codec", canonical) != canonical) {
    std::fprintf(stderr, "sentence_fuzz: %s reads back as another method\n", canonical.c_str());
    std::abort();
  }
  return 0;
}
