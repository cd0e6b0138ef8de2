// The part of the extension module that mixes the models or tensors of ranks.
#include <fmt/format.h>
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include "python/bindings/connected.h"
#include "python/bindings/errors.h"
#include "python/bindings/module.h"
#include "python/bindings/python_values.h"
#include "python/bindings/stepper.h"
#include "python/bindings/tensor_gossiper.h"
#include "sotto/algorithm/algorithm.h"
#include "sotto/core/error.h"
#include "sotto/topology/table.h"

namespace sotto::python {
namespace {

using Released = py::call_guard<py::gil_scoped_release>;

// `peers_per_step` is such as "0:1,1000:2"; 0 and 1000 are steps.
StepperOptions stepper_options(const py::kwargs& given, int all_ranks) {
  const auto text = [&given](const char* name) { return given[name].cast<std::string>(); };
  const Recipe recipe = read_recipe(text("codec"), text("aggregator"));
  const std::string algorithm = text("algorithm"), topology = text("topology");
  const std::string peers_per_step = text("peers_per_step");
  StepperOptions options{.algorithm = read_algorithm("algorithm", algorithm), .own = {}, .required_same = {}};
  read(given, "required_same", options.required_same);
  read(given, "bucket_bytes", options.bucket_bytes);
  read(given, "node_size", options.own.node_size);
  read(given, "seed", options.own.seed);
  read(given, "threads", options.own.codec_threads);
  options.own.averages_in_node = false;  // there are no gradients here; the package averages them in backward
  options.own.phases = {{0, recipe}};
  const AlgorithmEntry& entry = *options.algorithm.entry;
  options.own.topology = read_topology(topology.empty() ? entry.graph.topology : topology);
  options.own.mixing = read_mixing(text("mixing"));
  if (peers_per_step.empty()) return options;
  if (!entry.graph.changes) {
    throw ConfigError(
        fmt::format("{}: {} has no peers whose number may change; push_sum has", named("peers_per_step"), algorithm));
  }
  const int ranks = all_ranks / options.own.node_size;
  options.own.topologies = read_peer_schedule("peers_per_step", peers_per_step, options.own.topology, ranks);
  for (const TopologyPhase& phase : options.own.topologies) {
    check_graph(options.algorithm, phase.topology, options.own.mixing, ranks);
  }
  return options;
}

std::shared_ptr<Stepper> make_stepper(const Group& group, const std::shared_ptr<Meeting>& meeting,
                                      std::vector<std::pair<std::string, at::Tensor>> parameters,
                                      const py::kwargs& given) {
  StepperOptions options = stepper_options(given, group->getSize());
  const auto timeout = given["timeout"].cast<double>();
  const py::gil_scoped_release released;
  FlatModel model(std::move(parameters));  // refuses bad parameters before ranks are connected
  return with_communicator(*group, meeting, timeout, [&](const std::shared_ptr<Communicator>& communicator) {
    return std::shared_ptr<Stepper>(new Stepper(std::move(model), std::move(options), communicator), EndReleased());
  });
}

std::shared_ptr<VectorGossip> make_gossiper(const Group& group, const std::shared_ptr<Meeting>& meeting,
                                              const std::string& topology, const std::string& mixing,
                                              const std::string& codec, std::uint64_t seed, int threads,
                                              double timeout) {
  return with_communicator(*group, meeting, timeout, [&](const std::shared_ptr<Communicator>& communicator) {
    const GossipOptions options{.topology = read_topology(topology),
                                .mixing = read_mixing(mixing),
                                .codec = read_recipe(codec),
                                .seed = seed,
                                .codec_threads = threads};
    return std::shared_ptr<VectorGossip>(new VectorGossip(options, communicator), EndReleased());
  });
}

void load(Stepper& stepper, std::uint64_t step, const py::dict& state) {
  StateValues values;
  try {
    values = from_python(state);
  } catch (...) {  // any exception of Python
    const py::gil_scoped_release released;
    stepper.refuse_load();
    throw;
  }
  const py::gil_scoped_release released;
  stepper.load(step, values);
}

// `former` is (rank, ranks, state).
void rejoin(Stepper& stepper, std::uint64_t step, const std::tuple<int, int, py::dict>& former) {
  const auto& [rank, ranks, state] = former;
  const FormerState values{rank, ranks, from_python(state)};
  const py::gil_scoped_release released;
  stepper.rejoin(step, values);
}

}  // namespace

void bind_ranks(py::module_& module) {
  module.def("gossips",
             [](const std::string& algorithm) { return read_algorithm("algorithm", algorithm).entry->graph.used; });
  py::class_<Stepper, std::shared_ptr<Stepper>>(module, "Stepper")
      .def(py::init(&make_stepper))
      .def("begin", &Stepper::begin, Released())
      .def("end", &Stepper::end, Released())
      .def("starts_early", &Stepper::starts_early)
      .def("failed", &Stepper::failed)
      .def("take_average", &Stepper::take_average, Released())
      .def("show_mean", &Stepper::show_mean, Released())
      .def("show_own", &Stepper::show_own, Released())
      .def("average", &Stepper::average, Released())
      .def("identity", &Stepper::identity, py::arg("graph") = true)
      .def("rank", &Stepper::rank)
      .def("ranks", &Stepper::ranks)
      .def("step", &Stepper::step)
      .def("steps", &Stepper::steps, Released())
      .def("stats", &stats_of<Stepper>)
      .def("state", &state_of<Stepper>)
      .def("gather", &gather_bytes<Stepper>)
      .def("load", &load)
      .def("refuse_load", &Stepper::refuse_load, Released())
      .def("shared", &Stepper::shared)
      .def("rejoin", &rejoin)
      .def("refuse", &Stepper::refuse, Released());
  py::class_<VectorGossip, std::shared_ptr<VectorGossip>>(module, "Gossiper")
      .def(py::init(&make_gossiper), Released())
      .def("mix", &mix, Released())
      .def("round", &VectorGossip::round)
      .def("topology", &VectorGossip::topology)
      .def("exact_after", [](const VectorGossip& gossiper) { return gossiper.consensus().exact_after; })
      .def("rank", [](const VectorGossip& gossiper) { return gossiper.communicator().rank(); })
      .def("ranks", [](const VectorGossip& gossiper) { return gossiper.communicator().size(); });
}

}  // namespace sotto::python
