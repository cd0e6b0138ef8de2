// Fuzzes the parser of codecs with any text. A text must be refused with a ConfigError, or have a canonical form that
// reads back as itself, and a codec that tells the size of its messages.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "sotto/aggregate/memory/memory.h"
#include "sotto/aggregate/presets.h"
#include "sotto/aggregate/recipe.h"
#include "sotto/core/error.h"
#include "sotto/core/random.h"
#include "tests/codec/generated.h"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

namespace sotto {
namespace {

// Codecs made of stages, and the names of memories, aggregators and presets.
std::vector<std::string> all_texts() {
  std::vector<std::string> texts = testing::generated_codecs(200);
  const auto add = [&](const auto& table) {
    for (int i = 0; i < 10; ++i) {  // so that they are not rare
      for (const auto& entry : table) texts.emplace_back(entry.name);
    }
  };
  add(memory_table());
  add(aggregator_table());
  add(preset_table());
  return texts;
}

}  // namespace
}  // namespace sotto

// Now and then appends one of these texts to the input, or replaces the input by it.
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t most, unsigned seed) {
  using namespace sotto;
  static const auto expressions = all_texts();
  Philox random(seed, Purpose::test);
  const std::uint32_t way = random.below(64);
  if (way > 1) return LLVMFuzzerMutate(data, size, most);
  const std::string& expression = expressions[random.below(static_cast<std::uint32_t>(expressions.size()))];
  std::string text = way == 0 || size == 0 ? "" : std::string(reinterpret_cast<const char*>(data), size) + " | ";
  text += expression;
  text.resize(std::min(text.size(), most));
  std::memcpy(data, text.data(), text.size());
  return text.size();
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace sotto;
  const std::string text(reinterpret_cast<const char*>(data), size);
  std::string canonical;
  try {
    canonical = read_recipe(text).text();
    Layout layout;
    layout.append("weight", {5, 9});
    layout.append("bias", {7});
    const auto codec = make_codec(read_recipe(text).stages);
    if (codec->max_bytes(layout, {0, layout.size()}) < sizeof(Header)) std::abort();
    codec->contract(layout);
  } catch (const ConfigError&) {
    return 0;
  }
  if (read_recipe(canonical).text() != canonical) {
    std::fprintf(stderr, "expression_fuzz: %s reads back as another method\n", canonical.c_str());
    std::abort();
  }
  return 0;
}
