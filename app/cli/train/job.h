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

// The job of `sotto train` with exactly these options, as a command that starts trainings runs it.
LaunchSpec train_job(TrainOptions options);

// Runs a job of such a command, and removes what an unfinished checkpoint left in its run folder.
LaunchResult run_train_job(const LaunchSpec& spec, const std::string& train_dir, Console& console);

// The same, which shows how far the job is, after a label, and not its lines.
LaunchResult run_labelled(const TrainOptions& options, const std::string& label);

// The result of a run, in words.
void print_result(const std::string& train_dir, Console& console);

// Refuses what a command that trains several times cannot do with each of its trainings. `command`: "sotto compare".
void require_several(std::string_view command, const TrainOptions& options);

// What several runs warned of.
class RunWarnings {
 public:
  // `run`: its name in the table.
  void add(const std::string& run, std::span<const std::string> lines);
  // On stderr, below what was printed on stdout. Each line is there once: "warning (none; int8): text".
  void print() const;

 private:
  std::vector<std::pair<std::string, std::vector<std::string>>> runs_;  // of each line, in the order of the first
};

// The name of one of `count` run folders: "03-ef-topk-0.01" of number 3 and "ef | topk(0.01)".
std::string folder_name(std::size_t number, std::size_t count, std::string_view text);

// `sotto train --replay RUN`: repeats the training of the run in the folder `run`, in a new folder, and compares. `own`
// are the names of the options of the command itself. Returns the exit status: 0 if nothing differs. ConfigError or
// FileError if that cannot be done.
int run_replay(const std::string& run, const Flags& flags, std::span<const std::string> own);

// Makes glibc keep freed memory. Each step allocates again what the step before freed, and by default glibc returns
// large blocks to the system; to map and zero them again takes a fifth of each step (docs/performance.md).
void keep_freed_memory();

}  // namespace sotto
