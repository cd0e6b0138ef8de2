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
    from_.resize(layout_.segments().size());
    into_.resize(from_.size());
  }
  const Layout& layout() const override { return layout_; }
  void read(std::span<float> into) const override {
    for (std::size_t i = 0; i < into_.size(); ++i) into_[i] = into.data() + layout_.segments()[i].offset;
    if (calls_.read(calls_.context, into_.data()) != 0) throw ConfigError("the caller's model cannot be read");
  }
  void write(std::span<const float> from) const override {
    for (std::size_t i = 0; i < from_.size(); ++i) from_[i] = from.data() + layout_.segments()[i].offset;
    if (calls_.write(calls_.context, from_.data()) != 0) throw ConfigError("the caller's model cannot be written");
  }

 private:
  sotto_model calls_;
  Layout layout_;
  mutable std::vector<float*> into_;  // places of parameters
  mutable std::vector<const float*> from_;
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
      own.required_same = read_terms(options.required_same, options.required_same_count);
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

int sotto_steps_failed(const sotto_steps* steps) { return steps->stepper.failed() ? 1 : 0; }
sotto_status sotto_steps_fail(sotto_steps* steps, const char* reason) {
  return with(steps, [&](Stepper& stepper) { stepper.refuse(text_or(reason, "the caller gave up")); });
}

sotto_status sotto_steps_take_average(sotto_steps* steps) {
  return with(steps, [](Stepper& stepper) { stepper.take_average(); });
}
sotto_status sotto_steps_show_mean(sotto_steps* steps) {
  return with(steps, [](Stepper& stepper) { stepper.show_mean(); });
}
sotto_status sotto_steps_show_own(sotto_steps* steps) {
  return with(steps, [](Stepper& stepper) { stepper.show_own(); });
}

sotto_status sotto_steps_average(sotto_steps* steps, const sotto_statistic* statistics, size_t count) {
  return with(steps, [&](Stepper& stepper) {
    std::vector<NamedDoubles> named;
    for (const auto& [name, shape, type, values, size] : span_of(statistics, count, "statistics")) {
      require(name, "the name of a statistic");
      named.push_back({name, text_or(shape, ""), text_or(type, ""), span_of(values, size, name)});
    }
    stepper.average(std::move(named));
  });
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

sotto_status sotto_steps_refuse_load(sotto_steps* steps) {
  return with(steps, [](Stepper& stepper) { stepper.refuse_load(); });
}
sotto_status sotto_steps_rejoin(sotto_steps* steps, uint64_t step, const sotto_former* former) {
  return with(steps, [&](Stepper& stepper) {
    require(former, "former");
    stepper.rejoin(step, read_former(*former));
  });
}

sotto_status sotto_steps_shared(sotto_steps* steps, sotto_visitor visitor) {
  return with(steps, [&](Stepper& stepper) { give_names(stepper.shared(), visitor); });
}
sotto_status sotto_steps_identity(sotto_steps* steps, int graph, sotto_sink sink) {
  return with(steps, [&](Stepper& stepper) { give(stepper.identity(graph != 0), sink); });
}
sotto_status sotto_steps_progress(sotto_steps* steps, uint64_t* of_ranks) {
  return with(steps, [&](Stepper& stepper) {
    require(of_ranks, "of_ranks");
    std::ranges::copy(stepper.steps(), of_ranks);
  });
}
sotto_status sotto_steps_gather(sotto_steps* steps, const void* data, size_t bytes, sotto_sink sink) {
  return with(steps, [&](Stepper& stepper) {
    const auto own = span_of(static_cast<const char*>(data), bytes, "data");
    for (const std::string& one : stepper.gather({own.data(), own.size()})) give(one, sink);
  });
}

sotto_status sotto_steps_stats(sotto_steps* steps, sotto_stats* stats) {
  return with(steps, [&](Stepper& stepper) { give(stepper.stats(), stats); });
}
sotto_status sotto_steps_methods(sotto_steps* steps, sotto_sink sink) {
  return with(steps, [&](Stepper& stepper) { give(stepper.methods(), sink); });
}

sotto_status sotto_algorithm_gossips(const char* algorithm, int* gossips) {
  return guarded([&] {
    require(algorithm, "algorithm");
    require(gossips, "gossips");
    *gossips = read_algorithm("algorithm", algorithm).entry->graph.used ? 1 : 0;
  });
}
