#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "sotto/aggregate/recipe.h"
#include "sotto/aggregate/warmup.h"
#include "sotto/algorithm/algorithm.h"
#include "sotto/comm/links.h"
#include "sotto/optim/schedule.h"
#include "sotto/task/table.h"
#include "sotto/train/buckets.h"
#include "sotto/train/capture.h"
#include "sotto/train/optimiser.h"
#include "sotto/train/options.h"

namespace sotto {

struct Transport;

// What the options of a run say: every name and sentence in them, read and checked once. All that comes after takes
// these, and reads of the options only numbers and paths.
struct Choices {
  TrainOptions options;  // as they are recorded: what may be said in two ways is said in one
  const TaskEntry* task = nullptr;
  const Transport* transport = nullptr;
  Recipe recipe;
  WarmupSpec codec_warmup;  // none: the codec's own ratio from the first step on
  AlgorithmSpec algorithm;
  TopologySpec topology;  // and mixing: none where the algorithm uses none
  MixingSpec mixing;
  std::vector<TopologyPhase> peers;  // by epochs, where the number of peers changes
  ChosenOptimiser optimiser;
  ScheduleSpec schedule;
  Links links;
  Bucketing buckets;
  CapturePlan capture;
  std::optional<Target> until;
  Spelling spelling = plain_spelling;  // of options, in what a run says on the way
};

// ConfigError for what cannot be, FileError for a file that is named and cannot be read. What nobody said stays so in
// `options`: what it means depends on model, codec and optimiser, which a replay may change.
Choices read_choices(TrainOptions options);

// The task of a run, for a rank with this share of the examples of each step.
std::unique_ptr<Task> make_task(const Choices& choices, Share share);

}  // namespace sotto
