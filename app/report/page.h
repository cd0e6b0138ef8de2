#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "app/report/recorded_run.h"
#include "app/report/run_group.h"
#include "app/task/metric.h"

namespace sotto {

// A run that a page cannot show.
struct LeftOut {
  std::string name;
  std::string why;     // "has made no step"
  std::string detail;  // the error, if there was one
};

// What a page shows.
struct Report {
  std::vector<RecordedRun> runs;  // each has made a step
  std::vector<LeftOut> left_out;
  std::vector<std::string> commands;  // for each run, the command that repeats it
  std::vector<Settings> settings;     // of each run
  std::vector<RunGroup> groups;
  std::optional<Target> target;  // its metric belongs to some runs' tasks; other runs never reach it
  std::string state;             // the state of a run that is watched; empty: the page is a file
  bool goes_on = false;          // whether a page that is watched loads itself again and again

  std::size_t group_of(std::size_t run) const;
};

// Every metric of the runs' tasks once, and whether it is the goal of the first task that has it.
std::vector<std::pair<Metric, bool>> metrics_of(const Report& report);

// A self-contained HTML document.
std::string to_page(const Report& report);

// The parts of the page. Tables in HTML:
std::string differences_html(const Report& report);
std::string runs_html(const Report& report);
std::string commands_html(const Report& report);
std::string notes_html(const Report& report);
// What the script of the page draws, as JSON.
std::string page_data(const Report& report);

}  // namespace sotto
