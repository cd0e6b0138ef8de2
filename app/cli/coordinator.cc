#include "app/launch/coordinator.h"

#include <fmt/format.h>

#include <chrono>
#include <thread>

#include "app/cli/commands.h"
#include "app/cli/flags.h"
#include "app/http/exposition.h"
#include "app/http/server.h"
#include "app/train/stop_signal.h"
#include "sotto/comm/secret.h"
#include "sotto/core/error.h"
#include "sotto/core/thread.h"

namespace sotto {
namespace {

constexpr std::string_view examples = R"text(
Ranks join and leave at any time, on any machine that reaches this one; the others continue. Training starts when MIN
ranks are there, and waits while fewer are. Ctrl-C ends only the coordinator: the ranks continue to train, but their
group cannot change until a coordinator with the same --state runs at the same address again.

Example, the second line once for each rank:
  sotto coordinator --ranks 2:4 --listen 10.0.0.1:29400 --state job.state
  sotto train --model resnet20 --train-dir runs/r20 --coordinator 10.0.0.1:29400)text";

std::string exposition(const Coordinator& coordinator) {
  const Generations& generations = coordinator.generations();
  Exposition out;
  out.one("sotto_generation", "gauge", "Groups of ranks so far.", static_cast<double>(generations.number()));
  out.one("sotto_members", "gauge", "Ranks in the group.", static_cast<double>(generations.members().size()));
  out.one("sotto_waiting", "gauge", "Ranks that wait to join it.", static_cast<double>(generations.waiting().size()));
  out.head("sotto_silent_seconds", "gauge", "Time since a rank's last heartbeat.");
  for (const int id : generations.there()) {
    out.value("sotto_silent_seconds", coordinator.silent_seconds(id), fmt::format("rank=\"{}\"", id));
  }
  return out.take();
}

// Serves the figures that the coordinator saw last.
class MetricsPage {
 public:
  explicit MetricsPage(std::uint16_t port)
      : server_("metrics-port", "127.0.0.1", port, [this](const std::string& path) { return answer(path); }) {}
  void show(std::string text) {
    const Lock lock(mutex_);
    text_ = std::move(text);
  }
  std::string address() const { return server_.address() + "metrics"; }

 private:
  HttpAnswer answer(const std::string& path) {
    if (path != "/metrics") return {.status = 404, .body = "there is only /metrics\n"};
    const Lock lock(mutex_);
    return {.type = std::string(Exposition::content_type), .body = text_};
  }

  Mutex mutex_;
  std::string text_ SOTTO_GUARDED_BY(mutex_);
  HttpServer server_;  // the last member: its thread uses the others
};

}  // namespace

int run_coordinator(std::span<const std::string> arguments) {
  constexpr std::chrono::milliseconds between_looks(100);
  std::string ranks, state, secret;
  std::string listen = "127.0.0.1:29400";
  std::string on_failure = "continue";
  std::int64_t patience = CoordinatorSpec{}.patience.count();
  std::optional<std::int64_t> metrics_port;
  Flags flags("coordinator", "Lets the ranks of a job come and go: tells them who is in their group.", examples);
  const Flags::Visit visit = [&](OptionVisitor& v) {
    v.option("ranks", ranks, "MIN:MAX, how many ranks the job has");
    v.option("listen", listen, "HOST:PORT, an address of this machine that the ranks reach; port 0: any free one");
    v.option("on-failure", on_failure,
             "what the other ranks do when a rank is lost: continue, stop, or checkpoint (write one, then stop)");
    v.option("state", state, "a file from which a later coordinator can continue the job");
    v.option("secret", secret,
             "file with the secret that every rank must have; without it, the first rank's secret is required of the "
             "others");
    v.option("patience", patience, "seconds after which a rank that hangs, while the others wait for it, is given up",
             {1, 1e6});
    v.option("metrics-port", metrics_port, "serve figures for Prometheus at this port of the loopback; 0: any free one",
             {0, 65535});
  };
  if (!flags.read(arguments, visit)) return 0;
  flags.refuse_empty({"secret"});
  refuse(ranks.empty(), "--ranks: missing; say MIN:MAX, how many ranks the job has");
  const RankRange range = read_rank_range("--ranks " + ranks, ranks);
  Console console;
  Coordinator coordinator({.place = read_meeting_place("--listen " + listen, listen, 0),
                           .least = static_cast<std::size_t>(range.least),
                           .most = static_cast<std::size_t>(range.most.value_or(range.least)),
                           .on_failure = read_on_failure(on_failure),
                           .patience = std::chrono::seconds(patience),
                           .secret = secret.empty() ? std::nullopt : std::optional(read_secret(secret)),
                           .state = state},
                          console);
  const StopSignal signals;
  const std::string host = listen.substr(0, listen.rfind(':'));
  const bool is_any = host == "0.0.0.0" || host == "[::]";  // from which another machine learns nothing
  console.line(stderr, fmt::format("sotto: ranks join with --coordinator {}:{}{}", is_any ? "HOST" : host,
                                   coordinator.port(), is_any ? ", where HOST is an address of this machine" : ""));
  std::unique_ptr<MetricsPage> page;
  if (metrics_port) {
    page = std::make_unique<MetricsPage>(static_cast<std::uint16_t>(*metrics_port));
    console.line(stderr, "sotto: metrics for Prometheus are at " + page->address());
  }
  while (coordinator.look_after()) {
    if (StopSignal::caught() != 0 && coordinator.has_ended()) break;  // the result is known
    if (StopSignal::caught() != 0) return 128 + StopSignal::caught();
    if (page) page->show(exposition(coordinator));
    std::this_thread::sleep_for(between_looks);
  }
  if (!coordinator.error().empty()) throw CommError(coordinator.error());
  console.line(stderr, "sotto: the run has come to its end");
  return 0;
}

}  // namespace sotto
