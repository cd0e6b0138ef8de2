#include "python/bindings/tensor_gossiper.h"

#include <fmt/format.h>

#include <cmath>

#include "python/bindings/errors.h"
#include "python/bindings/tensor_types.h"
#include "python/bindings/terms.h"
#include "sotto/core/error.h"
#include "sotto/core/hash.h"
#include "sotto/core/plain_floats.h"
#include "sotto/topology/table.h"

namespace sotto::python {
namespace {

// Two tensors with the same text have the same element at each place in memory.
std::string order_of(const at::Tensor& values) {
  std::string text;
  for (std::int64_t d = 0; d < values.dim(); ++d) {
    text += fmt::format("{}:{} ", values.size(d), values.size(d) > 1 ? values.stride(d) : 0);
  }
  return text;
}

}  // namespace

TensorGossiper::TensorGossiper(TensorGossiperOptions options, std::shared_ptr<Communicator> communicator)
    : options_(std::move(options)),
      communicator_(std::move(communicator)),
      pool_(std::make_shared<ThreadPool>(options_.codec_threads)) {
  Terms terms;
  std::exception_ptr refusal;
  try {
    const Topology graph = make_graph();
    gossiper_of(at::Tensor());  // refuses impossible options now
    terms = {{"what is averaged", "tensors"},
             {"topology", graph.sentence()},
             {"mixing", make_mixing(options_.mixing, graph)->sentence()},
             {"codec", options_.codec.said},
             {"seed", std::to_string(options_.seed)}};
  } catch (const ConfigError& error) {
    refusal = std::make_exception_ptr(ConfigError(error.text(argument_spelling)));
  }
  require_same_terms(*communicator_, terms, refusal, "gossips with others than");
}

Topology TensorGossiper::make_graph() const { return make_topology(options_.topology, communicator_->size()); }

Consensus TensorGossiper::consensus() const {
  const Topology graph = make_graph();
  return sotto::consensus(graph, *make_mixing(options_.mixing, graph));
}

Gossiper& TensorGossiper::gossiper_of(const at::Tensor& tensor) {
  Layout layout;
  if (tensor.defined()) {
    layout = Layout({{"tensor", 0, memory_shape(tensor)}}, static_cast<std::size_t>(tensor.numel()));
  }
  if (!gossiper_ || layout != layout_) {
    const auto graph = std::make_shared<const Topology>(make_graph());
    layout_ = std::move(layout);
    gossiper_.emplace(options_.codec, graph, make_mixing(options_.mixing, *graph), layout_, communicator_->rank(),
                      pool_);
  }
  return *gossiper_;
}

double TensorGossiper::mix(const at::Tensor& tensor, double weight) {
  try {
    return checked_mix(tensor, weight);
  } catch (const std::exception& error) {
    communicator_->give_up(error.what());
    throw;
  }
}

double TensorGossiper::checked_mix(const at::Tensor& tensor, double weight) {
  const PlainFloats floats;
  communicator_->at_step(round_);
  codec_type(tensor);
  if (!(weight > 0) || !std::isfinite(weight)) throw ConfigError(fmt::format("weight={}: wants one above 0", weight));
  const bool own_memory =
      tensor.device().is_cpu() && tensor.scalar_type() == at::kFloat && tensor.is_non_overlapping_and_dense();
  at::Tensor values = tensor.detach();
  if (!own_memory) values = values.to(at::kCPU, at::kFloat, false, /*copy=*/true).contiguous();
  Gossiper& gossiper = gossiper_of(values);
  Hash mark;
  mark.add(fmt::format("{}: {}", round_, order_of(values)));
  communicator_->require_same(mark.value(), "it mixes another tensor, or is in another round");
  GossipNote note{.weight = weight};
  Timings unused;
  const Key key{options_.seed, static_cast<std::uint16_t>(communicator_->rank()), 0,
                static_cast<std::uint32_t>(round_)};
  gossiper.mix({values.data_ptr<float>(), static_cast<std::size_t>(values.numel())}, note, key, *communicator_, unused);
  ++round_;
  if (!own_memory) tensor.detach().copy_(values);
  return note.weight;
}

}  // namespace sotto::python
