#include "sotto/aggregate/aggregators.h"

#include <fmt/core.h>

#include <algorithm>

#include "sotto/aggregate/all_reduce.h"
#include "sotto/core/hash.h"
#include "sotto/core/random.h"
#include "sotto/core/timer.h"
#include "sotto/kernels/matrix.h"
#include "sotto/kernels/vector.h"

namespace sotto {
namespace {

// One matrix of a bucket, and the offsets of its factors. Column k of a factor is its k-th run of `rows` or `cols`
// floats.
struct Matrix {
  Range range;  // in the bucket
  std::size_t rows = 0, cols = 0, rank = 0;
  std::size_t p = 0, q = 0;  // offsets in the bucket's left and right factors

  kernels::Vectors left(std::span<float> factors) const { return {factors.data() + p, rank, rows}; }
  kernels::Vectors right(std::span<float> factors) const { return {factors.data() + q, rank, cols}; }
};
kernels::ConstVectors fixed(kernels::Vectors v) { return {v.data, v.count, v.stride}; }

// A segment that is sent uncompressed, with the left factors.
struct Dense {
  Range range;
  std::size_t p = 0;
};

// How a bucket is sent: as two vectors without gaps.
struct Plan {
  std::vector<Matrix> matrices;
  std::vector<Dense> dense;
  Layout left, right;
  std::size_t warm = 0;  // offset of its right factors in the state
};

Plan plan_bucket(const Layout& layout, const PowerOptions& options) {
  Plan plan;
  std::vector<Segment> left, right;
  std::size_t p = 0, q = 0;
  for (const Segment& segment : layout.segments()) {
    const std::size_t size = segment.numel();
    if (size == 0) continue;
    Matrix m{.range = segment.range(), .p = p, .q = q};
    m.rows = segment.shape.size() < 2 ? size : static_cast<std::size_t>(segment.shape.front());
    m.cols = size / m.rows;
    m.rank = std::min({static_cast<std::size_t>(options.rank), m.rows, m.cols});
    const std::size_t factors = (m.rows + m.cols) * m.rank;
    if (segment.shape.size() < 2 || static_cast<double>(size) < options.min_rate * static_cast<double>(factors)) {
      plan.dense.push_back({segment.range(), p});
      left.push_back({segment.name, p, segment.shape});
      p += size;
      continue;
    }
    const auto rank = static_cast<std::int64_t>(m.rank);
    left.push_back({segment.name, p, {rank, static_cast<std::int64_t>(m.rows)}});
    right.push_back({segment.name, q, {rank, static_cast<std::int64_t>(m.cols)}});
    p += m.rank * m.rows;
    q += m.rank * m.cols;
    plan.matrices.push_back(m);
  }
  plan.left = Layout(std::move(left), p);
  plan.right = Layout(std::move(right), q);
  return plan;
}

// The part of the vector that this rank sent: the product of the factors, which `mean` already holds, and the dense
// segments.
class SentFactors final : public Sent {
 public:
  SentFactors(const Plan& plan, std::span<const float> mean, std::span<const float> own_left)
      : plan_(plan), mean_(mean), own_left_(own_left) {}
  void add_to(Bucket& out, float scale) override {
    const auto add = [&](std::span<const float> values, Range range) {
      kernels::axpy(scale, values, out.values.subspan(range.begin, range.size()));
    };
    for (const Matrix& m : plan_.matrices) add(mean_.subspan(m.range.begin, m.range.size()), m.range);
    for (const Dense& d : plan_.dense) add(own_left_.subspan(d.p, d.range.size()), d.range);
  }

 private:
  const Plan& plan_;
  std::span<const float> mean_, own_left_;
};

class Power final : public Aggregator {
 public:
  Power(const PowerOptions& options, AggregatorParts parts)
      : parts_(std::move(parts)), mean_(parts_.codec, parts_.buckets.front().layout) {
    std::size_t warm = 0;
    for (const BucketPlan& bucket : parts_.buckets) {
      Plan& plan = plans_.emplace_back(plan_bucket(bucket.layout, options));
      plan.warm = warm;
      warm += plan.right.size();
    }
    warm_.resize(warm);
  }

  std::string_view name() const override { return "power"; }

  void average(Bucket& bucket, const Key& key, const StepContext& step, Communicator& communicator,
               Timings& timings) override {
    const Plan& plan = plans_.at(bucket.index);
    Timer timer;
    require_finite(bucket, key, step.what);
    const Bucket prepared = parts_.memory->prepare(bucket, step, {});
    Bucket left{left_.room(plan.left.size()), &plan.left, bucket.index};
    Bucket right{right_.room(plan.right.size()), &plan.right, bucket.index};
    Bucket own{own_.room(plan.left.size()), &plan.left, bucket.index};

    refresh(plan, bucket.index, key);
    make_left(plan, prepared, left.values);
    mean_.own(left, own, key, communicator.size());
    timings.encode += timer.lap();
    mean_.average(left, left, key, communicator, timings);
    timer.lap();
    make_right(plan, prepared, left.values, right.values);
    timings.encode += timer.lap();
    mean_.average(right, right, key, communicator, timings);
    timer.lap();
    make_mean(plan, left.values, right.values, bucket.values);
    Bucket held = prepared;
    SentFactors sent(plan, bucket.values, own.values);
    parts_.memory->settle(held, sent);
    keep(plan, right.values);
    timings.decode += timer.lap();
  }

