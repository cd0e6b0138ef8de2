#pragma once

#include <string>

#include "app/cli/flags.h"
#include "app/report/run_group.h"
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
// Flags::read(), for a command that has its own options besides all of TrainOptions.
template <class Own>
bool read_with_train_flags(Flags& flags, std::span<const std::string> arguments, Own& own, TrainOptions& options) {
  flags.add(own);
  add_train_flags(flags, options);
  if (!flags.parse(arguments)) return false;
  assign_train_flags(flags, options);
  flags.assign(own);
  return true;
}

// The models and metrics of each task, for a help text.
std::string train_lists();

// All options of a run by name.
Settings read_settings(const TrainOptions& options);

// The command that repeats a run, with all settings that are not the defaults.
std::string train_command(const Settings& settings);

}  // namespace sotto
