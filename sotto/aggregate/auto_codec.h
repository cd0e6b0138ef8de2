#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "sotto/aggregate/aggregator.h"

namespace sotto {

constexpr std::string_view auto_codec_name = "auto";  // its name in a sentence

struct AutoCodecOptions {
  AggregatorSpec carrier{};  // averages for each candidate; users write it beside the sentence
  void visit(OptionVisitor& /*visitor*/) {}
};

// Finds out by trial whether compression pays on this link. The first steps use the candidates in turn: none, f16 and
// qsgd(bits=4), which have no memory, so they can follow each other. The time from one step to the next is measured,
// which leaves out whatever computing hides. The quickest candidate stays: dense, unless another one's median is more
// than 5 % shorter. The choice is the same on all ranks, and is part of the state.
class AutoCodec final : public Aggregator {
 public:
  static constexpr std::size_t rounds = 7;  // trials of each candidate; the first is not counted

  struct Candidate {
    std::string codec;
    std::unique_ptr<Aggregator> aggregator;
  };
  // `now` returns seconds. The first candidate must be the dense one.
  AutoCodec(std::vector<Candidate> candidates, int ranks, std::function<double()> now);

  std::string_view name() const override { return current().name(); }
  std::string remark() const override;
  void average(Bucket& bucket, const Key& key, const StepContext& step, Communicator& communicator,
               Timings& timings) override;
  void visit_state(StateVisitor& visitor) override;

 private:
  bool chosen() const { return choice_ > 0; }
  Aggregator& current() const;
  void begin_step(Communicator& communicator);
  void choose(Communicator& communicator);
  void adopt();

  std::vector<Candidate> candidates_;
  int ranks_;
  std::function<double()> now_;
  std::optional<std::uint32_t> step_;  // the current one
  double begun_ = -1;                  // time at which it began to send; negative: unknown
  std::uint64_t trial_ = 0;            // number of steps that were timed
  std::vector<float> seconds_;         // of each of them
  std::vector<float> medians_;         // of each candidate, averaged over the ranks, after the choice
  std::uint64_t choice_ = 0;           // 1 + index of the candidate; 0: none yet
};

std::string auto_codec_suits(const AutoCodecOptions& options, const AggregatorParts& parts);
std::unique_ptr<Aggregator> make_auto_codec(const AutoCodecOptions& options, AggregatorParts parts);

}  // namespace sotto
