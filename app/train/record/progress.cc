#include "app/train/record/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cstdio>

#include "app/http/exposition.h"
#include "app/http/server.h"
#include "app/train/record/listener.h"
#include "sotto/algorithm/algorithm.h"
#include "sotto/core/thread.h"
#include "sotto/core/version.h"

namespace sotto {
namespace {

// A value between the quotes of a label.
std::string label_text(std::string_view value) {
  std::string text;
  for (const char c : value) {
    if (c == '\\' || c == '"') text += '\\';
    text += c == '\n' ? "\\n" : std::string(1, c);
  }
  return text;
}

class MetricsPage final : public Listener {
 public:
  explicit MetricsPage(const Choices& choices)
      : options_(choices.options),
        algorithm_(choices.algorithm),
        server_("metrics-port", "127.0.0.1", static_cast<std::uint16_t>(*options_.metrics_port),
                [this](const std::string& path) { return answer(path); }) {
    std::fprintf(stderr, "metrics for Prometheus are at %smetrics\n", server_.address().c_str());
  }

  void begin(const RunStart& start) override {
    const Lock lock(mutex_);
    steps_ = start.first_step;
    const bool is_idle = start.rank < idle_ranks(algorithm_, start.ranks);  // this rank is only a server
    examples_of_step_ = is_idle ? 0 : static_cast<double>(options_.batch_size * options_.accumulate);
  }

  void stepped(const TrainedStep& row) override {
    const Lock lock(mutex_);
    row_ = row;
    steps_ = row.step + 1;
    sent_ += static_cast<double>(row.bytes_sent);
    received_ += static_cast<double>(row.bytes_received);
    examples_ += examples_of_step_;
  }

  void evaluated(std::span<const EvaluationRow> rows, const TestResult& tested) override {
    const Lock lock(mutex_);
    evaluated_.assign(rows.begin(), rows.end());
    distance_ = tested.rank_goals.empty() ? std::nullopt : std::optional(tested.consensus_distance);
  }

 private:
  HttpAnswer answer(const std::string& path) {
    if (path != "/metrics") return {.status = 404, .body = "there is only /metrics\n"};
    const Lock lock(mutex_);
    return {.type = std::string(Exposition::content_type), .body = text()};
  }

  std::string text() SOTTO_REQUIRES(mutex_) {
    Exposition out;
    out.head("sotto_run_info", "gauge", "What runs; always 1.");
    out.value(
        "sotto_run_info", 1,
        fmt::format("version=\"{}\",task=\"{}\",model=\"{}\",data=\"{}\",codec=\"{}\",algorithm=\"{}\",ranks=\"{}\"",
                    version, label_text(options_.task), label_text(options_.model), label_text(options_.data.data),
                    label_text(options_.codec), label_text(options_.algorithm), options_.ranks));
    out.one("sotto_steps_total", "counter", "Steps that rank 0 has made, over all starts of the run.",
            static_cast<double>(steps_));
    out.one("sotto_sent_bytes_total", "counter", "Bytes that rank 0 has sent in steps since this start.", sent_);
    out.one("sotto_received_bytes_total", "counter", "Bytes that rank 0 has received in steps since this start.",
            received_);
    out.one("sotto_examples_total", "counter", "Training examples that rank 0 has read since this start.", examples_);
    if (row_) of_step(out, *row_);
    if (!evaluated_.empty()) of_evaluation(out);
    return out.take();
  }

  void of_step(Exposition& out, const StepRow& row) const {
    out.one("sotto_loss", "gauge", "Training loss of rank 0's last step.", row.loss);
    out.one("sotto_learning_rate", "gauge", "Learning rate of the last step.", row.lr);
    out.one("sotto_epoch", "gauge", "Passes over the training data before the last step.", row.epoch);
    out.one("sotto_step_seconds", "gauge", "Time of rank 0's last step.", row.step_ms / 1e3);
    out.head(
        "sotto_phase_seconds", "gauge",
        "Parts of that: compute, of it data, wait; and of the exchange, which may continue beside computing: encode, "
        "network, decode.");
    const std::array<std::pair<std::string_view, double>, 6> phases{{{"compute", row.compute_ms},
                                                                     {"data", row.data_ms},
                                                                     {"wait", row.wait_ms},
                                                                     {"encode", row.encode_ms},
                                                                     {"network", row.network_ms},
                                                                     {"decode", row.decode_ms}}};
    for (const auto& [name, ms] : phases) {
      out.value("sotto_phase_seconds", ms / 1e3, fmt::format("phase=\"{}\"", name));
    }
  }

  void of_evaluation(Exposition& out) SOTTO_REQUIRES(mutex_) {
    out.one("sotto_evaluated_step", "gauge", "Steps made before the last evaluation.",
            static_cast<double>(evaluated_.front().step));
    out.head("sotto_metric", "gauge", "Metrics of the last evaluation; train: over the batches since the one before.");
    for (const EvaluationRow& row : evaluated_) {
      for (std::size_t i = 0; i < row.metrics.kinds.size(); ++i) {
        out.value("sotto_metric", row.metrics.values[i],
                  fmt::format("metric=\"{}\",split=\"{}\"", row.metrics.kinds[i].name,
                              row.split == Split::test ? "test" : "train"));
      }
    }
    if (distance_) {
      out.one("sotto_consensus_distance", "gauge", "How far the ranks' models were apart then.", *distance_);
    }
  }

  const TrainOptions options_;
  const AlgorithmSpec algorithm_;
  Mutex mutex_;
  std::uint64_t steps_ SOTTO_GUARDED_BY(mutex_) = 0;
  double sent_ SOTTO_GUARDED_BY(mutex_) = 0, received_ SOTTO_GUARDED_BY(mutex_) = 0;
  double examples_ SOTTO_GUARDED_BY(mutex_) = 0, examples_of_step_ SOTTO_GUARDED_BY(mutex_) = 0;
  std::optional<StepRow> row_ SOTTO_GUARDED_BY(mutex_);
  std::vector<EvaluationRow> evaluated_ SOTTO_GUARDED_BY(mutex_);
  std::optional<double> distance_ SOTTO_GUARDED_BY(mutex_);
  HttpServer server_;  // the last member: its thread uses the others
};

}  // namespace

Progress::Progress(std::string_view starter)
    : style_(starter == "sotto"      ? Style::launcher
             : isatty(STDERR_FILENO) ? Style::terminal
                                     : Style::plain),
      interval_(style_ == Style::plain ? 5.0 : 0.1) {}

void Progress::show(const std::string& line) {
  since_.lap();
  switch (style_) {
    case Style::launcher: std::fprintf(stderr, "%s\r", line.c_str()); break;
    case Style::terminal: std::fprintf(stderr, "\r\033[K%s", line.c_str()); break;
    case Style::plain: std::fprintf(stderr, "%s\n", line.c_str()); break;
  }
  drawn_ = true;
  std::fflush(stderr);
}

void Progress::clear() {
  if (style_ == Style::terminal && drawn_) std::fputs("\r\033[K", stderr);
  drawn_ = false;
}

void Progress::say(const std::string& line) {
  clear();
  std::fprintf(stderr, "%s\n", line.c_str());
  std::fflush(stderr);
}

std::unique_ptr<Listener> make_metrics_page(const Choices& choices) { return std::make_unique<MetricsPage>(choices); }

}  // namespace sotto
