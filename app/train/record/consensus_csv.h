#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "app/train/record/listener.h"

namespace sotto {

// A row of consensus.csv: how far the models of the ranks were apart at an evaluation.
struct ConsensusRow : EvaluationRow {  // without a split and metrics
  double distance = 0;
  std::vector<double> rank_goals;  // the goal metric of each rank's own model
};

// Rank 0 writes consensus.csv, in runs whose ranks have their own models.
std::unique_ptr<Listener> make_consensus_csv(const Choices& choices);

// The rows of a run's consensus.csv, without a last line that a crash cut off; nothing if there is no such file.
// FileError, with the line, if it holds something else.
std::vector<ConsensusRow> read_consensus(const std::filesystem::path& train_dir);

}  // namespace sotto