  void visit_state(StateVisitor& visitor) override {
    parts_.visit_state(visitor);
    visitor.visit("power.q", warm_);
  }

 private:
  std::span<float> warm(const Plan& plan) { return std::span(warm_).subspan(plan.warm, plan.right.size()); }

  // Replaces columns of Q by random numbers, the same on every rank, if they are zero (as at first) or a unit vector
  // (which orthonormalise() leaves for a column that depends on the others). A unit vector could pick an all-zero
  // column of M in every step.
  void refresh(const Plan& plan, std::uint16_t bucket, const Key& key) {
    for (std::size_t i = 0; i < plan.matrices.size(); ++i) {
      const Matrix& m = plan.matrices[i];
      const auto columns = m.right(warm(plan));
      bool any = false;
      for (std::size_t k = 0; k < m.rank; ++k) {
        const auto column = columns.at(k, m.cols);
        const auto is_set = [](float value) { return value != 0; };
        const auto first = std::ranges::find_if(column, is_set);
        if (std::find_if(first == column.end() ? first : first + 1, column.end(), is_set) != column.end()) continue;
        Hash hash;
        for (const std::uint64_t part : {std::uint64_t{key.step}, std::uint64_t{bucket}, std::uint64_t{i}})
          hash.add(part);
        Philox random(key.seed, Purpose::transform, hash.value() + k);
        for (float& value : column) value = static_cast<float>(random.normal());
        any = true;
      }
      if (any) kernels::orthonormalise(columns, m.cols);
    }
  }

  void make_left(const Plan& plan, const Bucket& prepared, std::span<float> left) {
    for (const Matrix& m : plan.matrices) {
      const auto values = prepared.values.subspan(m.range.begin, m.range.size());
      kernels::multiply(values, m.rows, m.cols, fixed(m.right(warm(plan))), m.left(left));
    }
    for (const Dense& d : plan.dense) {
      std::ranges::copy(prepared.values.subspan(d.range.begin, d.range.size()),
                        left.begin() + static_cast<std::ptrdiff_t>(d.p));
    }
  }

  // Makes each P orthonormal, then Q = M^T P.
  static void make_right(const Plan& plan, const Bucket& prepared, std::span<float> left, std::span<float> right) {
    for (const Matrix& m : plan.matrices) {
      const auto values = prepared.values.subspan(m.range.begin, m.range.size());
      kernels::orthonormalise(m.left(left), m.rows);
      kernels::multiply_transposed(values, m.rows, m.cols, fixed(m.left(left)), m.right(right));
    }
  }

  static void make_mean(const Plan& plan, std::span<float> left, std::span<float> right, std::span<float> out) {
    std::ranges::fill(out, 0.0F);
    for (const Matrix& m : plan.matrices) {
      kernels::add_outer(1, fixed(m.left(left)), fixed(m.right(right)), m.rows, m.cols,
                         out.subspan(m.range.begin, m.range.size()));
    }
    for (const Dense& d : plan.dense) {
      std::ranges::copy(left.subspan(d.p, d.range.size()), out.begin() + static_cast<std::ptrdiff_t>(d.range.begin));
    }
  }

  // The next step starts from this Q. Only its span matters; an orthonormal Q keeps the next P at the magnitude of the
  // gradient, which 16 bits can hold.
  void keep(const Plan& plan, std::span<const float> right) {
    std::ranges::copy(right, warm(plan).begin());
    for (const Matrix& m : plan.matrices) kernels::orthonormalise(m.right(warm(plan)), m.cols);
  }

  AggregatorParts parts_;
  LinearMean mean_;
  std::vector<Plan> plans_;  // by bucket
  std::vector<float> warm_;  // Q of all buckets
  Scratch<float> left_, right_, own_;
};

}  // namespace

std::string power_suits(const PowerOptions& /*options*/, const AggregatorParts& parts) {
  if (!parts.memory_spec || parts.memory_spec.entry->holds) return "";
  return fmt::format("leaves out most of a matrix, and `{}` does not hold that back; use `ef` or `momentum`",
                     parts.memory_spec.entry->name);
}

std::unique_ptr<Aggregator> make_power(const PowerOptions& options, AggregatorParts parts) {
  return std::make_unique<Power>(options, std::move(parts));
}

std::size_t power_bytes(const AnyOptions& options, Codec& codec, const Layout& bucket) {
  const Plan plan = plan_bucket(bucket, options.as<PowerOptions>());
  return (codec.linear_count(plan.left) + codec.linear_count(plan.right)) * size_of(codec.traits().linear_type.value());
}

}  // namespace sotto
