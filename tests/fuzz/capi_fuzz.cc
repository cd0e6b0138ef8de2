// Fuzzes the C interface: an input is a list of calls, in any order, with wrong sizes, numbers, texts and states. A call
// returns; after an error there is a text. One half of the inputs is two lists, each on a separate thread with separate handles.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "sotto/capi/sotto.h"

#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

namespace {

class Input {
 public:
  explicit Input(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}
  bool ended() const { return bytes_.empty(); }
  unsigned byte() {
    if (bytes_.empty()) return 0;
    const unsigned value = bytes_.front();
    bytes_ = bytes_.subspan(1);
    return value;
  }
  template <class Value, std::size_t count>
  Value of(const std::array<Value, count>& values) {
    return values[byte() % count];
  }
  std::string text() {
    std::string value;
    for (unsigned left = byte() % 24; left > 0 && !ended(); --left) value.push_back(static_cast<char>(byte()));
    return value;
  }

 private:
  std::span<const std::uint8_t> bytes_;
};

using Text = const char*;
constexpr std::array<Text, 12> codecs{"none",  "int8", "ef | topk(0.5)", "qsgd(4) | rans", "power(1)", "topk(2)",
                                      nullptr, "",     "auto",           "f16",            "sign",     "ef | ef"};
constexpr std::array<Text, 6> aggregators{nullptr, "auto", "gather", "all_reduce", "scatter_reduce", "gathre"};
constexpr std::array<Text, 8> algorithms{"local(h=2)", "push_sum", "diloco(h=2)", "choco",
                                         "d_psgd",     "sync",     nullptr,       "local(h=0)"};
constexpr std::array<Text, 5> topologies{nullptr, "ring", "exponential", "graph(1)", "rign"};
constexpr std::array<double, 9> numbers{0, 1, -1, 0.5, 1e300, -1e300, NAN, INFINITY, 1e-40};
constexpr std::array<std::size_t, 7> sizes{0, 1, 4, 8, 1000, std::size_t{1} << 62, std::numeric_limits<std::size_t>::max()};
constexpr std::array<int, 8> counts{0, 1, 2, -1, 3, 1025, std::numeric_limits<int>::max(), std::numeric_limits<int>::min()};
constexpr std::array<std::int64_t, 7> dimensions{1, 2, 3, 0, -1, std::int64_t{1} << 62, std::numeric_limits<std::int64_t>::min()};
constexpr std::array<std::int64_t, 2> matrix{6, 4};
constexpr std::array<sotto_parameter, 3> parameters{
    {{"weight", SOTTO_F32, 2, matrix.data()}, {"bias", SOTTO_F16, 1, matrix.data()}, {"head", SOTTO_BF16, 2, matrix.data()}}};
constexpr std::array<std::size_t, 3> all{0, 1, 2};

// A handle that is freed, and what frees it.
template <class Handle>
using Owned = std::unique_ptr<Handle, void (*)(Handle*)>;

class Caller {
 public:
  explicit Caller(std::span<const std::uint8_t> bytes) : in_(bytes) {}

  void run() {
    for (int calls = 0; !in_.ended() && calls < 40; ++calls) call();
  }

 private:
  void call() {
    switch (in_.byte() % 8) {
      case 0: make(); break;
      case 1: codec(); break;
      case 2: aggregate(); break;
      case 3: gossip(); break;
      case 4:
      case 5: average(); break;
      default: mix(); break;
    }
  }

  void check(sotto_status status) {
    if (status == SOTTO_OK) return;
    if (*sotto_last_error(0) == '\0' || *sotto_last_error(1) == '\0') {
      std::fputs("an error without a text\n", stderr);
      std::abort();
    }
  }

  // The sizes of options that a caller may know; a wrong one.
  template <class Options>
  Options* sized(Options& options) {
    options.bytes = in_.byte() % 8 == 0 ? in_.of(sizes) : sizeof(Options);
    return in_.byte() % 8 == 0 ? nullptr : &options;
  }

