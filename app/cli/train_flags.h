#pragma once

#include <string>

#include "app/cli/flags.h"
#include "app/train/options/options.h"

namespace sotto {

// Options of the commands that train, besides TrainOptions.
struct TrainFlagOptions {
  std::string config;
  void visit(OptionVisitor& v) {
    v.option("config", config, "file of options, such as the config.toml of a run; flags override it");
  }
};

// All flags of TrainOptions, under headings, with their aliases.
void add_train_flags(Flags& flags, TrainOptions& options);
// Overwrites `options` with the values in --config, and then with the flags. `ranks` is 0 if neither gives it.
void assign_train_flags(const Flags& flags, TrainOptions& options);

// The models and metrics of each task, for a help text.
std::string train_lists();

}  // namespace sotto
