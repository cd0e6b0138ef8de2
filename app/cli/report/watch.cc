#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <thread>

#include "app/cli/commands.h"
#include "app/cli/flags.h"
#include "app/cli/report/report.h"
#include "app/http/server.h"
#include "app/report/html.h"
#include "app/train/stop_signal.h"
#include "sotto/comm/group/store.h"
#include "sotto/comm/world.h"
#include "sotto/core/error.h"
#include "sotto/core/file.h"
#include "sotto/core/text.h"
#include "sotto/core/timer.h"

namespace sotto {
namespace {

constexpr std::string_view examples = R"text(
On a terminal, the view is redrawn until the run ends; elsewhere, each look prints a line. Exit status: 0 if the run
has ended, 1 if it diverged, failed or was killed.

Examples:
  sotto watch runs/topk
  sotto watch runs/topk --serve 127.0.0.1:8080     # and a page for browsers, until Ctrl-C
  ssh -L 8080:127.0.0.1:8080 HOST                  # brings such a page of another machine here)text";

struct OwnOptions {
  double poll = 1;
  double wait = 0;
  std::optional<std::string> serve;
  void visit(OptionVisitor& v) {
    v.option("poll", poll, "seconds between two looks at the folder", {0.1, 3600});
    v.option("wait", wait, "seconds to wait for a run that has not begun, or is being restarted", {0, 1e6});
    v.option("serve", serve,
             "HOST:PORT at which to serve the page of `sotto report`, live; port 0: any free one; whoever can connect "
             "can read it; auto: nowhere");
  }
};

// Prints a drawing. On a terminal each one replaces the last one. Every line is made visible(), since names and
// contents of folders may come from other people.
class Screen {
 public:
  bool is_terminal() const { return terminal_; }
  void draw(const LiveRun& run) {
    winsize size{};
    const bool known =
        terminal_ && ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0;
    const int columns = known ? size.ws_col : 100, lines = known ? size.ws_row : 40;
    std::string text = drawn_ > 0 ? fmt::format("\r\x1b[{}A\x1b[J", drawn_) : "";
    drawn_ = 0;
    for (const std::string& line : view_of(run, columns - 1, lines)) {
      text += cut(visible(line), columns - 1) + "\n";
      ++drawn_;
    }
    if (!terminal_) drawn_ = 0;
    write(text);
  }
  void say(const std::string& line) {
    drawn_ = 0;
    write(visible(line) + "\n");
  }

 private:
  // Cuts a line to the width of the screen. Every character of UTF-8 counts as one column.
  std::string cut(const std::string& line, int columns) const {
    if (!terminal_) return line;
    int seen = 0;
    for (std::size_t i = 0; i < line.size(); ++i) {
      const bool begins = (static_cast<unsigned char>(line[i]) & 0xC0) != 0x80;
      if (begins && seen++ == columns) return line.substr(0, i);
    }
    return line;
  }
  void write(const std::string& text) {
    if (write_text(stdout, text) != 0) throw FileError("standard output cannot be written to");
  }

  bool terminal_ = ::isatty(STDOUT_FILENO) == 1;
  int drawn_ = 0;
};

// The lines that are new since the last look, for output that is no terminal.
class NewLines {
 public:
  std::vector<std::string> of(const LiveRun& run) {
    std::vector<std::string> lines;
    for (; evaluations_ < run.evaluations.size(); ++evaluations_) {
      const EvaluationRow& row = run.evaluations[evaluations_];
      if (row.split == Split::test) lines.push_back(evaluation_line(row));
    }
    evaluations_ = run.evaluations.size();
    if (std::string line = progress_line(run); run.rows.size() != rows_) lines.push_back(std::move(line));
    rows_ = run.rows.size();
    return lines;
  }

 private:
  std::size_t evaluations_ = 0, rows_ = 0;
};

HttpAnswer page_of(const std::string& folder, const std::string& path) {
  if (path != "/") return {.status = 404, .body = "there is only /\n"};
  const std::optional<LiveRun> run = read_live_run(folder);
  HttpAnswer answer{.type = "text/html; charset=utf-8", .body = ""};
  if (!run) {
    answer.body = waiting_page(folder);
    return answer;
  }
  Report report = read_report(std::span(&folder, 1));
  report.state = state_line(*run);
  report.goes_on = run->running;
  answer.body = to_page(report);
  return answer;
}

class Watch {
 public:
  Watch(std::string folder, const OwnOptions& own) : folder_(std::move(folder)), own_(own) {
    if (own_.serve) {
      const MeetingPlace place = read_meeting_place(named("serve", *own_.serve), *own_.serve, 0);
      server_ = std::make_unique<HttpServer>("serve", place.host, place.port,
                                             [this](const std::string& path) { return page_of(folder_, path); });
      screen_.say("the page is at " + server_->address());
    }
  }

  int run() {
    while (StopSignal::caught() == 0) {
      const Timer timer;
      const std::optional<LiveRun> run = look();
      if (run && (run->running || run->summary || waited())) {
        show(*run);
        if (!run->running) return end(*run);
      }
      // A look at a long run takes a while, so the pauses are long enough that it takes a twentieth of a core at most.
      pause(std::max(own_.poll, 20 * timer.seconds()));
    }
    return 128 + StopSignal::caught();
  }

 private:
  // Reads the run; nothing if it has made no step yet. FileError after the wait if no run is at work there.
  std::optional<LiveRun> look() {
    if (!path_exists(folder_) && !waited()) return std::nullopt;
    std::optional<LiveRun> run = read_live_run(folder_);
    if (run || is_at_work(folder_)) {
      if (!run && !std::exchange(told_, true)) screen_.say(folder_ + ": no step has been made yet");
      if (!run || run->running) idle_.reset();
    } else if (waited()) {
      throw FileError(fmt::format("{}: no training run has made a step there, and none is at work", folder_));
    }
    return run;
  }
  // Whether no run has been at work for as long as we wait.
  bool waited() {
    if (!idle_) idle_.emplace();
    return idle_->seconds() >= own_.wait;
  }

  void show(const LiveRun& run) {
    if (screen_.is_terminal() || (!run.running && !shown_)) {
      screen_.draw(run);
    } else {
      for (const std::string& line : lines_.of(run)) screen_.say(line);
      if (!run.running) screen_.say(state_line(run));
    }
    shown_ = true;
  }

  int end(const LiveRun& run) {
    const int status = run.summary && !run.summary->diverged ? 0 : 1;
    if (!server_) return status;
    screen_.say("the page stays until Ctrl-C");
    while (StopSignal::caught() == 0) pause(1);
    return 128 + StopSignal::caught();
  }

  static void pause(double seconds) {
    const Timer timer;
    while (timer.seconds() < seconds && StopSignal::caught() == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  }

  std::string folder_;
  OwnOptions own_;
  StopSignal signals_;
  Screen screen_;
  NewLines lines_;
  std::optional<Timer> idle_;  // since when no run is at work
  bool told_ = false, shown_ = false;
  std::unique_ptr<HttpServer> server_;
};

}  // namespace

int run_watch(std::span<const std::string> arguments) {
  OwnOptions own;
  std::string folder;
  Flags flags("watch", "Shows a run while it trains: its loss, rates and ranks.", examples);
  flags.add_positional("run", folder, "run folder", true);
  if (!flags.read(arguments, own)) return 0;
  return Watch(folder, own).run();
}

}  // namespace sotto
