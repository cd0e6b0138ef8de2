#include "app/cli/train/job.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>  // defines __GLIBC__, if that is the library

#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "app/report/run_summary.h"
#include "app/report/text_table.h"
#include "app/train/folder/checkpoint.h"
#include "app/train/folder/run_folder.h"
#include "sotto/comm/secret.h"
#include "sotto/core/file.h"
#include "sotto/core/text.h"

namespace sotto {

LaunchSpec train_job(TrainOptions options) {
  LaunchSpec spec{.arguments = {"train"}, .ranks = options.ranks, .master = options.master, .threads = options.threads};
  if (!options.transport.secret.empty()) spec.secret = read_secret(options.transport.secret);
  options.master.clear();  // the ranks learn it from their variables
  for (std::string& flag : to_flags(options)) spec.arguments.push_back(std::move(flag));
  return spec;
}

LaunchResult run_train_job(const LaunchSpec& spec, const std::string& train_dir, Console& console) {
  LaunchResult result = launch(spec, console);
  if (result.status != 0) checkpoint::remove_abandoned(train_dir);
  return result;
}

LaunchResult run_labelled(const TrainOptions& options, const std::string& label) {
  LaunchSpec spec = train_job(options);
  spec.show_lines = false;
  Console console;
  console.label(label);
  return run_train_job(spec, options.train_dir, console);
}

void print_result(const std::string& train_dir, Console& console) {
  // A run that was killed after its last checkpoint has no summary, and nothing is left to do for it.
  if (!path_exists(std::filesystem::path(train_dir) / "summary.json")) return;
  const RunSummary run = read_summary(train_dir);
  console.line(stdout, fmt::format("test {} {} after {} steps; {} sent a rank{} ({} a step, dense {}); {}",
                                   run.goal.name, run.tested_text(), run.steps, bytes_text(run.bytes_sent),
                                   run.first_step > 0 ? fmt::format(" since step {}", run.first_step) : "",
                                   bytes_text(run.bytes_per_step), bytes_text(run.dense_bytes_per_step), train_dir));
  if (run.best) {
    console.line(
        stdout,
        fmt::format("best {} {} after {} steps{}", run.goal.name, run.goal.with_unit(run.best->value), run.best->step,
                    run.best->checkpoint.empty() ? ", without a checkpoint"
                                                 : fmt::format("; {}/{}", train_dir, run.best->checkpoint)));
  }
  if (run.until) {
    console.line(stdout, fmt::format("{} {}{}", run.until->target.text(), run.until->reached ? "reached " : "",
                                     run.until->text()));
  }
}

void require_several(std::string_view command, const TrainOptions& options) {
  refuse(options.capture.has_value(), "--capture: every run would write the same files; use it with `sotto train`");
  refuse(options.tensorboard.has_value(),
         "--tensorboard: every run would write into the same folder; use it with `sotto train`");
  refuse(options.metrics_port.has_value(), "--metrics-port: runs cannot share a port; use it with `sotto train`");
  refuse(options.backend != TrainOptions{}.backend,
         "--backend: {} starts its ranks by itself, and over tcp; run `sotto train` under mpirun", command);
}

void RunWarnings::add(const std::string& run, std::span<const std::string> lines) {
  for (const std::string& line : lines) {
    auto found = std::ranges::find(runs_, line, [](const auto& one) { return one.first; });
    if (found == runs_.end()) found = runs_.insert(found, {line, {}});
    if (std::ranges::find(found->second, run) == found->second.end()) found->second.push_back(run);
  }
}

void RunWarnings::print() const {
  flush_output();  // the table comes first
  for (const auto& [line, runs] : runs_) {
    constexpr std::size_t named_runs = 3;
    const std::size_t more = runs.size() - std::min(named_runs, runs.size());
    const auto names = std::span(runs).first(runs.size() - more);
    print_error(fmt::format("warning ({}{}){}\n", fmt::join(names, "; "),
                            more > 0 ? fmt::format("; {} more", more) : "", line.substr(line.find(':'))));
  }
}

std::string folder_name(std::size_t number, std::size_t count, std::string_view text) {
  return fmt::format("{:0{}}-{}", number, std::max<std::size_t>(2, std::to_string(count).size()), plain_name(text));
}

void keep_freed_memory() {
#ifdef __GLIBC__
  ::mallopt(M_MMAP_MAX, 0);
  ::mallopt(M_TRIM_THRESHOLD, -1);  // never
#endif
}

}  // namespace sotto
