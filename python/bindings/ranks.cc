// The part of the extension module that mixes the models or tensors of ranks.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include "python/bindings/connected.h"
#include "python/bindings/errors.h"
#include "python/bindings/module.h"
#include "python/bindings/python_values.h"
#include "python/bindings/tensor_gossiper.h"
#include "python/bindings/tensor_model.h"
#include "sotto/algorithm/algorithm.h"
#include "sotto/capi/stepper.h"
#include "sotto/core/error.h"
#include "sotto/topology/table.h"

namespace sotto::python {
namespace {

using Released = py::call_guard<py::gil_scoped_release>;

StepperOptions stepper_options(const py::kwargs& given, int ranks) {
  const auto text = [&given](const char* name) { return given[name].cast<std::string>(); };
  StepperOptions options = read_stepper_options({.algorithm = text("algorithm"),
                                                 .codec = text("codec"),
                                                 .aggregator = text("aggregator"),
                                                 .topology = text("topology"),
                                                 .mixing = text("mixing"),
                                                 .peers_per_step = text("peers_per_step"),
                                                 .node_size = given["node_size"].cast<int>()},
                                                ranks);
  read(given, "required_same", options.required_same);
  read(given, "bucket_bytes", options.bucket_bytes);
  read(given, "seed", options.own.seed);
  read(given, "threads", options.own.codec_threads);
  return options;
}

std::shared_ptr<Stepper> make_stepper(const Group& group, const std::shared_ptr<Meeting>& meeting,
                                      std::vector<std::pair<std::string, at::Tensor>> parameters,
                                      const py::kwargs& given) {
  StepperOptions options = stepper_options(given, group->getSize());
  const auto timeout = given["timeout"].cast<double>();
  const py::gil_scoped_release released;
  auto model = std::make_unique<TensorModel>(std::move(parameters));  // refuses bad ones before ranks are connected
  return with_communicator(*group, meeting, timeout, [&](const std::shared_ptr<Communicator>& communicator) {
    return std::shared_ptr<Stepper>(new Stepper(std::move(model), std::move(options), communicator), EndReleased());
  });
}

std::shared_ptr<VectorGossip> make_gossiper(const Group& group, const std::shared_ptr<Meeting>& meeting,
                                            const std::string& topology, const std::string& mixing,
                                            const std::string& codec, std::uint64_t seed, int threads, double timeout) {
  return with_communicator(*group, meeting, timeout, [&](const std::shared_ptr<Communicator>& communicator) {
    const GossipOptions options{.topology = read_topology(topology),
                                .mixing = read_mixing(mixing),
                                .codec = read_recipe(codec),
                                .seed = seed,
                                .codec_threads = threads};
    return std::shared_ptr<VectorGossip>(new VectorGossip(options, communicator), EndReleased());
  });
}

// Contiguous tensors of floats on the CPU become their means over all ranks.
void average(Stepper& stepper, const std::vector<std::pair<std::string, at::Tensor>>& tensors) {
  std::vector<at::Tensor> doubles;
  std::vector<NamedDoubles> named;
  for (const auto& [name, tensor] : tensors) {
    const at::Tensor& values = doubles.emplace_back(tensor.to(at::kDouble, false, /*copy=*/true));
    named.push_back({name,
                     fmt::format("({})", fmt::join(tensor.sizes(), ", ")),
                     c10::toString(tensor.scalar_type()),
                     {values.data_ptr<double>(), static_cast<std::size_t>(values.numel())}});
  }
  stepper.average(named);
  for (std::size_t i = 0; i < tensors.size(); ++i) tensors[i].second.copy_(doubles[i]);
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
      .def("average", &average, Released())
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
