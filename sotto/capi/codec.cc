#include "sotto/aggregate/recipe.h"
#include "sotto/capi/callers.h"
#include "sotto/capi/host_tensor.h"
#include "sotto/capi/tensor_codec.h"
#include "sotto/codec/contract.h"
#include "sotto/core/expression.h"

using namespace sotto;        // NOLINT(google-build-using-namespace): functions of C have none
using namespace sotto::capi;  // NOLINT(google-build-using-namespace)

struct sotto_codec {
  TensorCodec codec;
};

sotto_status sotto_codec_create(const char* codec, int threads, sotto_codec** made) {
  return guarded([&] {
    require(codec, "codec");
    require(made, "made");
    *made = new sotto_codec{TensorCodec(codec, read_threads(threads))};
  });
}

void sotto_codec_free(sotto_codec* codec) { delete codec; }

const char* sotto_codec_text(const sotto_codec* codec) { return codec->codec.text().c_str(); }

sotto_status sotto_codec_contract(sotto_codec* codec, const int64_t* shape, size_t dimensions, sotto_contract* contract,
                                  const sotto_sink* text) {
  return guarded([&] {
    require(codec, "codec");
    require(contract, "contract");
    const Contract made = codec->codec.contract(read_shape(shape, dimensions));
    static_assert(static_cast<int>(Contract::Kind::none) == SOTTO_NO_CONTRACT);
    *contract = {static_cast<sotto_contract_kind>(made.kind), made.omega, made.delta, made.linear ? 1 : 0};
    if (text != nullptr) give(describe(made), *text);
  });
}

sotto_status sotto_codec_facts(const char* name, const char* codec, const char* aggregator,
                               const sotto_parameter* parameters, size_t count, sotto_visitor visitor) {
  return guarded([&] {
    require(codec, "codec");
    const std::string option = text_or(name, "codec");
    const Expression asked = parse_expression("aggregator", text_or(aggregator, "auto"));
    const Recipe recipe = read_recipe(parse_expression(option, codec), &asked);
    const Recipe dense = without_codec(recipe);
    Recipe bare = recipe;
    bare.memory = {};
    Layout layout;
    for (const sotto_parameter& one : span_of(parameters, count, "parameters")) {
      layout.append("", read_shape(one.shape, one.dimensions));
    }
    const BucketPlan plan{0, count, {0, layout.size()}, layout};
    give("dense codec", dense.source_text, visitor);
    give("dense aggregator", text_of(dense.aggregator), visitor);
    give("momentum", momentum_of(recipe), visitor);
    give("memory", recipe.memory ? recipe.memory.source_text() : "", visitor);
    give("without memory", bare.text(), visitor);
    give("optimiser", recipe.optimiser == "auto" ? "" : recipe.optimiser, visitor);
    const auto spell = [](std::string_view of, std::string_view value) {
      return value.empty() ? named(of) : named(of, value);
    };
    give("warning", count == 0 ? "" : warning_about(recipe, {&plan, 1}, spell), visitor);
  });
}

sotto_status sotto_codec_encode(sotto_codec* codec, const sotto_tensor* tensor, uint64_t seed, uint32_t step,
                                sotto_sink sink) {
  return guarded([&] {
    require(codec, "codec");
    require(tensor, "tensor");
    std::vector<float> values = read_floats(*tensor);
    const TensorHead head{float_type_of(tensor->type), read_shape(tensor->shape, tensor->dimensions)};
    const auto bytes = codec->codec.encode(head, values, seed, step);
    sink.take(sink.context, bytes.data(), bytes.size());
  });
}

sotto_status sotto_codec_head(const void* data, size_t bytes, uint64_t most_elements, sotto_type* type, int64_t* shape,
                              size_t* dimensions) {
  return guarded([&] {
    require(type, "type");
    require(shape, "shape");
    require(dimensions, "dimensions");
    const TensorHead head =
        TensorCodec::read_head(std::as_bytes(span_of(static_cast<const char*>(data), bytes, "data")), most_elements);
    *type = type_of(head.type);
    *dimensions = head.shape.size();
    std::ranges::copy(head.shape, shape);
  });
}

sotto_status sotto_codec_decode(sotto_codec* codec, const void* data, size_t bytes, const sotto_tensor* into) {
  return guarded([&] {
    require(codec, "codec");
    require(into, "into");
    const auto given = std::as_bytes(span_of(static_cast<const char*>(data), bytes, "data"));
    const TensorHead head = TensorCodec::read_head(given, std::numeric_limits<std::int64_t>::max());
    if (head.type != float_type_of(into->type) || head.shape != read_shape(into->shape, into->dimensions)) {
      throw WireError("these bytes hold a tensor of another type or shape; sotto_codec_head() reads both");
    }
    std::vector<float> values(head.numel());
    codec->codec.decode(given, values);
    write_floats(values, *into, "what was decoded");
  });
}
