// The extension module sotto._C, on which the Python package is built. It takes and returns plain values, and lets
// other Python threads run during all long operations.
#include <ATen/ops/empty.h>
#include <pybind11/functional.h>
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>
#include <algorithm>
#include <functional>
#include <torch/csrc/distributed/c10d/reducer.hpp>

#include "adapters/c10d/process_group.h"
#include "python/bindings/connected.h"
#include "python/bindings/errors.h"
#include "python/bindings/hook.h"
#include "python/bindings/module.h"
#include "python/bindings/python_values.h"
#include "python/bindings/tensor_aggregate.h"
#include "python/bindings/tensor_types.h"
#include "sotto/aggregate/recipe.h"
#include "sotto/capi/tensor_codec.h"
#include "sotto/codec/contract.h"
#include "sotto/comm/group/meeting.h"
#include "sotto/core/error.h"
#include "sotto/core/version.h"

namespace sotto::python {
namespace {

using Released = py::call_guard<py::gil_scoped_release>;

// --- whole tensors -------------------------------------------------------------------------------------------------

py::bytes encode(TensorCodec& codec, const at::Tensor& tensor, std::uint64_t seed, std::uint32_t step) {
  std::vector<std::byte> bytes;
  {
    const py::gil_scoped_release released;
    const TensorHead head{codec_type(tensor), tensor.sizes().vec()};
    const at::Tensor values = tensor.detach().to(at::kCPU, at::kFloat).contiguous().resolve_neg();
    bytes = codec.encode(head, floats_of(values), seed, step);
  }
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

at::Tensor decode(const TensorCodec& codec, const py::buffer& data, std::size_t limit) {
  const py::buffer_info info = data.request();
  py::ssize_t step = info.itemsize;
  for (auto d = static_cast<std::size_t>(info.ndim); d-- > 0; step *= info.shape[d]) {
    if (info.shape[d] > 1 && info.strides[d] != step) {
      throw ConfigError("the bytes to decode do not lie one after the other; decode(bytes(data)) copies them");
    }
  }
  const std::span<const std::byte> bytes(static_cast<const std::byte*>(info.ptr),
                                         static_cast<std::size_t>(info.size * info.itemsize));
  const py::gil_scoped_release released;
  const TensorHead head = TensorCodec::read_head(bytes, limit);
  const at::Tensor values = at::empty(head.shape, at::kFloat);
  codec.decode(bytes, floats_of(values));
  return as_type(values, head.type, "what was decoded");
}

const char* name_of(Contract::Kind kind) {
  switch (kind) {
    case Contract::Kind::exact: return "exact";
    case Contract::Kind::rounding: return "rounding";
    case Contract::Kind::unbiased: return "unbiased";
    case Contract::Kind::contraction: return "contraction";
    case Contract::Kind::none: break;
  }
  return "none";
}

py::dict contract(const TensorCodec& codec, const std::vector<std::int64_t>& shape) {
  const Contract contract = [&] {
    const py::gil_scoped_release released;  // another thread may be encoding
    return codec.contract(shape);
  }();
  py::dict dict;
  dict["kind"] = name_of(contract.kind);
  dict["omega"] = contract.omega;
  dict["delta"] = contract.delta;
  dict["linear"] = contract.linear;
  dict["text"] = describe(contract);
  return dict;
}

// --- the hook ------------------------------------------------------------------------------------------------------

// (argument, parameters, [(first step, codec, aggregator)]) for each rule.
using LaneTuple =
    std::tuple<std::string, std::vector<std::size_t>, std::vector<std::tuple<std::uint64_t, std::string, std::string>>>;

std::vector<Lane> lanes_of(const std::vector<LaneTuple>& given) {
  std::vector<Lane> lanes;
  for (const auto& [name, parameters, phases] : given) {
    Lane& lane = lanes.emplace_back();
    lane.name = name;
    lane.parameters = parameters;
    for (const auto& [first, method, aggregator] : phases) {
      const Expression asked = parse_expression("aggregator", aggregator);
      lane.phases.push_back({first, sotto::read_recipe(parse_expression(name, method), &asked)});
    }
  }
  return lanes;
}

// Without the lanes.
HookOptions hook_options(const py::kwargs& given) {
  HookOptions options;
  read(given, "required_same", options.averager.required_same);
  read(given, "seed", options.averager.seed);
  read(given, "bucket_bytes", options.averager.bucket_bytes);
  read(given, "propagate", options.averager.propagate);
  read(given, "threads", options.averager.codec_threads);
  read(given, "check_replicas", options.check_replicas);
  read(given, "scale", options.loss_scale);
  read(given, "advice", options.advice);
  read(given, "problem", options.problem);
  return options;
}

// The recipe that the user gave to an option: "codec", or "rules['*.bias']".
Recipe recipe_of(const std::string& option, const std::string& method) {
  return sotto::read_recipe(parse_expression(option, method));
}

// Returns the text of `method` with the memory of the codec `maker`, so that it makes momentum in the same way.
std::string with_momentum(const std::string& method, const std::string& maker) {
  const MemorySpec memory = sotto::read_recipe(maker).memory;
  Recipe recipe = sotto::read_recipe(method);
  recipe.memory = {};
  return (memory ? memory.source_text() : "momentum") + " | " + recipe.text();
}

// The parameters whose gradients DDP reduces, in the order of its buckets.
std::vector<at::Tensor> reduced(const c10d::Reducer& reducer) {
  std::vector<at::Tensor> all;
  for (auto& bucket : reducer.get_grad_buckets(/*return_zero_tensors=*/false)) {
    const auto& parameters = bucket.getParameters();
    all.insert(all.end(), parameters.begin(), parameters.end());
  }
  return all;
}

// Without a reducer (null) the caller offers the gradients. _C.pyi has the arguments.
std::shared_ptr<Hook> attach(c10d::Reducer* reducer, const Group& group, const std::shared_ptr<Meeting>& meeting,
                             Hook::Parameters parameters, const py::kwargs& given) {
  Hook::check(parameters);
  HookOptions options = hook_options(given);
  const auto lanes = given["lanes"].cast<std::vector<LaneTuple>>();
  const auto timeout = given["timeout"].cast<double>();
  const py::gil_scoped_release released;
  return with_communicator(*group, meeting, timeout, [&](const std::shared_ptr<Communicator>& communicator) {
    options.averager.lanes = lanes_of(lanes);  // here: all ranks hear of a codec that one rank refuses
    std::shared_ptr<Hook> hook(new Hook(std::move(parameters), std::move(options), communicator), EndReleased());
    if (reducer != nullptr) Hook::attach(hook, *reducer);
    return hook;
  });
}

void load_hook(Hook& hook, std::uint64_t step, const py::dict& state) {
  const StateValues values = from_python(state);
  const py::gil_scoped_release released;
  hook.load(step, values);
}

// `states` are (rank, ranks, state).
void spread(Hook& hook, std::uint64_t step, const std::vector<std::tuple<int, int, py::dict>>& states) {
  std::vector<FormerState> former;
  former.reserve(states.size());
  for (const auto& [rank, ranks, state] : states) former.push_back({rank, ranks, from_python(state)});
  const py::gil_scoped_release released;
  hook.spread(step, former);
}

}  // namespace
}  // namespace sotto::python

PYBIND11_MODULE(_C, module) {
  using namespace sotto::python;
  bind_errors(module);
  module.attr("version") = std::string(sotto::version);

  py::class_<sotto::TensorCodec, std::unique_ptr<sotto::TensorCodec, EndReleased>>(module, "TensorCodec")
      .def(py::init<const std::string&, int, std::size_t>(), py::arg(), py::arg(),
           py::arg("most") = sotto::most_elements)
      .def_property_readonly("text", &sotto::TensorCodec::text)
      .def("contract", &contract)
      .def("encode", &encode)
      .def("decode", &decode);
  module.def(
      "aggregate",
      [](const at::Tensor& tensor, const std::string& op, const Group& group, const std::string& codec,
         const std::string& aggregator, std::uint64_t seed, double denominator, double timeout, std::size_t most) {
        const auto communicator = sotto::over_process_group(*group, milliseconds(timeout));
        return aggregate(tensor, {op, codec, aggregator, seed, denominator, most}, *communicator);
      },
      py::arg(), py::arg(), py::arg(), py::arg(), py::arg(), py::arg(), py::arg(), py::arg(),
      py::arg("most") = sotto::most_elements, Released());
  module.def(
      "refuse_aggregate",
      [](const Group& group, double timeout) {
        refuse_aggregate(*sotto::over_process_group(*group, milliseconds(timeout)));
      },
      Released());

  // The codec and the aggregator of dense steps.
  module.def("without_codec", [](const std::string& method, const std::string& aggregator) {
    const sotto::Recipe dense = sotto::without_codec(sotto::read_recipe(method, aggregator));
    return std::pair(dense.source_text, sotto::text_of(dense.aggregator));
  });
  // For parameters of these shapes, all in one bucket.
  module.def("warning_about", [](const std::string& option, const std::string& method,
                                 const std::vector<std::vector<std::int64_t>>& shapes) {
    sotto::Layout layout;
    for (const auto& shape : shapes) layout.append("", shape);
    const sotto::BucketPlan plan{0, shapes.size(), {0, layout.size()}, layout};
    return sotto::warning_about(recipe_of(option, method), {&plan, 1}, argument_spelling);
  });
  module.def("momentum_of", [](const std::string& option, const std::string& method) {
    return sotto::momentum_of(recipe_of(option, method));
  });
  module.def("with_momentum", &with_momentum);
  module.def("tied_optimiser", [](const std::string& option, const std::string& method) {
    const auto optimiser = recipe_of(option, method).optimiser;
    return optimiser == "auto" ? std::string() : optimiser;
  });

  py::class_<Hook, std::shared_ptr<Hook>>(module, "Hook")
      .def("identity", &Hook::identity, Released())
      .def("rank", &Hook::rank, Released())
      .def("ranks", &Hook::ranks, Released())
      .def("step", &Hook::step, Released())
      .def("stats", &stats_of<Hook>)
      .def("state", &state_of<Hook>)
      .def("gather", &gather_bytes<Hook>)
      .def("load", &load_hook)
      .def("shared", &Hook::shared, Released())
      .def("spread", &spread)
      .def("offer", &Hook::offer, Released())
      .def("wait", &Hook::wait, Released())
      .def("refuse", &Hook::refuse, Released());
  py::class_<sotto::Meeting, std::shared_ptr<sotto::Meeting>>(module, "Meeting")
      .def(py::init([](const Group& group) { return sotto::meet(*group); }), Released())
      .def("give_up", &sotto::Meeting::give_up, Released());
  module.def("reduced", &reduced);
  module.def("attach", &attach);
  bind_ranks(module);
  bind_member(module);
  bind_program(module);
}
