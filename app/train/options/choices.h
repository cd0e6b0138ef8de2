#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "app/task/table.h"
#include "app/train/options/optimiser.h"
#include "app/train/options/options.h"
#include "app/train/record/capture.h"
#include "sotto/aggregate/recipe.h"
#include "sotto/aggregate/warmup.h"
#include "sotto/algorithm/algorithm.h"
#include "sotto/comm/emulated/links.h"
#include "sotto/comm/world.h"
#include "sotto/core/layout.h"
#include "sotto/optim/optimiser.h"
#include "sotto/optim/schedule.h"

namespace sotto {

// How gradients are cut into buckets.
struct Bucketing {
  bool layers = false;   // one bucket per module
  std::size_t most = 0;  // otherwise at most so many bytes per bucket; 0: one bucket for all tensors

  std::string text() const;  // "layer", "whole" or the bytes; for checkpoints
};

// Parses "layer", "whole" or a size such as "25MB". ConfigError.
Bucketing read_buckets(std::string_view option, std::string_view text);

std::vector<BucketPlan> plan_buckets(const Layout& layout, const Bucketing& buckets);

// ConfigError if a tensor is cut into several buckets, and the optimiser works on whole tensors.
void require_whole_tensors(const Optimiser& optimiser, const Layout& layout, std::span<const BucketPlan> buckets);

struct Transport;

// The meaning of a run's options: every name and sentence in them is parsed and checked once. Later code uses these,
// and reads only numbers and paths from the options.
struct Choices {
  TrainOptions options;  // as recorded: alternative spellings are unified
  const TaskEntry* task = nullptr;
  ModelChoice model;
  PartitionSpec partition;
  const Transport* transport = nullptr;
  Recipe recipe;
  WarmupSpec codec_warmup;  // none: the codec uses its own ratio from the first step on
  AlgorithmSpec algorithm;
  TopologySpec topology;  // topology and mixing: none if the algorithm uses none
  MixingSpec mixing;
  std::vector<TopologyPhase> peers;  // by epoch, if the number of peers changes
  ChosenOptimiser optimiser;
  AmpSpec amp;
  ScheduleSpec schedule;
  Links links;
  Bucketing buckets;
  CapturePlan capture;
  std::optional<Target> until;
  Spelling spelling = plain_spelling;  // how messages during the run spell options
};

// Parses the options. ConfigError for impossible choices, FileError for a named file that cannot be read. Unset options
// stay unset in `options`: their meaning depends on model, codec and optimiser, which a replay may change.
Choices read_choices(TrainOptions options);

// Whether ranks go at their own speed: they do not wait for each other in every step.
bool has_own_speed(const AlgorithmSpec& algorithm, int ranks);

// Makes the task of a run for a rank with this share of each step's examples.
std::unique_ptr<Task> make_task(const Choices& choices, Share share);

// The number of ranks per host, according to the launcher. ConfigError, whose text starts with `asked` and ends with
// `instead`, if ranks of a host are not consecutive, hosts have different numbers of ranks, or every rank is alone.
int ranks_of_host(std::string_view asked, std::string_view instead, const World& world);

// Returns the choices with the group size filled in, if the aggregator has groups and the user gave no size: the number
// of ranks per host. ConfigError, before the ranks meet, if the ranks cannot be divided into such groups.
Choices with_groups(Choices choices, const World& world);

}  // namespace sotto
