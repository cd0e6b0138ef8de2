#pragma once

#include <span>
#include <string>
#include <string_view>

#include "sotto/cli/flags.h"
#include "sotto/train/options.h"

namespace sotto {

// Options of the commands that train, beside those of the training itself.
struct TrainFlagOptions {
  std::string config;
  void visit(OptionVisitor& v) {
    v.option("config", config, "file of options, such as the config.toml of a run; flags go before it");
  }
};

// All flags of TrainOptions, under headings, with their older names.
void add_train_flags(Flags& flags, TrainOptions& options);
// What --config and then the flags say, over what `options` holds. `ranks` is 0 when neither says it.
void assign_train_flags(const Flags& flags, TrainOptions& options);

// The models and metrics of each task, for a help text.
std::string train_lists();

}  // namespace sotto