  sotto_group* group() {
    if (groups_.size() < 4 && (groups_.empty() || in_.byte() % 8 == 0)) {
      sotto_store store{};
      check(sotto_store_open("", 0, 0, 1, nullptr, 0, &store));
      sotto_group* made = nullptr;
      check(sotto_group_create(&store, 0, 1, nullptr, &made));
      groups_.emplace_back(made, sotto_group_free);
    }
    return in_.byte() % 16 == 0 ? nullptr : groups_.back().get();
  }

  // A tensor whose memory is there, or whose form no tensor has.
  const sotto_tensor* tensor() {
    tensor_ = {memory_.data(), static_cast<int>(in_.byte() % 9) - 1, in_.byte() % 4, shape_.data(), nullptr};
    for (auto& size : shape_) size = in_.of(dimensions);
    for (std::size_t d = 0; d < 4; ++d) strides_[d] = in_.byte() % 28;
    if (in_.byte() % 2 == 0) tensor_.strides = strides_.data();
    if (in_.byte() % 32 == 0) tensor_.data = nullptr;
    if (in_.byte() % 32 == 0) tensor_.dimensions = in_.of(sizes) | 65;  // more than there may be
    return in_.byte() % 32 == 0 ? nullptr : &tensor_;
  }

  sotto_sink sink() {
    taken_.clear();
    return {[](void* to, const void* data, std::size_t bytes) {
              static_cast<std::string*>(to)->append(static_cast<const char*>(data), bytes);
            },
            &taken_};
  }
  sotto_visitor visitor(bool keep = false) {
    if (keep) kept_.clear();
    return {[](void* to, const sotto_value* value) {
              if (to == nullptr || value->data == nullptr) return;
              const std::size_t size = value->kind == SOTTO_FLOATS ? 4 : value->kind == SOTTO_BYTES ? 1 : 8;
              (*static_cast<Kept*>(to))[value->name] = {value->kind,
                                                        {static_cast<const char*>(value->data), size * value->count}};
            },
            keep ? &kept_ : nullptr};
  }
  // The last state, of whatever handle, with a mistake or two.
  std::vector<sotto_value> values() {
    std::vector<sotto_value> found;
    for (auto& [name, value] : kept_) {
      auto& [kind, bytes] = value;
      const std::size_t size = kind == SOTTO_FLOATS ? 4 : kind == SOTTO_BYTES ? 1 : 8;
      found.push_back({name.c_str(), kind, bytes.data(), bytes.size() / size});
      if (in_.byte() % 16 == 0) found.back().count /= 2;
      if (in_.byte() % 32 == 0) found.back().kind = SOTTO_BYTES;
    }
    if (!found.empty() && in_.byte() % 16 == 0) found.pop_back();
    return found;
  }

  void make() {
    switch (in_.byte() % 5) {
      case 0: {
        sotto_codec* made = nullptr;
        const std::string text = in_.text();
        check(sotto_codec_create(in_.byte() % 4 == 0 ? text.c_str() : in_.of(codecs), in_.of(counts), &made));
        codec_.reset(made);
        break;
      }
      case 1: {
        sotto_averager* made = nullptr;
        averager_.reset();
        std::array<sotto_phase, 2> phases{{{0, in_.of(codecs), in_.of(aggregators)}, {in_.byte() % 3, in_.of(codecs), nullptr}}};
        const sotto_rule rule{nullptr, all.data(), in_.byte() % 8 == 0 ? 2U : 3U, phases.data(), 1 + in_.byte() % 2};
        sotto_averager_options options{.seed = 3, .bucket_bytes = in_.of(sizes), .propagate = static_cast<int>(in_.byte() % 2)};
        options.threads = static_cast<int>(in_.byte() % 3);
        check(sotto_averager_create(group(), parameters.data(), 3, &rule, in_.byte() % 16 == 0 ? 0 : 1, sized(options), &made));
        averager_.reset(made);
        break;
      }
      case 2: {
        sotto_steps* made = nullptr;
        steps_.reset();
        sotto_steps_options options{.codec = in_.of(codecs), .aggregator = in_.of(aggregators), .topology = in_.of(topologies)};
        options.node_size = in_.of(counts);
        options.threads = static_cast<int>(in_.byte() % 3);
        std::array<sotto_parameter, 3> floats = parameters;
        if (in_.byte() % 8 != 0) floats[1].type = floats[2].type = SOTTO_F32;
        check(sotto_steps_create(group(), in_.of(algorithms), floats.data(), 3, model(), sized(options), &made));
        steps_.reset(made);
        break;
      }
      case 3: {
        sotto_gossiper* made = nullptr;
        gossiper_.reset();
        check(sotto_gossiper_create(group(), in_.of(topologies), nullptr, in_.of(codecs), 1, in_.of(counts), &made));
        gossiper_.reset(made);
        break;
      }
      default: {
        sotto_member* made = nullptr;
        const std::string text = in_.text();
        if (text.find(':') == std::string::npos) check(sotto_member_create(text.c_str(), nullptr, 0, nullptr, &made));
        sotto_member_free(made);
      }
    }
  }

