#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <variant>

#include "sotto/codec/stage.h"
#include "sotto/core/expression.h"
#include "sotto/core/options.h"
#include "sotto/core/table.h"

namespace sotto {

// A stage of any kind; index() is its StageKind.
using AnyStage =
    std::variant<std::unique_ptr<Transform>, std::unique_ptr<Select>, std::unique_ptr<Quantise>, std::unique_ptr<Code>>;

struct StageEntry {
  std::string_view name;
  StageKind kind;
  std::string_view summary;
  std::string_view paper;  // where it comes from
  std::string_view bytes;  // the bytes it puts on the wire, as a formula
  AnyOptions (*options)();
  AnyStage (*make)(const AnyOptions& options);
  std::string_view example;  // an example call, if the name alone is not one
};

// All stages, in the order of their kinds.
const Table<StageEntry>& stage_table();
std::string_view name_of(StageKind kind);

// Reads the stages that the calls name, from call number `first` on. If none of them is a quantiser, `f32` is added.
// ConfigError with a caret if a stage is unknown, out of order or repeated.
StageSpecs read_stages(const Expression& expression, std::size_t first = 0);
StageSpecs read_stages(std::string_view text);  // the text of the option `codec`

// Canonical text, with every option named: "topk(ratio=0.01, scope=segment) | f32".
std::string text_of(const StageSpecs& stages);

}  // namespace sotto
