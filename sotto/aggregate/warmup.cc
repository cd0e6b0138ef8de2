#include "sotto/aggregate/warmup.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "sotto/core/error.h"
#include "sotto/core/options.h"
#include "sotto/core/table.h"

namespace sotto {
namespace {

constexpr double of_the_paper = 0.25;
constexpr std::size_t most_epochs = 1000;

using Ratios = std::vector<double>;  // one an epoch

Ratios falling(double coefficient, double ratio) {
  Ratios ratios;
  for (double next = coefficient; next > ratio && ratios.size() < most_epochs; next *= coefficient) {
    ratios.push_back(next);
  }
  return ratios;
}

struct ExponentialOptions {
  std::int64_t epochs = 0;
  void visit(OptionVisitor& v) {
    v.option("epochs", epochs, "length of the warm-up; 0: a quarter of the ratio from epoch to epoch",
             {0, static_cast<double>(most_epochs), false, false});
  }
};

Ratios exponential(const Sentence& sentence, const Call& call, double ratio) {
  ExponentialOptions options;
  read_options(sentence, call, options);
  if (options.epochs == 0) return falling(of_the_paper, ratio);
  Ratios ratios;
  for (std::int64_t e = 1; e <= options.epochs; ++e) {
    ratios.push_back(std::pow(ratio, static_cast<double>(e) / static_cast<double>(options.epochs + 1)));
  }
  return ratios;
}

struct CoefficientOptions {
  double c = of_the_paper;
  void visit(OptionVisitor& v) { v.option("c", c, "of the ratio, from epoch to epoch", {0, 1, true, true}); }
};

Ratios coefficient(const Sentence& sentence, const Call& call, double ratio) {
  CoefficientOptions options;
  read_options(sentence, call, options);
  return falling(options.c, ratio);
}

struct ListOptions {
  std::string ratios;
  void visit(OptionVisitor& v) { v.option("ratios", ratios, "of the first epochs: 25%/6%/1%"); }
};

Ratios list(const Sentence& sentence, const Call& call, double /*ratio*/) {
  if (call.arguments.size() > 1) {
    fail_at(sentence, call, call.arguments[1].position, "a `/` stands between ratios, as in list(25%/6%/1%)");
  }
  ListOptions options;
  read_options(sentence, call, options);
  Ratios ratios;
  std::string_view rest = options.ratios;
  while (true) {
    const std::size_t end = std::min(rest.find('/'), rest.size());
    try {
      ratios.push_back(parse_double("each of the ratios", rest.substr(0, end), Bounds::share()));
    } catch (const ConfigError& error) {
      fail_at(sentence, call, call.position, fmt::format("{}, as in list(25%/6%/1%)", error.what()));
    }
    if (end == rest.size()) return ratios;
    rest.remove_prefix(end + 1);
  }
}

struct Shape {
  std::string_view name;
  Ratios (*make)(const Sentence& sentence, const Call& call, double ratio);
};

constexpr std::array shapes{Shape{"exponential", exponential}, Shape{"coefficient", coefficient}, Shape{"list", list}};

// A method with its ratio, and the same with others.
class Methods {
 public:
  Methods(std::string_view where, std::string_view method) : method_(in_full(read_method(where, method))) {
    const Sentence sentence = parse_sentence(where, method_);
    for (const Call& call : sentence.calls) {
      const auto found = std::ranges::find(call.arguments, "ratio", &Argument::key);
      if (found == call.arguments.end()) continue;
      ratio_ = parse_double("ratio", found->value);
      range_ = {found->value_position, found->value_position + found->value.size()};
      return;
    }
    throw ConfigError(fmt::format(
        "{}: `{}` has no ratio to begin with a larger one; topk, sampled_topk, randomk, block and fetch have", where,
        method));
  }

  double ratio() const { return ratio_; }
  std::string with(double ratio) const {
    std::string method = method_;
    method.replace(range_.begin, range_.size(), format_double(ratio));
    return method;
  }

 private:
  static std::string in_full(const Method& method) {
    std::string text = method.memory.empty() ? "" : method.memory + " | ";
    if (method.by_itself) text += method.aggregator + " | ";
    return text + method.codec;
  }

  std::string method_;  // with every option of the codec named
  double ratio_ = 0;
  Range range_;  // of the ratio in it
};

}  // namespace

Warmup make_warmup(std::string_view where, std::string_view warmup, std::string_view method,
                   std::string_view aggregator, std::uint64_t steps_per_epoch, std::uint64_t steps) {
  const Sentence sentence = parse_sentence(where, warmup);
  const Call& call = sentence.calls.front();
  const Shape& shape = require_entry(std::span<const Shape>(shapes), "warm-up", sentence, call);
  if (sentence.calls.size() > 1) fail_at(sentence, sentence.calls[1], sentence.calls[1].position, "there can be one");
  const Methods methods(where, method);
  const Ratios ratios = shape.make(sentence, call, methods.ratio());
  if (ratios.empty()) {
    fail_at(sentence, call, call.position,
            fmt::format("`{}` has a ratio of {} already: there is nothing to warm up", method,
                        format_double(methods.ratio())));
  }
  const Method whole = read_method(where, method);
  std::string chosen = choose_aggregator("--aggregator", whole, aggregator);
  if (whole.by_itself) chosen = "auto";  // that of each phase's own sentence
  Warmup made;
  const bool fits = ratios.size() <= steps / steps_per_epoch && ratios.size() * steps_per_epoch < steps;
  const std::uint64_t each = steps / (ratios.size() + 1);  // where all have the same share of the run
  if (!fits) {
    made.remark = fmt::format(
        "{} {}: {} epochs of warm-up do not fit into {} steps of {} an epoch: each of its ratios lasts {} steps", where,
        warmup, ratios.size(), steps, steps_per_epoch, each);
  }
  const auto add = [&](std::size_t number, double ratio) {
    const std::uint64_t first = fits ? number * steps_per_epoch : number * steps / (ratios.size() + 1);
    if (!made.phases.empty() && made.phases.back().first_step == first) made.phases.pop_back();
    made.phases.push_back({first, methods.with(ratio), chosen});
  };
  for (std::size_t i = 0; i < ratios.size(); ++i) add(i, ratios[i]);
  add(ratios.size(), methods.ratio());
  return made;
}

}  // namespace sotto
