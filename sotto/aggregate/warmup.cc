#include "sotto/aggregate/warmup.h"

#include <fmt/format.h>

#include <cmath>

namespace sotto {
namespace {

constexpr double of_the_paper = 0.25;
constexpr std::size_t most_epochs = 1000;

using Ratios = std::vector<double>;  // one per epoch

Ratios falling(double coefficient, double ratio) {
  Ratios ratios;
  for (double next = coefficient; next > ratio && ratios.size() < most_epochs; next *= coefficient) {
    ratios.push_back(next);
  }
  return ratios;
}

struct ExponentialOptions {
  std::optional<std::int64_t> epochs;
  void visit(OptionVisitor& v) {
    v.option("epochs", epochs, "length of the warm-up; auto: a quarter of the ratio from epoch to epoch",
             {1, static_cast<double>(most_epochs)});
  }
};

Ratios exponential(const ExponentialOptions& options, double ratio) {
  if (!options.epochs) return falling(of_the_paper, ratio);
  Ratios ratios;
  for (std::int64_t e = 1; e <= *options.epochs; ++e) {
    ratios.push_back(std::pow(ratio, static_cast<double>(e) / static_cast<double>(*options.epochs + 1)));
  }
  return ratios;
}

struct CoefficientOptions {
  double c = of_the_paper;
  void visit(OptionVisitor& v) { v.option("c", c, "factor of the ratio, from epoch to epoch", {0, 1, true, true}); }
};

Ratios coefficient(const CoefficientOptions& options, double ratio) { return falling(options.c, ratio); }

struct ListOptions {
  std::string ratios;
  void visit(OptionVisitor& v) { v.option("ratios", ratios, "ratios of the first epochs: 25%/6%/1%"); }
  Ratios values() const {
    Ratios values;
    for (std::string_view rest = ratios;; rest.remove_prefix(rest.find('/') + 1)) {
      values.push_back(parse_double("each of the ratios", rest.substr(0, rest.find('/')), Bounds::share()));
      if (rest.find('/') == rest.npos) return values;
    }
  }
  std::string problem() const {
    try {
      values();
    } catch (const ConfigError& error) {
      return fmt::format("{}, with a `/` between ratios, as in list(25%/6%/1%)", error.what());
    }
    return "";
  }
};

Ratios list(const ListOptions& options, double /*ratio*/) { return options.values(); }

constexpr std::array entries{
    WarmupEntry{"exponential", Made<exponential>::options, Made<exponential>::make},
    WarmupEntry{"coefficient", Made<coefficient>::options, Made<coefficient>::make},
    WarmupEntry{"list", Made<list>::options, Made<list>::make},
};
constexpr Table<WarmupEntry> table("warm-up", entries);

// The options of the first part of the recipe that has a ratio; null if no part has one. A part that is given a count
// has none.
AnyOptions* with_ratio(Recipe& recipe) {
  const auto has_ratio = [](const AnyOptions& options) {
    return number_of(options, "ratio").has_value() && !number_of(options, "count");
  };
  if (recipe.by_itself() && has_ratio(recipe.aggregator.options)) return &recipe.aggregator.options;
  const auto found = std::ranges::find_if(recipe.stages, has_ratio, &StageSpec::options);
  return found == recipe.stages.end() ? nullptr : &found->options;
}

Recipe with(Recipe recipe, double ratio) {
  if (ratio == 1 && recipe.memory && recipe.memory.entry->name == "momentum") return without_codec(recipe);
  set_number(*with_ratio(recipe), "ratio", ratio);
  recipe.source_text = recipe.memory ? recipe.memory.source_text() + " | " : "";
  if (recipe.by_itself()) recipe.source_text += recipe.aggregator.text() + " | ";
  recipe.source_text += text_of(recipe.stages);
  recipe.preset.clear();
  return recipe;
}

}  // namespace

const Table<WarmupEntry>& warmup_table() { return table; }

Warmup make_warmup(const WarmupSpec& spec, const Recipe& recipe, const EpochLength& epoch, std::uint64_t steps) {
  Recipe asked = recipe;
  const AnyOptions* options = with_ratio(asked);
  if (options == nullptr) {
    throw ConfigError(fmt::format(
        "{}: `{}` has no ratio to begin with a larger one; topk, sampled_topk, randomk, block and fetch have",
        named(spec.place.option), recipe.source_text));
  }
  const double last = number_of(*options, "ratio").value();
  const Ratios ratios = spec.entry->ratios(spec.options, last);
  if (ratios.empty()) {
    fail_at(spec.place, fmt::format("`{}` has a ratio of {} already: there is nothing to warm up", recipe.source_text,
                                    format_double(last)));
  }
  Warmup made;
  const bool fits = epoch.first_step_in(ratios.size()) < steps;
  const std::uint64_t each = steps / (ratios.size() + 1);  // if all ratios share the run equally
  if (!fits) {
    made.remark = fmt::format(
        "{}: {} epochs of warm-up do not fit into {} steps of {:.6g} an epoch: each of its ratios lasts {} steps",
        named(spec.place.option, spec.place.text), ratios.size(), steps, epoch.steps(), each);
  }
  const auto add = [&](std::size_t number, double ratio) {
    const std::uint64_t first = fits ? epoch.first_step_in(number) : number * steps / (ratios.size() + 1);
    if (!made.phases.empty() && made.phases.back().first_step == first) made.phases.pop_back();
    made.phases.push_back({first, with(recipe, ratio)});
  };
  for (std::size_t i = 0; i < ratios.size(); ++i) add(i, ratios[i]);
  add(ratios.size(), last);
  return made;
}

}  // namespace sotto
