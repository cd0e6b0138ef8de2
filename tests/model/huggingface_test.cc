// Models that Hugging Face's transformers has are laid out as there, so that weights can travel.
// tools/huggingface_layouts.py made the checksums.
#include <gtest/gtest.h>

#include "sotto/model/language_model.h"
#include "sotto/model/language_network.h"
#include "tests/model/layouts.h"

namespace sotto {
namespace {

TEST(HuggingFace, HasTheSameNamesShapesAndOrder) {
  const LanguageModelSpec spec = language_model_table().read("model", "gpt2");
  const std::string ours = test::lines(spec.entry->make(spec.options, 50'257)->named_parameters());
  EXPECT_EQ(test::crc32(ours), 0x4531e625U) << ours;
}

}  // namespace
}  // namespace sotto
