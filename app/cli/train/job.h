#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "app/cli/flags.h"
#include "app/launch/launcher.h"
#include "app/train/options/options.h"

namespace sotto {

// The job of `sotto train` with exactly these options, for commands that start trainings.
LaunchSpec train_job(TrainOptions options);

// Runs a job of such a command, and removes an unfinished checkpoint from its run folder.
LaunchResult run_train_job(const LaunchSpec& spec, const std::string& train_dir, Console& console);

// The same, but shows the job's progress after a label, and not its lines.
LaunchResult run_labelled(const TrainOptions& options, const std::string& label);

// Prints the result of a run in words.
void print_result(const std::string& train_dir, Console& console);

// ConfigError for options that a command that trains several times cannot pass to each training. `command`: "sotto
// compare".
void require_several(std::string_view command, const TrainOptions& options);

// The warnings of several runs.
class RunWarnings {
 public:
  // `run`: its name in the table.
  void add(const std::string& run, std::span<const std::string> lines);
  // Prints to stderr, after everything on stdout. Each line is printed once, with its runs: "warning (none; int8):
  // text".
  void print() const;

 private:
  std::vector<std::pair<std::string, std::vector<std::string>>> runs_;  // of each line, in the order of the lines
};

// The name of run folder `number` of `count`: number 3 and "ef | topk(0.01)" make "03-ef-topk-0.01".
std::string folder_name(std::size_t number, std::size_t count, std::string_view text);

// `sotto train --replay RUN`: repeats the training of the run in the folder `run`, in a new folder, and compares.
// `own`: the options that belong to the command and not to the training. Returns the exit status: 0 if nothing differs.
// ConfigError or FileError if the run cannot be repeated.
int run_replay(const std::string& run, const Flags& flags, std::span<const std::string> own);

// Makes glibc keep freed memory. By default glibc returns large blocks to the system, though the next step allocates
// the same again. To map and zero them again takes a fifth of each step (docs/performance.md).
void keep_freed_memory();

}  // namespace sotto
