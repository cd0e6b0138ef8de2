#include "sotto/algorithm/server/links.h"

#include <fmt/format.h>

#include "sotto/aggregate/memory/momentum.h"

namespace sotto {

Uplink::Uplink(const Recipe& recipe, std::shared_ptr<ThreadPool> pool, std::span<const BucketPlan> buckets, int ranks)
    : memory_(make_memory(recipe.memory, {buckets, ranks})),
      codec_(make_codec(recipe.stages, std::move(pool))),
      opened_(codec_->make_opened()) {
  check_uplink(recipe, buckets);
}

void Uplink::send(const Bucket& gradient, const Key& key, const StepContext& step, int server, Mailbox& mailbox,
                  Timings& timings) {
  Timer timer;
  const Range whole{0, gradient.values.size()};
  Bucket prepared = memory_->prepare(gradient, step, {});
  codec_->encode(prepared, key, {}, {&whole, 1}, {&message_, 1});
  timings.encode += timer.lap();
  mailbox.send(server, message_.bytes());
  timings.network += timer.lap();
  if (memory_->remembers()) {
    opened_->open(message_.view(), *prepared.layout, whole);
    memory_->settle(prepared, *opened_);
  }
  timings.encode += timer.lap();
}

void Uplink::visit_state(StateVisitor& visitor) {
  memory_->visit_state(visitor);
  codec_->visit_state(visitor);
}

void check_uplink(const Recipe& recipe, std::span<const BucketPlan> buckets) {
  const auto refuse = [&](std::string_view why) {
    throw ConfigError(fmt::format("{}: {}", named(recipe.option, recipe.source_text), why));
  };
  if (recipe.by_itself()) {
    refuse(fmt::format("`{}` is made by all ranks together, and a server decodes the messages of each one by one",
                       recipe.aggregator.text()));
  }
  if (recipe.aggregator) {
    refuse(fmt::format("it is published with the aggregator `{}`, and a server makes means; write its parts instead",
                       recipe.aggregator.text()));
  }
  if (is_momentum_of_mean(recipe.memory)) {
    refuse(
        "`momentum(mean=true)` is made of the mean gradient, and a server alone has the mean; leave `mean` out, and "
        "each worker makes the momentum of its own gradients");
  }
  const auto codec = make_codec(recipe.stages);
  for (const BucketPlan& bucket : buckets) {
    if (codec->agreed_count(bucket.layout) > 0) refuse("ranks agree on its scales first, and workers do not meet");
  }
}

namespace {

// Why a codec cannot be used on differences of models; empty if it can.
std::string objection(const Codec& codec, std::span<const BucketPlan> buckets) {
  for (const BucketPlan& bucket : buckets) {
    const Contract contract = codec.contract(bucket.layout);
    if (contract.kind == Contract::Kind::exact) continue;
    if (contract.input == Contract::Input::gradient) return "it is for gradients alone, not for differences of models";
    if (codec.agreed_count(bucket.layout) > 0) return "it wants ranks to agree on its scales";
    if (contraction_of(contract) == 0) {
      return "what it leaves out of a difference may be as large as that; a contraction is wanted, as topk, sign or "
             "qsgd(bits=4)";
    }
  }
  return "";
}

}  // namespace

Downlink::Downlink(const StageSpecs& codec, std::shared_ptr<ThreadPool> pool, std::span<const BucketPlan> buckets)
    : codec_(make_codec(codec, std::move(pool))), opened_(codec_) {
  sends_models_ = std::ranges::all_of(
      buckets, [&](const BucketPlan& bucket) { return codec_->contract(bucket.layout).kind == Contract::Kind::exact; });
}

std::size_t Downlink::max_bytes(const Shard& shard) const {
  std::size_t sum = 0;
  for (const Shard::Part& part : shard.parts()) sum += codec_->max_bytes(part.plan.layout, part.whole());
  return sum;
}

void Downlink::encode(const Shard& shard, std::vector<float>& model, std::vector<float>& known, const Key& key,
                      std::vector<std::byte>& out) {
  if (!sends_models_) {
    difference_.resize(shard.size());
    std::ranges::transform(model, known, difference_.begin(), std::minus<>());
  }
  for (const Shard::Part& part : shard.parts()) {
    const Range whole = part.whole();
    codec_->encode(Shard::bucket(sends_models_ ? model : difference_, part), key, {}, {&whole, 1}, {&message_, 1});
    if (!sends_models_) {
      Bucket follows = Shard::bucket(known, part);
      opened_[0].open(message_.view(), part.plan.layout, whole);
      opened_[0].add_to(follows, 1);
    }
    out.insert(out.end(), message_.bytes().begin(), message_.bytes().end());
  }
}

void Downlink::decode(const Shard& shard, std::span<const std::byte> bytes, Expected expected, std::span<float> flat) {
  for (std::size_t i = 0; i < shard.parts().size(); ++i) {
    const Shard::Part& part = shard.parts()[i];
    expected.bucket = part.index;
    const MessageView message = MessageView::parse(bytes);
    message.expect(expected);
    opened_[i].open(message, part.plan.layout, part.whole());
    bytes = bytes.subspan(message.size());
  }
  if (!bytes.empty()) throw WireError(fmt::format("{} bytes too many after the model", bytes.size()));
  for (std::size_t i = 0; i < shard.parts().size(); ++i) {
    const Shard::Part& part = shard.parts()[i];
    Bucket bucket{flat.subspan(part.plan.range.begin, part.own.size()), &part.plan.layout, part.index};
    if (sends_models_) std::ranges::fill(bucket.values, 0.0F);
    opened_[i].add_to(bucket, 1);
  }
}

StageSpecs read_downlink(const std::string& text) {
  // Parentheses around a codec let it hold a `|`.
  const bool wrapped = text.front() == '(' && text.back() == ')';
  const Recipe recipe = read_recipe(parse_expression("algorithm", wrapped ? text.substr(1, text.size() - 2) : text));
  if (recipe.by_itself() || recipe.memory) {
    throw ConfigError(fmt::format(
        "down={}: what a difference leaves out is in the next one, so no memory and no aggregator can stand in it",
        text));
  }
  return recipe.stages;
}

StageSpecs downlink_codec(const std::optional<StageSpecs>& asked, const StageSpecs& uplink,
                          std::span<const BucketPlan> buckets) {
  const auto codec = make_codec(asked.value_or(uplink));
  const std::string why = objection(*codec, buckets);
  if (why.empty()) return codec->traits().stages;
  if (asked) {
    throw ConfigError(fmt::format("{}: down={}: {}", named("algorithm", "parameter_server"), text_of(*asked), why));
  }
  return make_codec({})->traits().stages;
}

}  // namespace sotto
