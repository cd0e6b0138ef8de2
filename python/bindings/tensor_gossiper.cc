#include "python/bindings/tensor_gossiper.h"

#include <ATen/MemoryOverlap.h>
#include <fmt/format.h>

#include <cmath>

#include "python/bindings/errors.h"
#include "python/bindings/tensor_types.h"
#include "python/bindings/terms.h"
#include "sotto/core/error.h"
#include "sotto/core/hash.h"
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
    : options_(std::move(options)), communicator_(std::move(communicator)) {
  Terms terms;
  std::exception_ptr refusal;
  try {
    make(terms);
  } catch (const ConfigError& error) {
    refusal = std::make_exception_ptr(ConfigError(error.text(argument_spelling)));
  }
  require_same_terms(*communicator_, terms, refusal, "gossips with others than");
}

void TensorGossiper::make(Terms& terms) {
  Topology graph = make_topology(options_.topology, communicator_->size());
  mixing_ = make_mixing(options_.mixing, graph);
  terms = {{"what is averaged", "tensors"},
           {"topology", graph.text()},
           {"mixing", mixing_->text()},
           {"codec", options_.codec.source_text},
           {"seed", std::to_string(options_.seed)}};
  gossiper_.emplace(*communicator_, std::move(graph),
                    VectorGossiperOptions{options_.codec, mixing_, options_.seed,
                                          std::make_shared<ThreadPool>(options_.codec_threads)});
}

Consensus TensorGossiper::consensus() const { return sotto::consensus(gossiper_->topology(), *mixing_); }

double TensorGossiper::mix(const at::Tensor& tensor, double weight) {
  codec_type(tensor);
  if (at::has_internal_overlap(tensor) == at::MemOverlap::Yes)
    throw ConfigError(
        "several elements of the tensor are one place in memory, where a mean cannot be written; clone it");
  if (!(weight > 0) || !std::isfinite(weight)) throw ConfigError(fmt::format("weight={}: wants one above 0", weight));
  try {
    return checked_mix(tensor, weight);
  } catch (const std::exception& error) {
    communicator_->give_up(error.what());
    throw;
  }
}

double TensorGossiper::checked_mix(const at::Tensor& tensor, double weight) {
  communicator_->at_step(round());
  const bool own_memory = tensor.device().is_cpu() && tensor.scalar_type() == at::kFloat && !tensor.is_neg() &&
                          tensor.is_non_overlapping_and_dense();
  at::Tensor values = tensor.detach();
  if (!own_memory) values = values.to(at::kCPU, at::kFloat, false, /*copy=*/true).contiguous().resolve_neg();
  Hash mark;
  mark.add(fmt::format("{}: {}", round(), order_of(values)));
  communicator_->require_same(mark.value(), "it mixes another tensor, or is in another round");
  const double mixed = gossiper_->mix({values.data_ptr<float>(), static_cast<std::size_t>(values.numel())}, weight);
  if (!own_memory) tensor.detach().copy_(values);
  return mixed;
}

}  // namespace sotto::python
