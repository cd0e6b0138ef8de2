#include "sotto/codec/measure.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>
#include <numeric>

#include "sotto/core/floats.h"
#include "sotto/core/random.h"
#include "sotto/core/timer.h"

namespace sotto {
namespace {

constexpr float spread = 0.01F;  // a rough standard deviation of gradients

// Two standard normal numbers from two uniform ones (Box-Muller).
struct Pair {
  float a, b;
};

Pair normal_pair(const ElementStream& stream, std::uint32_t i) {
  const float radius = std::sqrt(-2.0F * std::log(1.0F - stream.uniform(i)));
  const float angle = 2.0F * std::numbers::pi_v<float> * stream.uniform(i + 1);
  return {radius * std::cos(angle), radius * std::sin(angle)};
}

ElementStream sample_stream(std::uint64_t seed) { return element_stream(seed, Purpose::test, 0, 0, 0); }

void fill_gaussian(std::uint64_t seed, std::span<float> out) {
  const ElementStream stream = sample_stream(seed);
  for (std::size_t i = 0; i < out.size(); i += 2) {
    const Pair normal = normal_pair(stream, static_cast<std::uint32_t>(i));
    out[i] = spread * normal.a;
    if (i + 1 < out.size()) out[i + 1] = spread * normal.b;
  }
}

void fill_student(std::uint64_t seed, std::span<float> out) {
  const ElementStream stream = sample_stream(seed);
  for (std::size_t i = 0; i < out.size(); ++i) {
    const auto draw = static_cast<std::uint32_t>(4 * i);
    const Pair x = normal_pair(stream, draw);
    const Pair y = normal_pair(stream, draw + 2);
    out[i] = spread * x.a / std::sqrt((x.b * x.b + y.a * y.a + y.b * y.b) / 3.0F + 1e-12F);
  }
}

void fill_sparse(std::uint64_t seed, std::span<float> out) {
  fill_gaussian(seed, out);
  const ElementStream stream = sample_stream(~seed);
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (stream.uniform(static_cast<std::uint32_t>(i)) >= 0.05F) out[i] = 0;
  }
}

constexpr std::array entries{
    SampleEntry{"gaussian", "normal, standard deviation 0.01", fill_gaussian},
    SampleEntry{"student", "Student's t with 3 degrees of freedom, times 0.01: heavy tails, as gradients have",
                fill_student},
    SampleEntry{"sparse", "normal, 95 % of the elements zero", fill_sparse},
};
constexpr Table<SampleEntry> table("sample", entries);

}  // namespace

const Table<SampleEntry>& sample_table() { return table; }

void fill_sample(std::string_view option, std::string_view name, std::uint64_t seed, std::span<float> out) {
  table.require(option, name).fill(seed, out);
}

namespace {

double square_distance(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double difference = static_cast<double>(a[i]) - b[i];
    sum += difference * difference;
  }
  return sum;
}

struct Seconds {
  double encode = 0, decode = 0, copy = 0;
};

// A codec, its buffers for one message, and the measurements so far.
class Subject {
 public:
  explicit Subject(Codec& codec) : codec_(codec), opened_(codec.make_opened()) {}

  // Encodes a bucket and decodes it into another one.
  Seconds run(const Bucket& bucket, Bucket& out, const Key& key) {
    const std::array<Range, 1> parts{Range{0, bucket.layout->size()}};
    Seconds seconds;
    Timer timer;
    std::memcpy(out.values.data(), bucket.values.data(), bucket.values.size_bytes());
    seconds.copy = timer.lap();
    agreed_.resize(codec_.agreed_count(*bucket.layout));
    if (!agreed_.empty()) codec_.propose(bucket, agreed_);
    codec_.encode(bucket, key, agreed_, parts, messages_);
    seconds.encode = timer.lap();
    std::ranges::fill(out.values, 0.0F);
    timer.lap();
    opened_->open(messages_[0].view(), *out.layout, parts[0]);
    opened_->add_to(out, 1.0F);
    seconds.decode = timer.lap();
    return seconds;
  }

  std::size_t message_bytes() const { return messages_[0].bytes().size(); }
  MessageReader& opened() { return *opened_; }

  std::vector<double> encode, decode, copy;  // of the repeats
  std::size_t bytes = 0;
  double error = 0;

 private:
  Codec& codec_;
  std::unique_ptr<MessageReader> opened_;
  std::vector<float> agreed_;
  std::array<Message, 1> messages_;
};

// Called in the last repeat for each codec and each bucket, with its message and the decoded values.
using DecodedBucket =
    std::function<void(std::size_t codec, std::size_t bucket, MessageReader& message, std::span<const float> values)>;

