#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <exception>

#include "sotto/aggregate/recipe.h"
#include "sotto/capi/callers.h"
#include "sotto/capi/host_tensor.h"
#include "sotto/capi/terms.h"
#include "sotto/core/floats.h"
#include "sotto/kernels/vector.h"

namespace sotto::capi {
namespace {

constexpr std::array<std::string_view, 4> ops{"avg", "sum", "min", "max"};

// One rank's part, before any message.
struct Part {
  DType type = DType::f32;  // of the tensor
  std::vector<std::int64_t> shape;
  std::vector<std::byte> values;           // in `form`
  DType form = DType::f32;                 // f32 if an aggregator averages it
  std::vector<BucketPlan> plans;           // one, or several if the tensor is too long for a message
  std::unique_ptr<Aggregator> aggregator;  // null: the values are combined as they are

  std::span<float> floats() {
    return {reinterpret_cast<float*>(values.data()), values.size() / sizeof(float)};  // made as floats
  }
  Bucket bucket(std::size_t index) {
    const BucketPlan& plan = plans[index];
    return {floats().subspan(plan.range.begin, plan.range.size()), &plan.layout, static_cast<std::uint16_t>(index)};
  }
};

bool is_whole(DType type) { return type == DType::i32 || type == DType::i64 || type == DType::u8; }

// Calls f(a value as a double) for one after the other, until it returns true.
template <class Number, class F>
void find_value(std::span<const std::byte> bytes, F f) {
  Number number{};
  for (std::size_t at = 0; at < bytes.size(); at += sizeof(number)) {
    std::memcpy(&number, &bytes[at], sizeof(number));
    if (f(static_cast<double>(number))) return;
  }
}

template <class F>
void find_value(std::span<const std::byte> bytes, DType type, F f) {
  switch (type) {
    case DType::f64: return find_value<double>(bytes, f);
    case DType::i32: return find_value<std::int32_t>(bytes, f);
    case DType::i64: return find_value<std::int64_t>(bytes, f);
    case DType::u8: return find_value<std::uint8_t>(bytes, f);
    case DType::f32: return find_value<float>(bytes, f);
    default: break;
  }
  std::vector<float> floats(bytes.size() / size_of(type));
  widen(bytes, type, 1, floats);
  find_value<float>(std::as_bytes(std::span(floats)), f);
}

std::vector<double> as_doubles(std::span<const std::byte> bytes, DType type) {
  std::vector<double> doubles;
  doubles.reserve(bytes.size() / size_of(type));
  find_value(bytes, type, [&](double value) {
    doubles.push_back(value);
    return false;
  });
  return doubles;
}

// `most` is the largest value that is allowed.
void require_finite(std::span<const std::byte> bytes, DType type, const std::string& what, std::string_view advice,
                    double most = std::numeric_limits<double>::max()) {
  if (is_whole(type)) return;
  std::size_t element = 0;
  find_value(bytes, type, [&](double value) {
    if (std::abs(value) <= most) return ++element, false;
    throw NumericError(fmt::format("{} holds {} in element {}{}", what, value, element, advice));
  });
}

// Throws the error that the aggregator would throw for these values, before the others wait for them. It uses a
// separate codec, because a codec may keep state. Random numbers depend on the key alone, so nothing else changes.
void try_codec(Part& part, const StageSpecs& stages, const Key& key, int ranks) {
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

// Makes the sum over all ranks. Whole numbers wrap, and are then far from the sum of the same values as doubles. The
// sum of doubles is made only if the largest values of all ranks add up to more than the type holds.
void sum_up(Part& part, Communicator& communicator) {
  std::vector<double> doubles;
  const double limit = std::exp2(8 * size_of(part.form) - (part.form == DType::u8 ? 0 : 1)) - 1;
  if (is_whole(part.form) && !part.values.empty()) {
    double own = 0, together = 0;
    find_value(part.values, part.form, [&](double value) {
      own = std::max(own, std::abs(value));
      return false;
    });
    for (const auto bits : of_all_ranks(communicator, std::bit_cast<std::uint64_t>(own))) {
      together += std::bit_cast<double>(bits);
    }
    if (together >= limit) doubles = as_doubles(part.values, part.form);
  }
  communicator.all_reduce(part.values, part.form, ReduceOp::sum);
  if (doubles.empty()) return;
  communicator.all_reduce(std::as_writable_bytes(std::span(doubles)), DType::f64, ReduceOp::sum);
  const std::vector<double> wrapped = as_doubles(part.values, part.form);
  for (std::size_t i = 0; i < doubles.size(); ++i) {
    if (std::abs(wrapped[i] - doubles[i]) <= limit) continue;
    throw NumericError(fmt::format("the sum of all ranks does not fit into {}; give a wider type, or smaller values",
                                   name_of(part.type)));
  }
}

Part part_of(const sotto_tensor* tensor, const sotto_aggregate_options& options, const Key& key,
             Communicator& communicator) {
  if (tensor == nullptr) throw ConfigError("this rank has no tensor to aggregate");
  if (options.op < SOTTO_AVG || options.op > SOTTO_MAX) throw ConfigError(named("op") + ": it is none of the four");
  if (!(options.denominator >= 0)) throw ConfigError(named("denominator") + ": wants a number above 0");
  const std::string codec = text_or(options.codec, "none"), aggregator = text_or(options.aggregator, "auto");
  Part part;
  part.type = type_of(tensor->type);
  part.shape = read_shape(tensor->shape, tensor->dimensions);
  part.values = read_bytes(*tensor);
  const bool averages = options.op == SOTTO_AVG, exact = codec == "none" && aggregator == "auto";
  if (exact && averages && is_whole(part.type)) {
    throw ConfigError(fmt::format("{} of a tensor of {}: means have fractions; give f64, or the op sum",
                                  named("op", "avg"), name_of(part.type)));
  }
  require_finite(part.values, part.type, fmt::format("rank {}: the tensor", communicator.rank()),
                 "; all must be finite");
  part.form = part.type;
  if (exact && (!averages || part.type == DType::f64)) return part;
  if (!exact && (options.op == SOTTO_MIN || options.op == SOTTO_MAX)) {
    throw ConfigError(named("op", ops[static_cast<std::size_t>(options.op)]) +
                      ": goes with codec none and aggregator auto alone");
  }
  float_type_of(tensor->type);
  std::vector<std::byte> floats(part.values.size() / size_of(part.type) * sizeof(float));
  std::swap(floats, part.values);
  widen(floats, part.type, 1, part.floats());  // so that sums of halves fit
  part.form = DType::f32;
  if (exact) return part;
  const Recipe recipe = read_recipe(codec, aggregator);
  if (recipe.memory) {
    throw ConfigError(named("codec", codec) + ": a single call has no memory; leave `" + recipe.memory.text() +
                      "` out, or use sotto.compress");
  }
  const Layout layout({{"tensor", 0, part.shape}}, part.floats().size());
  const std::size_t most = options.most == 0 ? most_elements : options.most;
  part.plans = plan_buckets(layout, std::numeric_limits<std::size_t>::max(), most);
  part.aggregator = make_aggregator(recipe, part.plans, communicator);
  try_codec(part, recipe.stages, key, communicator.size());
  return part;
}

// A refusal of one rank is an error of all, before any message whose room depends on the arguments.
void require_same_call(Communicator& communicator, const Terms& terms, const std::exception_ptr& refusal) {
  const auto all = of_all_ranks(communicator, refusal ? refusal_value : hash_of(terms));
  if (refusal) std::rethrow_exception(refusal);
  if (const auto one = std::ranges::find(all, refusal_value); one != all.end()) {
    throw ConfigError(
        fmt::format("rank {} refuses what it was given to aggregate; its own error says why", one - all.begin()));
  }
  if (const int other = first_to_differ(all); other >= 0) {
    throw ConfigError(fmt::format("rank {} aggregates another tensor than rank 0, or in another way: {}", other,
                                  difference(communicator, terms, other)));
  }
}

void combine_exactly(Part& part, const sotto_aggregate_options& options, Communicator& communicator) {
  if (options.op == SOTTO_MIN || options.op == SOTTO_MAX) {
    communicator.all_reduce(part.values, part.form, options.op == SOTTO_MIN ? ReduceOp::min : ReduceOp::max);
    return;
  }
  sum_up(part, communicator);
  if (options.op == SOTTO_SUM) return;
  const double by = options.denominator == 0 ? communicator.size() : options.denominator;
  if (part.form == DType::f32) {
    for (float& value : part.floats()) value /= static_cast<float>(by);
    return;
  }
  std::vector<double> means = as_doubles(part.values, part.form);
  for (double& mean : means) mean /= by;
  if (!means.empty()) std::memcpy(part.values.data(), means.data(), part.values.size());
}

void combine_messages(Part& part, const sotto_aggregate_options& options, const Key& key, Communicator& communicator) {
  Timings timings;
  for (std::size_t b = 0; b < part.plans.size(); ++b) {
    Bucket bucket = part.bucket(b);
    part.aggregator->average(bucket, key, {}, communicator, timings);
  }
  const auto ranks = static_cast<float>(communicator.size());
  if (options.op == SOTTO_SUM) kernels::scale(ranks, part.floats());
  if (options.denominator != 0) {
    kernels::scale(static_cast<float>(communicator.size() / options.denominator), part.floats());
  }
}

}  // namespace

void aggregate(const sotto_tensor* tensor, const sotto_aggregate_options& options, Communicator& communicator) {
  const PlainFloats plain;
  const Key key{options.seed, static_cast<std::uint16_t>(communicator.rank()), 0, 0};
  Part part;
  Terms terms;
  std::exception_ptr refusal;
  try {
    part = part_of(tensor, options, key, communicator);
    terms = {{"op", std::string(ops[static_cast<std::size_t>(options.op)])},
             {"codec", text_or(options.codec, "none")},
             {"aggregator", text_or(options.aggregator, "auto")},
             {"denominator", options.denominator == 0 ? "none" : fmt::format("{}", options.denominator)},
             {"seed", std::to_string(options.seed)},
             {"the type", std::string(name_of(part.type))},
             {"the shape", fmt::format("({})", fmt::join(part.shape, ", "))}};
  } catch (...) {
    refusal = std::current_exception();
  }
  require_same_call(communicator, terms, refusal);
  const std::string what = fmt::format("the {} of all ranks", ops[static_cast<std::size_t>(options.op)]);
  constexpr std::string_view advice = ": its type does not hold it, or the sum; give a wider one, or smaller values";
  if (part.aggregator) {
    combine_messages(part, options, key, communicator);
    require_finite(part.values, DType::f32, what, advice);
    return write_floats(part.floats(), *tensor, what.c_str());
  }
  combine_exactly(part, options, communicator);
  if (part.form != part.type) {
    std::vector<std::byte> narrowed(part.floats().size() * size_of(part.type));
    require_finite(part.values, DType::f32, what, advice, largest(part.type));
    narrow(part.floats(), part.type, 1, narrowed);
    part.values = std::move(narrowed);
  }
  require_finite(part.values, part.type, what, advice);
  write_bytes(part.values, *tensor);
}

}  // namespace sotto::capi
