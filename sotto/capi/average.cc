#include <utility>

#include "sotto/aggregate/recipe.h"
#include "sotto/capi/callers.h"
#include "sotto/capi/host_tensor.h"
#include "sotto/capi/posted_averager.h"
#include "sotto/core/expression.h"

using namespace sotto;        // NOLINT(google-build-using-namespace): functions of C have none
using namespace sotto::capi;  // NOLINT(google-build-using-namespace)

struct sotto_averager {
  PostedAverager averager;
  std::vector<std::size_t> gradient_bytes;  // by parameter
};

namespace {

class CallersBucket final : public PostedBucket {
 public:
  CallersBucket(const sotto_bucket& bucket, std::span<const std::size_t> gradient_bytes) : calls_(bucket) {
    for (const auto& [parameter, data] : span_of(bucket.gradients, bucket.count, "gradients")) {
      if (parameter >= gradient_bytes.size()) {
        throw ConfigError("there is no parameter " + std::to_string(parameter));
      }
      pieces.push_back({parameter, span_of(static_cast<std::byte*>(data), gradient_bytes[parameter], "data")});
    }
  }
  void await() override {
    if (calls_.await != nullptr) calls_.await(calls_.context);
  }
  void finish(const std::exception_ptr& error) override {
    const sotto_bucket calls = calls_;
    delete this;
    if (calls.done == nullptr) return;
    if (!error) return calls.done(calls.context, SOTTO_OK, nullptr);
    const sotto_status status = remember(error);
    calls.done(calls.context, status, sotto_last_error(1));
  }

 private:
  sotto_bucket calls_;
};

std::vector<Parameter> read_parameters(std::span<const sotto_parameter> given) {
  std::vector<Parameter> parameters;
  for (const auto& [name, type, dimensions, shape] : given) {
    require(name, "the name of a parameter");
    parameters.push_back({name, read_shape(shape, dimensions), float_type_of(type)});
  }
  return parameters;
}

Phase read_phase(const std::string& name, const sotto_phase& given) {
  require(given.codec, "the codec of a phase");
  const Expression aggregator = parse_expression("aggregator", text_or(given.aggregator, "auto"));
  return {given.first_step, read_recipe(parse_expression(name, given.codec), &aggregator)};
}

std::vector<Lane> read_rules(std::span<const sotto_rule> given, std::size_t parameters) {
  std::vector<Lane> lanes;
  std::vector<int> rules_of(parameters, 0);
  for (const sotto_rule& rule : given) {
    Lane& lane = lanes.emplace_back();
    lane.name = text_or(rule.name, "codec");
    for (const std::size_t parameter : span_of(rule.parameters, rule.parameter_count, "the parameters of a rule")) {
      if (parameter >= parameters || (!lane.parameters.empty() && parameter <= lane.parameters.back())) {
        throw ConfigError(lane.name + ": wants indices of parameters, in ascending order");
      }
      lane.parameters.push_back(parameter);
      ++rules_of[parameter];
    }
    for (const sotto_phase& phase : span_of(rule.phases, rule.phase_count, "the phases of a rule")) {
      if (lane.phases.empty() ? phase.first_step != 0 : phase.first_step <= lane.phases.back().first_step) {
        throw ConfigError(lane.name + ": the first phase begins at step 0, each other later than the one before");
      }
      lane.phases.push_back(read_phase(lane.name, phase));
    }
    if (lane.phases.empty() || lane.parameters.empty()) {
      throw ConfigError(lane.name + ": a rule wants a parameter and a phase");
    }
  }
  const auto odd = std::ranges::find_if(rules_of, [](int rules) { return rules != 1; });
  if (odd == rules_of.end() && !rules_of.empty()) return lanes;
  if (odd == rules_of.end()) throw ConfigError("there is no parameter");
  throw ConfigError("parameter " + std::to_string(odd - rules_of.begin()) + " is in " + std::to_string(*odd) +
                    " rules, and must be in one");
}

// Calls f(averager) between steps.
template <class F>
sotto_status between_steps(sotto_averager* averager, F f) {
  return guarded([&] {
    require(averager, "averager");
    f(averager->averager.idle());
  });
}

}  // namespace

