#include "sotto/codec/measure.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>
#include <vector>

#include "sotto/core/timer.h"

namespace sotto {
namespace {

double median(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double square_distance(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double difference = static_cast<double>(a[i]) - b[i];
    sum += difference * difference;
  }
  return sum;
}

// The seconds of one codec, and the size and error of its messages.
struct Record {
  std::vector<double> encode, decode, copy;
  std::size_t message_bytes = 0;
  double error = 0;
};

}  // namespace

std::vector<Measurement> measure(std::span<Codec* const> codecs, const Layout& layout, std::span<const float> input,
                                 int repeats) {
  std::vector<float> decoded(input.size());
  // A Bucket is writable, but no codec changes the input of encode().
  const Bucket bucket{{const_cast<float*>(input.data()), input.size()}, &layout, 0};
  Bucket out{decoded, &layout, 0};
  const std::array<Range, 1> parts{Range{0, layout.size()}};
  std::array<Message, 1> messages;
  std::vector<float> agreed;
  std::vector<Record> records(codecs.size());
  std::vector<std::unique_ptr<Opened>> opened;
  for (const auto& codec : codecs) opened.push_back(codec->make_opened());

  for (int repeat = -1; repeat < repeats; ++repeat) {  // the first warms up
    for (std::size_t c = 0; c < codecs.size(); ++c) {
      Timer timer;
      std::memcpy(decoded.data(), input.data(), input.size_bytes());
      const double copied = timer.lap();
      agreed.resize(codecs[c]->agreed_count(layout));
      if (!agreed.empty()) codecs[c]->propose(bucket, agreed);
      codecs[c]->encode(bucket, Key{.step = static_cast<std::uint32_t>(repeat + 1)}, agreed, parts, messages);
      const double encoded = timer.lap();
      std::fill(decoded.begin(), decoded.end(), 0.0F);
      timer.lap();
      opened[c]->open(messages[0].view(), *out.layout, parts[0]);
      opened[c]->add_to(out, 1.0F);
      const double added = timer.lap();
      if (repeat < 0) continue;
      records[c].copy.push_back(copied);
      records[c].encode.push_back(encoded);
      records[c].decode.push_back(added);
      records[c].message_bytes += messages[0].bytes().size();
      records[c].error += square_distance(decoded, input);
    }
  }

  const double bytes = static_cast<double>(input.size_bytes());
  const double norm =
      std::transform_reduce(input.begin(), input.end(), 0.0, std::plus<>(), [](double x) { return x * x; });
  std::vector<Measurement> results;
  for (Record& record : records) {
    Measurement& result = results.emplace_back();
    result.elements = input.size();
    result.bytes = record.message_bytes / static_cast<std::size_t>(repeats);
    result.encode_gbps = bytes * 1e-9 / median(record.encode);
    result.decode_gbps = bytes * 1e-9 / median(record.decode);
    result.memcpy_gbps = bytes * 1e-9 / median(record.copy);
    result.ratio = bytes / static_cast<double>(result.bytes);
    result.relative_error = norm > 0 ? std::sqrt(record.error / repeats / norm) : 0;
  }
  return results;
}

Measurement measure(Codec& codec, const Layout& layout, std::span<const float> input, int repeats) {
  Codec* const one = &codec;
  return measure(std::span(&one, 1), layout, input, repeats).front();
}

}  // namespace sotto
