#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sotto/codec/stages.h"
#include "sotto/core/random.h"

namespace sotto::testing {

// Makes codecs from the table of stages itself, so that a new stage or option is in them once it is in the table.
class CodecMaker {
 public:
  explicit CodecMaker(std::uint64_t seed);

  // Something that must occur in a codec: an option of a stage with a value other than its default.
  struct Setting {
    const StageEntry* stage = nullptr;
    std::string option, value;
    bool discrete = false;  // one of a few possible values, not a number that was drawn
  };
  const std::vector<Setting>& settings() const { return settings_; }

  // A codec with setting `number`. Other options and stages of other kinds are drawn. Empty when the stage refuses that
  // value.
  std::string with(std::size_t number);
  std::string any();

 private:
  struct Option;
  class Options;

  std::string call(const StageEntry& stage, const Setting* setting);
  std::string call_of(StageKind kind);
  std::string expression(const StageEntry& stage, const Setting* setting);

  Philox random_;
  std::vector<Setting> settings_;
};

// `count` codecs for settings that are evenly spread over all of them; always the same ones.
std::vector<std::string> generated_codecs(std::size_t count);

}  // namespace sotto::testing
