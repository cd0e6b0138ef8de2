#include "tests/codec/generated.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "sotto/codec/stages.h"
#include "sotto/core/error.h"
#include "sotto/core/options.h"
#include "sotto/core/table.h"

namespace sotto::testing {
namespace {

constexpr int tries = 300;

bool accepts(const std::string& call) {
  try {
    const Expression expression = parse_expression("generated", call);
    stage_table().read(expression);
    return true;
  } catch (const ConfigError&) {
    return false;
  }
}

bool is_codec(const std::string& expression) {
  try {
    make_codec(read_stages(expression));
    return true;
  } catch (const ConfigError&) {
    return false;
  }
}

}  // namespace

// An option of a stage, and values to try other than the default.
struct CodecMaker::Option {
  std::string name;
  std::vector<std::string> values;
  bool discrete = false;
};

class CodecMaker::Options final : public OptionVisitor {
 public:
  explicit Options(Philox& random) : random_(random) {}

  void visit(const sotto::Option& option) override {
    std::visit([&](const auto* value) { try_values(*value, option); }, option.value);
  }

  std::vector<Option> all;

 private:
  static constexpr int draws = 2;

  void try_values(bool value, const sotto::Option& option) { add(option, {value ? "false" : "true"}, true); }
  void try_values(std::int64_t /*value*/, const sotto::Option& option) {
    std::vector<std::string> values;
    const Bounds near = nearby(option.bounds, 64);
    if (std::isfinite(option.bounds.low)) values.push_back(fmt::to_string(std::llround(option.bounds.low)));
    for (int i = 0; i < draws; ++i) values.push_back(fmt::to_string(std::llround(draw(near))));
    add(option, std::move(values), false);
  }
  void try_values(double /*value*/, const sotto::Option& option) {
    const Bounds bounds = option.bounds, near = nearby(bounds, 2);
    std::vector<std::string> values;
    for (int i = 0; i < draws; ++i) {
      const double drawn = std::round(draw(near) * 1000) / 1000;
      if (bounds.contains(drawn)) values.push_back(format_double(drawn));
    }
    for (const double end : {bounds.low, bounds.high}) {
      if (std::isfinite(end) && bounds.contains(end)) values.push_back(format_double(end));
    }
    add(option, std::move(values), false);
  }
  // Free text, and options that may be left to the stage: numbers and shares.
  template <class T>
  void try_values(const T& /*value*/, const sotto::Option& option) {
    if (!option.choices.empty()) return add(option, {option.choices.begin(), option.choices.end()}, true);
    add(option, {"0", "1", "3", "30%", "100%", "all"}, false);
  }

  // Vectors in tests are short, so all values far beyond their lengths mean the same.
  static Bounds nearby(Bounds bounds, double most) {
    const double low = std::isfinite(bounds.low) ? bounds.low : 0;
    return {low, std::min(bounds.high, low + most)};
  }
  double draw(Bounds bounds) {
    const double uniform = random_.uniform();
    return bounds.low + (bounds.high - bounds.low) * uniform * uniform;
  }
  void add(const sotto::Option& option, std::vector<std::string> values, bool discrete) {
    std::erase(values, option.text());
    std::ranges::sort(values);
    values.erase(std::unique(values.begin(), values.end()), values.end());
    all.push_back({std::string(option.name), std::move(values), discrete});
  }

  Philox& random_;
};

CodecMaker::CodecMaker(std::uint64_t seed) : random_(seed, Purpose::test) {
  for (const StageEntry& stage : stage_table()) {
    Options options(random_);
    stage.options().visit(options);
    settings_.push_back({&stage, "", "", true});  // all options at their defaults
    for (const Option& option : options.all) {
      for (const std::string& value : option.values) settings_.push_back({&stage, option.name, value, option.discrete});
    }
  }
}

// Half of the options, on average, keep their default. Empty when the stage refused every try.
std::string CodecMaker::call(const StageEntry& stage, const Setting* setting) {
  Options options(random_);
  for (int i = 0; i < tries; ++i) {
    options.all.clear();
    stage.options().visit(options);
    std::vector<std::string> arguments;
    for (const Option& option : options.all) {
      if (setting != nullptr && setting->option == option.name) {
        arguments.push_back(fmt::format("{}={}", option.name, setting->value));
      } else if (!option.values.empty() && random_.below(2) == 0) {
        const auto count = static_cast<std::uint32_t>(option.values.size());
        arguments.push_back(fmt::format("{}={}", option.name, option.values[random_.below(count)]));
      }
    }
    std::string text(stage.name);
    if (!arguments.empty()) text += fmt::format("({})", fmt::join(arguments, ", "));
    if (accepts(text)) return text;
  }
  return "";
}

std::string CodecMaker::call_of(StageKind kind) {
  std::vector<const StageEntry*> stages;
  for (const StageEntry& stage : stage_table()) {
    if (stage.kind == kind) stages.push_back(&stage);
  }
  return call(*stages[random_.below(static_cast<std::uint32_t>(stages.size()))], nullptr);
}

std::string CodecMaker::expression(const StageEntry& stage, const Setting* setting) {
  std::string own = call(stage, setting);
  if (own.empty()) return "";
  // The example of the stage says which stage must precede it.
  if (const auto bar = stage.example.rfind('|'); bar != std::string_view::npos) {
    const Expression example = parse_expression("generated", stage.example);
    const StageEntry* before = stage_table().find(example.calls[example.calls.size() - 2].name);
    own = fmt::format("{} | {}", call(*before, nullptr), own);
  }
  for (int i = 0; i < tries; ++i) {
    std::vector<std::string> calls;
    for (const StageKind kind : {StageKind::transform, StageKind::select, StageKind::quantise, StageKind::code}) {
      if (kind == stage.kind) {
        calls.push_back(own);
      } else if (random_.below(2) == 0) {
        calls.push_back(call_of(kind));
      }
      if (kind == StageKind::select && !calls.empty() && random_.below(4) == 0) calls.push_back(call_of(kind));
    }
    std::string text = fmt::format("{}", fmt::join(calls, " | "));
    if (is_codec(text)) return text;
  }
  return "";
}

std::string CodecMaker::with(std::size_t number) {
  const Setting& setting = settings_.at(number);
  return expression(*setting.stage, &setting);
}

std::string CodecMaker::any() {
  const auto& stages = stage_table();
  for (;;) {
    const auto drawn = random_.below(static_cast<std::uint32_t>(stages.size()));
    std::string text = expression(stages.begin()[drawn], nullptr);
    if (!text.empty()) return text;
  }
}

std::vector<std::string> generated_codecs(std::size_t count) {
  CodecMaker maker(2026);
  const std::size_t settings = maker.settings().size();
  std::vector<std::string> expressions;
  for (std::size_t i = 0; i < count; ++i) {
    const std::string text = count < settings ? maker.with(i * settings / count)
                             : i < settings   ? maker.with(i)
                                              : maker.any();
    expressions.push_back(text.empty() ? maker.any() : text);
  }
  return expressions;
}

}  // namespace sotto::testing
