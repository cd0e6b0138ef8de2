// Models that Hugging Face's transformers has are laid out as there, so that weights can be exchanged.
// tools/huggingface_layouts.py made the checksums.
#include <gtest/gtest.h>

#include <utility>

#include "app/model/language_model.h"
#include "app/model/language_network.h"
#include "tests/model/layouts.h"

namespace sotto {
namespace {

TEST(HuggingFace, HasTheSameNamesShapesAndOrder) {
  const LanguageModelSpec gpt = language_model_table().read("model", "gpt2");
  const std::string ours = test::lines(gpt.entry->make(gpt.options, 50'257)->named_parameters());
  EXPECT_EQ(test::crc32(ours), 0x4531e625U) << ours;
  for (const auto& [name, crc] : {std::pair{"bert-base", 0x217d5426U}, {"bert-mini", 0x57e42d78U}}) {
    const LanguageModelSpec bert = masked_model_table().read("model", name);
    const std::string masked = test::lines(bert.entry->make(bert.options, 30'522)->named_parameters());
    EXPECT_EQ(test::crc32(masked), crc) << masked;
  }
  const TranslationModelSpec base = translation_model_table().read("model", "transformer-base");
  const Transformer transformer(base.options.as<TransformerOptions>(), 37'000);
  const std::string theirs = test::lines(transformer.named_parameters());
  EXPECT_EQ(test::crc32(theirs), 0xcacaa876U) << theirs;
}

}  // namespace
}  // namespace sotto
