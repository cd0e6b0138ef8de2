#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>

#include "sotto/aggregate/aggregator.h"
#include "sotto/aggregate/recipe.h"

namespace sotto {

// How much accuracy a method costs, as docs/results/codecs.md and docs/results/jobs.md have it for similar methods.
enum class Quality : std::uint8_t {
  high,    // the loss of dense training, within the spread of seeds
  medium,  // near it
  low,     // near it in some trainings, and worse in others
};
std::string_view text_of(Quality quality);
Quality quality_of(std::string_view text);  // REQUIRES a text of text_of()

// A method that this program proposes by itself.
struct Candidate {
  std::string_view codec;
  Quality quality = Quality::high;
  bool tried = false;  // by `auto`; not if another candidate is likely to beat it everywhere, because trials cost steps
};
// The dense candidate comes first. Within a quality, later candidates send less.
std::span<const Candidate> candidates();

constexpr std::string_view auto_codec_name = "auto";  // as users write it

struct AutoCodecOptions {
  std::string quality = "high";
  AggregatorSpec carrier{};  // averages for each candidate; users name it in the option `aggregator`
  void visit(OptionVisitor& v) {
    v.option("quality", quality,
             "what it may choose: high keeps the loss of dense training, medium is near it and has a memory",
             {"high", "medium"});
  }
};

// Finds out by trial whether compression pays on this link, and which method of the table of candidates does. The first
// steps use the candidates in turns. The time from one step to the next is measured, so communication that computing
// hides costs nothing. After each round, candidates that are far slower than the quickest one leave the trial. At the
// end a candidate is chosen over those before it only if its median is more than 5 % shorter; the first one is dense.
// The choice is the same on all ranks, and is part of the state.
//
// All candidates share one memory, if there is one. Whatever one of them holds back is therefore sent by the next.
// Dense steps hold nothing back. The chosen candidate begins with all that was not sent.
class AutoCodec final : public Aggregator {
 public:
  static constexpr std::size_t rounds = 6;  // of trials; medians leave out the first
  // A candidate leaves if its quickest step takes longer than this many times the quickest step of all: `far_slower`
  // after the second round, `slower` after later ones.
  static constexpr float far_slower = 1.5F, slower = 1.2F;

  struct Candidate {
    std::string codec;
    std::unique_ptr<Aggregator> aggregator;
  };
  // All candidates share `memory`, and their visit_state() must leave it out. `now` returns seconds. The first
  // candidate must be the dense one.
  AutoCodec(std::vector<Candidate> candidates, std::shared_ptr<Memory> memory, int ranks, std::function<double()> now);

  std::string_view name() const override { return current().name(); }
  std::string remark() const override;
  void average(Bucket& bucket, const Key& key, const StepContext& step, Communicator& communicator,
               Timings& timings) override;
  void visit_state(StateVisitor& visitor) override;
  void retire() override;

 private:
  bool chosen() const { return choice_ > 0; }
  bool left(std::size_t candidate) const { return (left_ >> candidate & 1) != 0; }
  Aggregator& current() const;
  void begin_step(Communicator& communicator);
  void end_round(Communicator& communicator);
  void choose();
  void leave(std::size_t candidate);
  void adopt();

  std::vector<Candidate> candidates_;
  std::shared_ptr<Memory> memory_;
  int ranks_;
  std::function<double()> now_;
  std::optional<std::uint32_t> step_;  // the current one
  double begun_ = -1;                  // time at which it began to send; negative: unknown
  std::uint64_t trial_ = 0;            // round * number of candidates + candidate
  std::uint64_t left_ = 0;             // a bit for each candidate that left the trial
  std::vector<float> seconds_;         // of each trial
  std::vector<float> medians_;         // of each candidate when it was last judged, averaged over the ranks
  std::uint64_t choice_ = 0;           // 1 + index of the candidate; 0: none yet
};

// The memory that all candidates share; empty if they need none.
std::string_view auto_codec_memory(const AnyOptions& options);
std::string auto_codec_suits(const AutoCodecOptions& options, const AggregatorParts& parts);
std::unique_ptr<Aggregator> make_auto_codec(const AutoCodecOptions& options, AggregatorParts parts);
// The same with a clock of the caller, which returns seconds.
std::unique_ptr<AutoCodec> make_auto_codec_with(const AutoCodecOptions& options, AggregatorParts parts,
                                                std::function<double()> now);

}  // namespace sotto
