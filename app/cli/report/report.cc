#include <fmt/format.h>

#include "app/cli/commands.h"
#include "app/cli/flags.h"
#include "app/cli/report/report.h"
#include "app/cli/train/flags.h"

namespace sotto {
namespace {

constexpr std::string_view examples = R"text(
The page is one self-contained file. Runs that differ only in their seed share a colour, with mean and spread.

Examples:
  sotto report runs/none runs/topk -o report.html
  sotto report runs/* --target accuracy=0.97 --out report.html
  sotto report runs/sgp-* runs/sync-* --like sgp -o figures.svg)text";

std::string said_of(const Report& report, const std::string& out, std::size_t bytes) {
  std::string text = fmt::format("{} run{} in {} ({} KB)", report.runs.size(), report.runs.size() == 1 ? "" : "s", out,
                                 (bytes + 999) / 1000);
  for (const LeftOut& run : report.left_out) text += fmt::format("; {} {}, and was left out", run.name, run.why);
  return text;
}

// Whether the path is a file that lies among run folders, so that `runs/x/*` matches it: the record of a search, or a
// page.
bool is_beside_runs(const std::filesystem::path& path) {
  std::error_code missing;
  return std::filesystem::is_regular_file(path, missing) &&
         (path.filename() == "tune.json" || path.extension() == ".html" || path.extension() == ".svg");
}

// Nothing if the run cannot be shown; it is then added to `left_out`. FileError if the folder does not exist.
std::optional<RecordedRun> read_or_leave_out(const std::string& folder, bool alone, std::vector<LeftOut>& left_out) {
  try {
    RecordedRun run = read_recorded_run(folder);
    if (!run.ranks.empty()) return run;
    left_out.push_back({run.name, "has made no step", ""});
  } catch (const Error& error) {
    if (alone || !path_exists(folder)) throw;
    print_error(fmt::format("sotto: warning: {}; it is left out\n", error.what()));
    left_out.push_back({folder, "cannot be read", error.what()});
  }
  return std::nullopt;
}

// Takes the target if the task of this run has its metric; otherwise adds a note to the run.
void take_target(const std::string& text, RecordedRun& run, std::optional<Target>& target) {
  const std::string name = text.substr(0, text.find('='));
  if (metric_table(run.task->metrics).find(name) != nullptr) {
    target = read_target("target", text, run.task->metrics);
  } else {
    run.notes.push_back(
        {fmt::format("the target {} is not for it: its task {} has no {}", text, run.task->name, name), false});
  }
}

}  // namespace

Report read_report(std::span<const std::string> folders, const std::optional<std::string>& target) {
  Report report;
  std::vector<std::filesystem::path> known;
  std::vector<std::string> names;
  for (const std::string& folder : folders) {
    if (folders.size() > 1 && is_beside_runs(folder)) continue;
    std::optional<RecordedRun> read = read_or_leave_out(folder, folders.size() == 1, report.left_out);
    const auto same = [&](const auto& other) { return std::filesystem::equivalent(other, folder); };
    refuse(std::ranges::any_of(known, same), "{}: the run is given twice", folder);
    known.emplace_back(folder);
    if (!read) continue;
    RecordedRun& run = report.runs.emplace_back(std::move(*read));
    report.settings.push_back(read_settings(run.options));
    report.commands.push_back(train_command(report.settings.back()));
    names.push_back(run.name);
    if (target) take_target(*target, run, report.target);
  }
  if (report.runs.empty()) {
    if (report.left_out.empty()) throw FileError(fmt::format("{}: no run folder", folders[0]));
    const LeftOut& first = report.left_out[0];
    throw FileError(first.detail.empty() ? first.name + "/steps.csv: it has no rows: no step was made" : first.detail);
  }
  if (target && !report.target) report.target = read_target("target", *target, report.runs[0].task->metrics);
  report.groups = group_by_seed(report.settings, names);
  return report;
}

std::string write_report(std::span<const std::string> folders, const std::optional<std::string>& target,
                         const std::string& out) {
  const Report report = read_report(folders, target);
  const std::string page = to_page(report);
  write_file_atomic(out, page);
  return said_of(report, out, page.size());
}

int run_report(std::span<const std::string> arguments) {
  std::optional<std::string> out, target;
  std::string like = "page";
  std::vector<std::string> folders;
  Flags flags("report", "Shows runs in one HTML file: curves, costs, differences.", examples);
  flags.alias("out", "o");
  flags.add_positionals("run", folders, "run folders");
  const Flags::Visit visit = [&](OptionVisitor& v) {
    v.option("out", out, "the file to write; auto: report.html, or report.svg for figures");
    v.option("like", like,
             "page: everything on one page; sgp: the figures of papers on Stochastic Gradient Push, as SVG: error "
             "against epochs, iterations and time; time per iteration and speed-up against ranks",
             {"page", "sgp"});
    v.option(
        "target", target,
        "also show the steps, time and bytes that each run took to this target, such as accuracy=0.97; auto: none");
  };
  if (!flags.read(arguments, visit)) return 0;
  if (out) require_ending("out", *out, like == "sgp" ? ".svg" : ".html");
  if (like != "sgp") {
    fmt::print("{}\n", write_report(folders, target, out.value_or("report.html")));
    return 0;
  }
  refuse(target.has_value(), "--target: has no effect with --like sgp; leave one of them out");
  const Report report = read_report(folders);
  const std::string file = out.value_or("report.svg"), figures = to_svg(sgp_plots(report));
  write_file_atomic(file, figures);
  fmt::print("{}\n", said_of(report, file, figures.size()));
  return 0;
}

}  // namespace sotto
