#include <utility>

#include "sotto/aggregate/recipe.h"
#include "sotto/algorithm/algorithm.h"
#include "sotto/capi/callers.h"
#include "sotto/capi/host_tensor.h"
#include "sotto/capi/stepper.h"
#include "sotto/topology/table.h"

using namespace sotto;        // NOLINT(google-build-using-namespace): functions of C have none
using namespace sotto::capi;  // NOLINT(google-build-using-namespace)

struct sotto_steps {
  Stepper stepper;
};

namespace {

class CallersModel final : public FlatModel {
 public:
  CallersModel(std::span<const sotto_parameter> parameters, const sotto_model& calls) : calls_(calls) {
    for (const auto& [name, type, dimensions, shape] : parameters) {
      require(name, "the name of a parameter");
      if (type != SOTTO_F32) throw ConfigError(std::string(name) + ": models are mixed in f32");
      layout_.append(name, read_shape(shape, dimensions));
    }
    if (layout_.numel() == 0) throw ConfigError("the model has no parameter");
    dense_.resize(layout_.numel());
  }
  const Layout& layout() const override { return layout_; }
  void read(std::span<float> into) const override {
    if (calls_.read(calls_.context, dense_.data()) != 0) throw ConfigError("the caller's model cannot be read");
    std::size_t at = 0;
    for (const Segment& segment : layout_.segments()) {
      const auto values = std::span(dense_).subspan(at, segment.numel());
      std::ranges::copy(values, into.begin() + static_cast<std::ptrdiff_t>(segment.offset));
      at += segment.numel();
    }
  }
  void write(std::span<const float> from) const override {
    std::size_t at = 0;
    for (const Segment& segment : layout_.segments()) {
      const auto values = from.subspan(segment.offset, segment.numel());
      std::ranges::copy(values, dense_.begin() + static_cast<std::ptrdiff_t>(at));
      at += segment.numel();
    }
    if (calls_.write(calls_.context, dense_.data()) != 0) throw ConfigError("the caller's model cannot be written");
  }

 private:
  sotto_model calls_;
  Layout layout_;
  mutable std::vector<float> dense_;  // without the padding between parameters
};

template <class F>
sotto_status with(sotto_steps* steps, F f) {
  return guarded([&] {
    require(steps, "steps");
    f(steps->stepper);
  });
}

}  // namespace

sotto_status sotto_steps_create(sotto_group* group, const char* algorithm, const sotto_parameter* parameters,
                                size_t parameter_count, sotto_model model, const sotto_steps_options* given,
                                sotto_steps** made) {
  return guarded([&] {
    require(group, "group");
    require(algorithm, "algorithm");
    require(reinterpret_cast<const void*>(model.read), "read of the model");
    require(reinterpret_cast<const void*>(model.write), "write of the model");
    require(made, "made");
    try {
      const auto options = read_options(given);
      StepperTexts texts{.algorithm = algorithm};
      texts.codec = text_or(options.codec, "none");
      texts.aggregator = text_or(options.aggregator, "auto");
      texts.topology = text_or(options.topology, "");
      texts.mixing = text_or(options.mixing, "");
      texts.peers_per_step = text_or(options.peers_per_step, "");
      texts.node_size = std::max(1, options.node_size);
      StepperOptions own = read_stepper_options(texts, group->communicator->size());
      if (given != nullptr) own.own.seed = options.seed;
      own.own.codec_threads = read_threads(options.threads);
      if (options.bucket_bytes > 0) own.bucket_bytes = options.bucket_bytes;
      auto callers = std::make_unique<CallersModel>(span_of(parameters, parameter_count, "parameters"), model);
      *made = new sotto_steps{Stepper(std::move(callers), std::move(own), group->communicator)};
    } catch (const std::exception& error) {
      group->communicator->give_up(error.what());
      throw;
    }
  });
}

void sotto_steps_free(sotto_steps* steps) { delete steps; }

sotto_status sotto_steps_begin(sotto_steps* steps, double learning_rate) {
  return with(steps, [&](Stepper& stepper) { stepper.begin(learning_rate); });
}
sotto_status sotto_steps_end(sotto_steps* steps) {
  return with(steps, [](Stepper& stepper) { stepper.end(); });
}
int sotto_steps_start_early(const sotto_steps* steps) { return steps->stepper.starts_early() ? 1 : 0; }

sotto_status sotto_steps_take_average(sotto_steps* steps) {
  return with(steps, [](Stepper& stepper) { stepper.take_average(); });
}
sotto_status sotto_steps_show_mean(sotto_steps* steps) {
  return with(steps, [](Stepper& stepper) { stepper.show_mean(); });
}
sotto_status sotto_steps_show_own(sotto_steps* steps) {
  return with(steps, [](Stepper& stepper) { stepper.show_own(); });
}

sotto_status sotto_steps_state(sotto_steps* steps, uint64_t* step, sotto_visitor visitor) {
  return with(steps, [&](Stepper& stepper) {
    require(step, "step");
    const StateValues state = stepper.state();
    *step = stepper.step();
    give(state, visitor);
  });
}
sotto_status sotto_steps_load(sotto_steps* steps, uint64_t step, const sotto_value* values, size_t count) {
  return with(steps, [&](Stepper& stepper) {
    StateValues state;
    try {
      state = read_values(values, count);
    } catch (const std::exception&) {
      stepper.refuse_load();
      throw;
    }
    stepper.load(step, state);
  });
}

sotto_status sotto_steps_stats(sotto_steps* steps, sotto_stats* stats) {
  return with(steps, [&](Stepper& stepper) { give(stepper.stats(), stats); });
}
sotto_status sotto_steps_methods(sotto_steps* steps, sotto_sink sink) {
  return with(steps, [&](Stepper& stepper) { give(stepper.methods(), sink); });
}