  sotto_model model() {
    return {[](void* context, float* const* into) {
              for (int p = 0; p < 3; ++p) std::fill_n(into[p], p == 1 ? 6 : 24, static_cast<Caller*>(context)->weight_);
              return static_cast<Caller*>(context)->refuses_;
            },
            [](void* context, const float* const* from) {
              static_cast<Caller*>(context)->weight_ = from[0][0];
              return static_cast<Caller*>(context)->refuses_;
            },
            this};
  }

  void codec() {
    sotto_codec* const codec = codec_.get();
    if (in_.byte() % 2 == 0) {
      check(sotto_codec_encode(codec, tensor(), in_.byte(), in_.byte(), sink()));
      message_ = taken_;
    }
    if (!message_.empty() && in_.byte() % 2 == 0) message_[in_.byte() % message_.size()] ^= static_cast<char>(in_.byte());
    sotto_type type = 0;
    std::array<std::int64_t, SOTTO_MOST_DIMENSIONS> shape{};
    std::size_t rank = 0;
    const sotto_status head = sotto_codec_head(message_.data(), message_.size(), 1000, &type, shape.data(), &rank);
    check(head);
    const sotto_tensor into{memory_.data(), type, rank, shape.data(), nullptr};
    if (head == SOTTO_OK) check(sotto_codec_decode(codec, message_.data(), message_.size(), &into));
    sotto_contract contract{};
    check(sotto_codec_contract(codec, shape_.data(), in_.byte() % 4, &contract, nullptr));
    check(sotto_codec_facts(nullptr, in_.of(codecs), in_.of(aggregators), parameters.data(), 3, visitor()));
  }

  void aggregate() {
    sotto_aggregate_options options{.op = static_cast<int>(in_.byte() % 6) - 1, .denominator = in_.of(numbers)};
    options.codec = in_.of(codecs);
    options.aggregator = in_.of(aggregators);
    options.most = in_.of(sizes);
    options.timeout = in_.byte() % 8 == 0 ? in_.of(numbers) : 0;
    sotto_group* const own = group();
    if (steps_ == nullptr && averager_ == nullptr && gossiper_ == nullptr) check(sotto_aggregate(own, tensor(), sized(options)));
  }

  void gossip() {
    double weight = in_.of(numbers);
    const auto count = in_.byte() % 64;
    check(sotto_gossiper_mix(gossiper_.get(), reinterpret_cast<float*>(memory_.data()), count, nullptr, &weight));
    std::int64_t rounds = 0;
    check(sotto_gossiper_exact_after(gossiper_.get(), &rounds));
    check(sotto_gossiper_topology(gossiper_.get(), sink()));
  }