sotto_status sotto_averager_create(sotto_group* group, const sotto_parameter* parameters, size_t parameter_count,
                                   const sotto_rule* rules, size_t rule_count, const sotto_averager_options* given,
                                   sotto_averager** made) {
  return guarded([&] {
    require(group, "group");
    require(made, "made");
    try {
      const auto options = read_options(given);
      auto all = read_parameters(span_of(parameters, parameter_count, "parameters"));
      std::vector<std::size_t> bytes;
      for (const Parameter& one : all) bytes.push_back(Segment{"", 0, one.shape}.numel() * size_of(one.type));
      AveragerOptions own;
      own.lanes = read_rules(span_of(rules, rule_count, "rules"), all.size());
      if (given != nullptr) own.seed = options.seed;
      if (options.bucket_bytes > 0) own.bucket_bytes = options.bucket_bytes;
      own.propagate = options.propagate != 0;
      own.codec_threads = read_threads(options.threads);
      own.required_same = read_terms(options.required_same, options.required_same_count);
      own.required_same.emplace_back("propagate", own.propagate ? "on" : "off");
      *made = new sotto_averager{PostedAverager(std::move(all), std::move(own), group->communicator), std::move(bytes)};
    } catch (const std::exception& error) {
      group->communicator->give_up(error.what());
      throw;
    }
  });
}

void sotto_averager_free(sotto_averager* averager) { delete averager; }

sotto_status sotto_averager_begin(sotto_averager* averager, double loss_scale, const uint64_t* replica) {
  return guarded([&] {
    require(averager, "averager");
    averager->averager.begin(loss_scale, replica == nullptr ? std::nullopt : std::optional(*replica));
  });
}

sotto_status sotto_averager_post(sotto_averager* averager, const sotto_bucket* bucket) {
  return guarded([&] {
    require(averager, "averager");
    require(bucket, "bucket");
    averager->averager.post(*new CallersBucket(*bucket, averager->gradient_bytes));
  });
}

sotto_status sotto_averager_end(sotto_averager* averager) {
  return guarded([&] {
    require(averager, "averager");
    averager->averager.end();
  });
}

sotto_status sotto_averager_wait(sotto_averager* averager) {
  return guarded([&] {
    require(averager, "averager");
    averager->averager.wait();
  });
}

sotto_status sotto_averager_fail(sotto_averager* averager, const char* reason) {
  return guarded([&] {
    require(averager, "averager");
    averager->averager.fail(std::make_exception_ptr(ConfigError(text_or(reason, "the caller gave up"))));
  });
}

sotto_status sotto_averager_stats(sotto_averager* averager, sotto_stats* stats) {
  return between_steps(averager, [&](GradientAverager& idle) { give(idle.stats(), stats); });
}

sotto_status sotto_averager_methods(sotto_averager* averager, sotto_sink sink) {
  return between_steps(averager, [&](GradientAverager& idle) { give(idle.methods(), sink); });
}

sotto_status sotto_averager_identity(sotto_averager* averager, sotto_sink sink) {
  return between_steps(averager, [&](GradientAverager& idle) { give(idle.identity(), sink); });
}

sotto_status sotto_averager_state(sotto_averager* averager, uint64_t* step, sotto_visitor visitor) {
  return between_steps(averager, [&](GradientAverager& idle) {
    require(step, "step");
    *step = idle.step();
    give(idle.state(), visitor);
  });
}

sotto_status sotto_averager_shared(sotto_averager* averager, sotto_visitor visitor) {
  return between_steps(averager, [&](GradientAverager& idle) { give_names(idle.shared(), visitor); });
}

sotto_status sotto_averager_load(sotto_averager* averager, uint64_t step, const sotto_value* values, size_t count) {
  return between_steps(averager, [&](GradientAverager& idle) { idle.load(step, read_values(values, count)); });
}

sotto_status sotto_averager_spread(sotto_averager* averager, uint64_t step, const sotto_former* formers, size_t count) {
  return between_steps(averager, [&](GradientAverager& idle) {
    std::vector<FormerState> states;
    for (const sotto_former& former : span_of(formers, count, "formers")) states.push_back(read_former(former));
    idle.spread(step, states);
  });
}
