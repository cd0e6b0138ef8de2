#include "python/bindings/tensor_aggregate.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <exception>
#include <limits>
#include <memory>
#include <vector>

#include "python/bindings/tensor_types.h"
#include "sotto/aggregate/recipe.h"
#include "sotto/capi/terms.h"
#include "sotto/core/error.h"
#include "sotto/core/floats.h"
#include "sotto/kernels/vector.h"

namespace sotto::python {
namespace {

// One rank's part of aggregate(), before any message.
struct Part {
  at::Tensor values;                       // a copy; float32 if an aggregator averages it
  std::vector<BucketPlan> plans;           // one, or several if the tensor is too long for a message
  std::unique_ptr<Aggregator> aggregator;  // null: the values are summed as they are

  Bucket bucket(std::size_t index) const {
    const BucketPlan& plan = plans[index];
    return {floats_of(values).subspan(plan.range.begin, plan.range.size()), &plan.layout,
            static_cast<std::uint16_t>(index)};
  }
};

// Throws the error that the aggregator would throw for these values, before the others wait for them. It uses a
// separate codec, because a codec may keep state. Random numbers depend on the key alone, so nothing else changes.
void try_codec(const Part& part, const StageSpecs& stages, const Key& key, int ranks) {
  for (std::size_t b = 0; b < part.plans.size(); ++b) {
    const auto codec = make_codec(stages);
    const Layout& layout = part.plans[b].layout;
    if (codec->contract(layout).kind == Contract::Kind::exact) return;  // it takes all finite values
    const Bucket bucket = part.bucket(b);
    if (part.aggregator->name() == "all_reduce") {
      std::vector<std::byte> form(codec->linear_count(layout) * size_of(codec->traits().linear_type.value()));
      codec->to_linear(bucket, 1.0F / static_cast<float>(ranks), key, form);
      continue;
    }
    std::vector<float> agreed(codec->agreed_count(layout));
    codec->propose(bucket, agreed);
    const Range whole{0, layout.size()};
    Message message;
    codec->encode(bucket, key, agreed, {&whole, 1}, {&message, 1});
    codec->make_opened()->open(message.view(), layout, whole);  // as the others will do
  }
}

void require_finite(const at::Tensor& values, const std::string& what, std::string_view advice) {
  if (!at::isFloatingType(values.scalar_type())) return;
  const at::Tensor good = values.isfinite();
  if (good.all().item<bool>()) return;
  const auto at = good.flatten().to(at::kInt).argmin().item<std::int64_t>();
  throw NumericError(fmt::format("{} holds {} in element {}{}", what, values.flatten()[at].item<double>(), at, advice));
}

// The result of an op, the same on all ranks.
at::Tensor finite(const at::Tensor& result, const std::string& op) {
  require_finite(result, "the " + op + " of all ranks",
                 ": its type does not hold it, or the sum; give a wider one, or smaller values");
  return result;
}

// Makes the sum over all ranks, and returns whether the type holds it. Whole numbers wrap, and are then far from the
// sum of the same values as doubles. The sum of doubles is made only if the largest values of all ranks add up to more
// than the type holds.
bool sum_fits(at::Tensor& values, Communicator& communicator) {
  const DType type = *type_of(values.scalar_type());
  const double limit = std::exp2(8 * size_of(type) - (type == DType::u8 ? 0 : 1)) - 1;
  at::Tensor doubles;
  if (!at::isFloatingType(values.scalar_type()) && values.numel() > 0) {
    const auto [low, high] = values.aminmax();
    const double own = std::max(-low.item<double>(), high.item<double>());
    double together = 0;
    for (const auto bits : of_all_ranks(communicator, std::bit_cast<std::uint64_t>(own))) {
      together += std::bit_cast<double>(bits);
    }
    if (together >= limit) doubles = values.to(at::kDouble);
  }
  communicator.all_reduce(bytes_of(values), type, ReduceOp::sum);
  if (!doubles.defined()) return true;
  communicator.all_reduce(bytes_of(doubles), DType::f64, ReduceOp::sum);
  return (values.to(at::kDouble) - doubles).abs().max().item<double>() <= limit;
}

Part part_of(const at::Tensor& tensor, const Aggregation& how, const Key& key, const Communicator& communicator) {
  const auto& [op, codec, aggregator, seed, denominator, most] = how;
  if (tensor.is_nested()) throw ConfigError("a nested tensor cannot be aggregated; give its buffer, or each part");
  if (!type_of(tensor.scalar_type()) || tensor.layout() != at::kStrided) {
    throw ConfigError(fmt::format("a tensor of {}{} cannot be aggregated", c10::toString(tensor.scalar_type()),
                                  tensor.layout() == at::kStrided ? "" : " that is not dense"));
  }
  if (op != "avg" && op != "sum" && op != "min" && op != "max") {
    throw ConfigError("op is one of avg, sum, min, max; not " + op);
  }
  const auto copy = [&tensor](at::ScalarType type) {
    return tensor.detach().contiguous().to(at::kCPU, type, false, /*copy=*/true);
  };
  const bool exact = codec == "none" && aggregator == "auto";
  if (exact && op == "avg" && !at::isFloatingType(tensor.scalar_type())) {
    throw ConfigError(
        fmt::format("op=\"avg\" of a tensor of {}: means have fractions; give tensor.double(), or op=\"sum\"",
                    c10::toString(tensor.scalar_type())));
  }
  require_finite(tensor.detach(), fmt::format("rank {}: the tensor", communicator.rank()), "; all must be finite");
  if (exact) {
    const bool wider = op == "avg" && tensor.scalar_type() != at::kDouble;  // so that sums of halves fit
    return {copy(wider ? at::kFloat : tensor.scalar_type()), {}, nullptr};
  }
  if (op == "min" || op == "max") {
    throw ConfigError("op=\"" + op + "\" goes with codec=\"none\" and aggregator=\"auto\" alone");
  }
  const Recipe recipe = read_recipe(codec, aggregator);
  if (recipe.memory) {
    throw ConfigError(named("codec", codec) + ": a single call has no memory; leave `" + recipe.memory.text() +
                      "` out, or use sotto.compress");
  }
  codec_type(tensor);
  Part part{copy(at::kFloat), {}, nullptr};
  const Layout layout({{"tensor", 0, tensor.sizes().vec()}}, static_cast<std::size_t>(part.values.numel()));
  part.plans = plan_buckets(layout, std::numeric_limits<std::size_t>::max(), most);
  part.aggregator = make_aggregator(recipe, part.plans, communicator);
  try_codec(part, recipe.stages, key, communicator.size());
  return part;
}

// A refusal of one rank is an error of all, before any message whose room depends on the arguments.
void require_same_call(Communicator& communicator, const Terms& terms, const std::exception_ptr& refusal) {
  const auto all = of_all_ranks(communicator, refusal ? refused : hash_of(terms));
  if (refusal) std::rethrow_exception(refusal);
  if (const auto one = std::ranges::find(all, refused); one != all.end()) {
    throw ConfigError(
        fmt::format("rank {} refuses what it was given to aggregate; its own error says why", one - all.begin()));
  }
  if (const int other = first_to_differ(all); other >= 0) {
    throw ConfigError(fmt::format("rank {} aggregates another tensor than rank 0, or in another way: {}", other,
                                  difference(communicator, terms, other)));
  }
}

}  // namespace

at::Tensor aggregate(const at::Tensor& tensor, const Aggregation& how, Communicator& communicator) {
  const PlainFloats floats;
  const Key key{how.seed, static_cast<std::uint16_t>(communicator.rank()), 0, 0};
  Part part;
  Terms terms;
  std::exception_ptr refusal;
  try {
    part = part_of(tensor, how, key, communicator);
    terms = {{"op", how.op},
             {"codec", how.codec},
             {"aggregator", how.aggregator},
             {"denominator", how.denominator == 0 ? "None" : fmt::format("{}", how.denominator)},
             {"seed", std::to_string(how.seed)},
             {"the type", c10::toString(tensor.scalar_type())},
             {"the shape", fmt::format("({})", fmt::join(tensor.sizes(), ", "))}};
  } catch (...) {
    refusal = std::current_exception();
  }
  require_same_call(communicator, terms, refusal);
  if (!part.aggregator) {
    if (how.op == "min" || how.op == "max") {
      communicator.all_reduce(bytes_of(part.values), *type_of(part.values.scalar_type()),
                              how.op == "min" ? ReduceOp::min : ReduceOp::max);
    } else if (!sum_fits(part.values, communicator)) {
      throw NumericError(fmt::format("the sum of all ranks does not fit into {}; give a wider type, or smaller values",
                                     c10::toString(tensor.scalar_type())));
    }
    if (how.op == "avg") part.values.div_(how.denominator == 0 ? communicator.size() : how.denominator);
    return finite(part.values.to(tensor.scalar_type()), how.op);
  }
  Timings timings;
  for (std::size_t b = 0; b < part.plans.size(); ++b) {
    Bucket bucket = part.bucket(b);
    part.aggregator->average(bucket, key, {}, communicator, timings);
  }
  const auto values = floats_of(part.values);
  if (how.op == "sum") kernels::scale(static_cast<float>(communicator.size()), values);
  if (how.denominator != 0) kernels::scale(static_cast<float>(communicator.size() / how.denominator), values);
  return finite(as_type(part.values, codec_type(tensor), "the " + how.op + " of all ranks"), how.op);
}

void refuse_aggregate(Communicator& communicator) { of_all_ranks(communicator, refused); }

}  // namespace sotto::python