std::vector<Measurement> measure_all(std::span<Codec* const> codecs, std::span<const BucketPlan> plans,
                                     std::span<const float> input, int repeats, const DecodedBucket& decoded_bucket) {
  std::size_t longest = 0;
  for (const BucketPlan& plan : plans) longest = std::max(longest, plan.range.size());
  std::vector<float> decoded(longest);
  // A Bucket is writable, but no codec changes the input of encode().
  const std::span<float> values(const_cast<float*>(input.data()), input.size());
  std::vector<Subject> subjects;
  for (Codec* const codec : codecs) subjects.emplace_back(*codec);

  for (int repeat = -1; repeat < repeats; ++repeat) {  // the first warms up
    for (std::size_t s = 0; s < subjects.size(); ++s) {
      Subject& subject = subjects[s];
      Seconds all;
      for (std::size_t b = 0; b < plans.size(); ++b) {
        const Range range = plans[b].range;
        const auto index = static_cast<std::uint16_t>(b);
        const Bucket bucket{values.subspan(range.begin, range.size()), &plans[b].layout, index};
        Bucket out{std::span(decoded).first(range.size()), &plans[b].layout, index};
        const Seconds seconds = subject.run(bucket, out, Key{.step = static_cast<std::uint32_t>(repeat + 1)});
        if (repeat < 0) continue;
        all.copy += seconds.copy;
        all.encode += seconds.encode;
        all.decode += seconds.decode;
        subject.bytes += subject.message_bytes();
        subject.error += square_distance(out.values, bucket.values);
        if (decoded_bucket && repeat + 1 == repeats) decoded_bucket(s, b, subject.opened(), out.values);
      }
      if (repeat < 0) continue;
      subject.copy.push_back(all.copy);
      subject.encode.push_back(all.encode);
      subject.decode.push_back(all.decode);
    }
  }

  std::size_t elements = 0;  // without those between segments, which are in no message
  for (const BucketPlan& plan : plans) elements += plan.layout.numel();
  const double bytes = static_cast<double>(elements * sizeof(float));
  const double norm =
      std::transform_reduce(input.begin(), input.end(), 0.0, std::plus<>(), [](double x) { return x * x; });
  std::vector<Measurement> results;
  for (Subject& subject : subjects) {
    Measurement& result = results.emplace_back();
    result.elements = elements;
    result.bytes = subject.bytes / static_cast<std::size_t>(repeats);
    result.encode_gbps = bytes * 1e-9 / median(subject.encode);
    result.decode_gbps = bytes * 1e-9 / median(subject.decode);
    result.memcpy_gbps = bytes * 1e-9 / median(subject.copy);
    result.ratio = bytes / static_cast<double>(result.bytes);
    result.relative_error = norm > 0 ? std::sqrt(subject.error / repeats / norm) : 0;
  }
  return results;
}

void require_measurable(const Layout& layout, std::span<const float> input, int repeats) {
  if (input.size() != layout.size()) throw std::logic_error("measure: vector and layout differ");
  if (repeats < 1) throw std::logic_error("measure: at least one repeat");
}

}  // namespace

std::vector<Measurement> measure(std::span<Codec* const> codecs, const Layout& layout, std::span<const float> input,
                                 int repeats, std::size_t most) {
  require_measurable(layout, input, repeats);
  return measure_all(codecs, plan_buckets(layout, std::numeric_limits<std::size_t>::max(), most), input, repeats, {});
}

std::vector<MeasuredErrors> measure_errors(std::span<Codec* const> codecs, const Layout& layout,
                                           std::span<const BucketPlan> buckets, std::span<const float> input,
                                           int repeats) {
  require_measurable(layout, input, repeats);
  std::vector<MeasuredErrors> measured(codecs.size());
  for (MeasuredErrors& one : measured) one.tensors.resize(layout.segments().size());
  std::vector<float> decoded(input.size());  // of one codec, bucket by bucket
  const auto keep = [&](std::size_t codec, std::size_t b, MessageReader& message, std::span<const float> values) {
    MeasuredErrors& its = measured[codec];
    const BucketPlan& bucket = buckets[b];
    its.together += message.add_shares(std::span(its.tensors).subspan(bucket.first, bucket.layout.segments().size()));
    std::ranges::copy(values, decoded.begin() + static_cast<std::ptrdiff_t>(bucket.range.begin));
    if (b + 1 == buckets.size()) its.errors = errors_of(layout, input, decoded);
  };
  const auto results = measure_all(codecs, buckets, input, repeats, keep);
  for (std::size_t c = 0; c < codecs.size(); ++c) measured[c].measurement = results[c];
  return measured;
}

Measurement measure(Codec& codec, const Layout& layout, std::span<const float> input, int repeats, std::size_t most) {
  Codec* const one = &codec;
  return measure(std::span(&one, 1), layout, input, repeats, most).front();
}

}  // namespace sotto
