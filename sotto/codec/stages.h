#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "sotto/codec/stage.h"
#include "sotto/core/options.h"
#include "sotto/core/sentence.h"

namespace sotto {

// A stage of any kind; index() is its StageKind.
using AnyStage =
    std::variant<std::unique_ptr<Transform>, std::unique_ptr<Select>, std::unique_ptr<Quantise>, std::unique_ptr<Code>>;

struct StageEntry {
  std::string_view name;
  StageKind kind;
  std::string_view summary;
  std::string_view paper;                 // where it comes from
  std::string_view bytes;                 // what it puts on the wire, a formula
  std::string (*help)();                  // one line an option (options.h)
  void (*visit)(OptionVisitor& visitor);  // its options, as they are by default
  AnyStage (*make)(const Sentence& sentence, const Call& call);
  std::string_view example;  // a call of it, where its name alone is not one
};

// All stages there are, in the order of their kinds.
std::span<const StageEntry> stage_table();
std::string_view name_of(StageKind kind);

// The codec of the calls from number `first` on; without any, floats as they are. ConfigError with a caret when a stage
// is unknown, out of order or there twice.
std::unique_ptr<Codec> make_chain(const Sentence& sentence, std::size_t first,
                                  std::shared_ptr<Workers> workers = nullptr);

}  // namespace sotto
