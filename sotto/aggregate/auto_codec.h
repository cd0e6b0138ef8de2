#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "sotto/aggregate/aggregator.h"

namespace sotto {

constexpr std::string_view auto_codec_name = "auto";  // in a sentence

struct AutoCodecOptions {
  AggregatorSpec carrier{};  // makes the mean of each candidate; users say it beside the sentence
  void visit(OptionVisitor& /*visitor*/) {}
};

// Whether compression pays on this link, by trial: the first steps send with each candidate in turns (none, f16,
// qsgd(bits=4); none of them has a memory, so they can follow each other), and the time from one step to the next is
// taken, with all that is hidden behind computing left out by itself. The quickest stays: dense unless another one's
// median is 5 % shorter. The choice is that of the whole group, and is part of the state.
class AutoCodec final : public Aggregator {
 public:
  static constexpr std::size_t rounds = 7;  // of all candidates; the first is not counted

  struct Candidate {
    std::string codec;
    std::unique_ptr<Aggregator> aggregator;
  };
  // `now` in seconds. The first candidate is the dense one.
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
  double begun_ = -1;                  // when it began to send; negative: not known
  std::uint64_t trial_ = 0;            // steps that were timed
  std::vector<float> seconds_;         // of each
  std::vector<float> medians_;         // of each candidate, mean over the ranks; once it is chosen
  std::uint64_t choice_ = 0;           // 1 + number of the candidate
};

std::string auto_codec_suits(const AutoCodecOptions& options, const AggregatorParts& parts);
std::unique_ptr<Aggregator> make_auto_codec(const AutoCodecOptions& options, AggregatorParts parts);

}  // namespace sotto