  void average() {
    sotto_averager* const averager = averager_.get();
    std::uint64_t step = in_.byte();
    sotto_stats stats{.bytes = sizeof(stats)};
    switch (in_.byte() % 12) {
      case 0: check(sotto_averager_begin(averager, in_.of(numbers), in_.byte() % 2 == 0 ? nullptr : &step)); break;
      case 1: check(sotto_averager_end(averager)); break;
      case 2: check(sotto_averager_wait(averager)); break;
      case 3: check(sotto_averager_fail(averager, "a reason")); break;
      case 4: check(sotto_averager_stats(averager, sized(stats))); break;
      case 5: check(sotto_averager_methods(averager, sink())); break;
      case 6: check(sotto_averager_state(averager, &step, visitor(true))); break;
      case 7: check(sotto_averager_load(averager, step, values().data(), values().size())); break;
      case 8: {
        const auto kept = values();
        const sotto_former former{in_.of(counts), in_.of(counts), kept.data(), kept.size()};
        check(sotto_averager_spread(averager, step, &former, 1));
        break;
      }
      case 9: {  // a whole step
        check(sotto_averager_begin(averager, 1, nullptr));
        for (const std::size_t p : all) post(p);
        check(sotto_averager_end(averager));
        check(sotto_averager_wait(averager));
        break;
      }
      default: post(in_.of(std::array<std::size_t, 5>{0, 1, 2, 3, std::numeric_limits<std::size_t>::max()}));
    }
  }
  void post(std::size_t parameter) {
    const sotto_gradient gradient{parameter, in_.byte() % 32 == 0 ? nullptr : gradients_[parameter % 3].data()};
    const sotto_bucket bucket{.gradients = &gradient, .count = in_.byte() % 16 == 0 ? 0U : 1U};
    check(sotto_averager_post(averager_.get(), in_.byte() % 32 == 0 ? nullptr : &bucket));
  }

  void mix() {
    sotto_steps* const steps = steps_.get();
    refuses_ = in_.byte() % 32 == 0 ? 1 : 0;
    std::uint64_t step = in_.byte();
    sotto_stats stats{.bytes = sizeof(stats)};
    switch (in_.byte() % 13) {
      case 0: check(sotto_steps_begin(steps, in_.of(numbers))); break;
      case 1: check(sotto_steps_end(steps)); break;
      case 2: check(sotto_steps_take_average(steps)); break;
      case 3: check(sotto_steps_show_mean(steps)); break;
      case 4: check(sotto_steps_show_own(steps)); break;
      case 5: {
        std::array<double, 3> vector{in_.of(numbers), 1, 2};
        const sotto_statistic statistic{in_.byte() % 8 == 0 ? nullptr : "mean", "(3)", "float32", vector.data(), in_.byte() % 4};
        check(sotto_steps_average(steps, &statistic, 1));
        break;
      }
      case 6: check(sotto_steps_state(steps, &step, visitor(true))); break;
      case 7: check(sotto_steps_load(steps, step, values().data(), values().size())); break;
      case 8: check(sotto_steps_identity(steps, static_cast<int>(in_.byte() % 2), sink())); break;
      case 9: check(sotto_steps_progress(steps, &step)); break;
      case 10: check(sotto_steps_stats(steps, sized(stats))); break;
      case 11: check(sotto_steps_fail(steps, "a reason")); break;
      default:
        check(sotto_steps_begin(steps, 0.1));
        weight_ += 1;
        check(sotto_steps_end(steps));
    }
  }

  Input in_;
  using Kept = std::map<std::string, std::pair<sotto_value_kind, std::string>>;
  Kept kept_;
  std::string taken_, message_;
  sotto_tensor tensor_{};
  std::array<std::int64_t, 4> shape_{}, strides_{};
  alignas(8) std::array<unsigned char, 8192> memory_{};
  alignas(8) std::array<std::array<unsigned char, 96>, 3> gradients_{};
  float weight_ = 1;
  int refuses_ = 0;
  std::vector<Owned<sotto_group>> groups_;  // what was made of them is freed before
  Owned<sotto_codec> codec_{nullptr, sotto_codec_free};
  Owned<sotto_averager> averager_{nullptr, sotto_averager_free};
  Owned<sotto_steps> steps_{nullptr, sotto_steps_free};
  Owned<sotto_gossiper> gossiper_{nullptr, sotto_gossiper_free};
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::uint8_t> bytes(data, size);
  const auto run = [](std::span<const std::uint8_t> part) { Caller(part).run(); };
  if (size == 0 || data[0] % 2 == 0) {
    run(bytes.subspan(std::min<std::size_t>(size, 1)));
  } else {
    std::thread other(run, bytes.subspan(size / 2));
    run(bytes.subspan(1, std::max<std::size_t>(size / 2, 1) - 1));
    other.join();
  }
  return 0;
}
