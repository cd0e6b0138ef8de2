#include "app/train/trainer.h"

#include <fmt/format.h>
#include <sys/prctl.h>

#include <algorithm>
#include <chrono>
#include <system_error>
#include <utility>

#include "adapters/c10d/transports.h"
#include "app/cli/commands.h"
#include "app/cli/train/flags.h"
#include "app/cli/train/job.h"
#include "app/cli/train/ranks.h"
#include "app/launch/signals.h"
#include "app/train/folder/run_folder.h"
#include "app/train/options/choices.h"
#include "sotto/comm/group/membership.h"
#include "sotto/comm/group/tcp_store.h"
#include "sotto/comm/interfaces.h"
#include "sotto/comm/secret.h"
#include "sotto/comm/transport.h"
#include "sotto/comm/world.h"
#include "sotto/core/text.h"

namespace sotto {
namespace {

constexpr std::string_view examples = R"text(
The ranks are processes of this machine (--ranks N), or of the machines of --hosts, which ssh reaches, or those that
torchrun, Open MPI's mpirun or SLURM's srun started.
Without any of these, start each rank by hand with the variables RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT. Ranks
that come and go while the job runs: `sotto coordinator` and --coordinator.

--replay RUN takes the options of RUN, and changes the group of ranks at the steps that RUN/membership.csv names. It
says whether it ends with the same parameters as RUN. It allows only --train-dir, --data-dir, --backend, and options
that change what is written.

Examples:
  sotto train --ranks 4 --codec "ef | topk(0.01)" --train-dir runs/topk
  sotto train --ranks 4 --codec "ef | topk(0.01)" --train-dir runs/topk --resume --epochs 5
  sotto train --config runs/topk/config.toml --seed 2
  sotto train --hosts node1:4,node2:4 --codec int8 --train-dir /shared/run
  torchrun --nnodes 2 --nproc-per-node 2 ... --no-python sotto train --codec int8)text";

struct OwnOptions {
  bool dry_run = false;
  std::int64_t restarts = 0;
  std::string elastic;
  std::string on_failure = "continue";
  std::string coordinator;
  std::int64_t coordinator_wait = World{}.coordinator_wait.count();
  std::string replay;
  HostFlags hosts;
  void visit(OptionVisitor& v) {
    v.option("dry-run", dry_run, "only print what a step would send");
    v.option("restarts", restarts,
             "how many times to restart all ranks from the newest checkpoint after one failed; with --elastic, how "
             "many lost ranks to replace",
             {0, 1e6});
    v.option("elastic", elastic,
             "MIN or MIN:MAX: begin with MAX ranks, and continue without ranks that are killed or hang while at least "
             "MIN are left");
    v.option("on-failure", on_failure,
             "with --elastic, what the other ranks do when a rank is lost: continue, stop, or checkpoint (write one, "
             "then stop)");
    v.option("coordinator", coordinator,
             "HOST:PORT: join the job of the `sotto coordinator` there, as one rank; others may come and go meanwhile");
    v.option("coordinator-wait", coordinator_wait,
             "seconds that a rank waits for its coordinator, or for the next one, when it needs it", {1, 1e6});
    v.option("replay", replay,
             "RUN: repeat the run in that folder bit-for-bit, with the ranks that came and went; see below");
    hosts.visit(v);
  }
};

int print_dry_run(const Choices& choices) {
  const TrainOptions& options = choices.options;
  const DryRun run = dry_run(choices);
  const auto [least, most] = std::ranges::minmax(run.bytes_sent);
  fmt::print("model         {}, {} parameters in {} bucket{}\n", options.model, run.parameters, run.buckets,
             run.buckets == 1 ? "" : "s");
  fmt::print("codec         {}\n", options.codec);
  fmt::print("aggregator    {}\n", run.aggregator);
  if (run.first_step > 0) {
    fmt::print("from step     {}{}\n", run.first_step,
               run.only_dense ? ": the run ends before, and never compresses" : "");
  }
  if (!run.remark.empty()) fmt::print("chosen        {}\n", run.remark);
  if (!run.phases_remark.empty()) fmt::print("remark        {}\n", spelled(run.phases_remark, flag_spelling));
  for (const std::string& warning : run.warnings) fmt::print("warning       {}\n", spelled(warning, flag_spelling));
  if (!run.data_report.empty()) fmt::print("{}\n", run.data_report);
  const bool often = run.exchanges == run.period;
  if (options.ranks == 1) {
    fmt::print("a rank sends  0 bytes: it is alone, and has nobody to send to; say how many there are with --ranks\n");
    return 0;
  }
  fmt::print("a rank sends  {} bytes {}{}\n", most / run.exchanges, often ? "a step" : "an exchange",
             run.bytes_vary  ? " of random gradients; the number depends on their values"
             : least == most ? ""
                             : fmt::format(" at most, {} at least", least / run.exchanges));
  if (!often) {
    fmt::print("exchanges     after {} of {} steps: {} bytes a step\n", run.exchanges, run.period, most / run.period);
  }
  fmt::print("dense         {} bytes a step\n", run.dense_bytes);
  const double dense = static_cast<double>(run.dense_bytes) * static_cast<double>(run.period);
  fmt::print("ratio         {}\n", most == 0 ? "-" : fmt::format("{:.1f}", dense / static_cast<double>(most)));
  return 0;
}

int run_rank(const Choices& choices, const World& world) {
  keep_freed_memory();
  const TrainResult result = train(choices, world);
  if (world.rank == 0 && world.starter != "sotto") {
    Console console;
    print_result(result.train_dir, console);
  }
  return result.signal == 0 ? 0 : 128 + result.signal;
}

// Runs one rank of a job whose ranks join by themselves. Unlike run_train_job(), it touches no checkpoint, because
// others may be writing it.
int join_coordinator(const TrainOptions& options, const World& coordinator) {
  Console console;
  LaunchSpec spec = train_job(options);
  spec.coordinated = {.id = join_job(coordinator, spec.secret),
                      .most = std::exchange(spec.ranks, 1),
                      .wait = coordinator.coordinator_wait};
  const LaunchResult result = launch(spec, console);
  if (result.status == 0) print_result(options.train_dir, console);
  if (!result.error.empty()) {
    end_in_job(coordinator, spec.coordinated->id, result.error);
    console.line(stderr, "sotto: " + spelled(result.error, flag_spelling));
  }
  return result.status;
}

// How this process serves or joins the store where the ranks meet. A coordinator may have no secret although its ranks
// have one.
TcpStores stores_of(const TrainOptions& options, const World& world) {
  const std::string& file = options.transport.secret.empty() ? world.secret : options.transport.secret;
  return TcpStores(file.empty() ? std::nullopt : std::optional(read_secret(file)),
                   world.coordinated ? TcpStores::Plain::accepted : TcpStores::Plain::never);
}

// Finds the coordinator. Sets `least_ranks`, and the number of ranks in `options` to the most that the job may have.
World find_coordinator(const OwnOptions& own, TrainOptions& options, std::int64_t& least_ranks,
                       std::optional<TcpStores>& stores) {
  const std::string& text = own.coordinator;
  const std::string said = named("coordinator", text);
  const MeetingPlace place = read_meeting_place(said, text);
  refuse(options.ranks != 0, "{}: this is one rank of its job; leave --ranks out", said);
  refuse(!options.master.empty(), "{}: the ranks meet there; leave --master out", said);
  refuse(options.train_dir.empty(),
         "{}: needs --train-dir, the same for all ranks, since ranks that join later continue that run", said);
  options.master = text;
  World world;
  world.host = place.host;
  world.port = place.port;
  world.coordinated = true;
  world.stores = &stores.emplace(stores_of(options, world));
  world.coordinator_wait = std::chrono::seconds(own.coordinator_wait);
  print_error(fmt::format("joining the job of the coordinator at {}, as soon as it answers\n", text));
  const JobSize size = size_of_job(world);
  least_ranks = static_cast<std::int64_t>(size.least);
  options.ranks = static_cast<std::int64_t>(size.most);
  return world;
}

void require_elastic_job(const OwnOptions& own) {
  const auto why = [&](bool wrong, const char* text) { refuse(wrong, "--on-failure {}: {}", own.on_failure, text); };
  why(!own.coordinator.empty(), "the coordinator says what ranks do; give it to `sotto coordinator`");
  why(own.elastic.empty(), "without --elastic, a lost rank ends the job in any case; add --elastic MIN:MAX");
  why(own.restarts > 0, "no lost rank is replaced; leave --restarts out");
}

// Whether nobody else can read or change the messages of ranks over `tcp`. True with a relay, since it requires a
// secret.
bool are_private(const TrainOptions& options, const OwnOptions& own, const World& world) {
  if (!own.hosts.hosts.empty() || !options.transport.secret.empty() || !world.secret.empty() ||
      !options.transport.relay.empty())
    return true;
  const bool here = world.starter == "single" || world.local_size == world.size;
  return here && is_loopback(world.host) && options.transport.interface.empty() && options.transport.address.empty();
}

int run_job(TrainOptions options, const OwnOptions& own, std::int64_t least_ranks, const JobHosts* hosts) {
  if (options.train_dir.empty()) options.train_dir = new_run_folder(options.model);
  Console console;
  const auto job = [&] {
    LaunchSpec spec = train_job(options);
    spec.hosts = hosts;
    return spec;
  };
  LaunchSpec spec = job();
  std::int64_t restarts = own.restarts;
  if (least_ranks > 0) {
    spec.least_ranks = least_ranks;
    spec.on_failure = read_on_failure(own.on_failure);
    spec.replacements = std::exchange(restarts, 0);
    spec.patience = std::chrono::seconds(2 * options.deadline);  // until then a rank may still come to meet the others
  }
  const Signals signals;  // a signal between two starts also ends the job
  LaunchResult result = run_train_job(spec, options.train_dir, console);
  // No new start after a refused option, or after a request to stop, even to a single rank.
  const auto failed = [&] {
    return result.status != 0 && result.status != 2 && result.signal == 0 && !is_stop_status(result.status);
  };
  for (std::int64_t i = 1; i <= restarts && failed(); ++i) {
    console.line(stderr, fmt::format("sotto: {}; starting again, {} of {}", result.error, i, restarts));
    std::error_code missing;
    options.resume = std::filesystem::is_directory(options.train_dir, missing);
    result = run_train_job(job(), options.train_dir, console);
  }
  if (result.status == 0) print_result(options.train_dir, console);
  if (!result.error.empty()) console.line(stderr, "sotto: " + spelled(result.error, flag_spelling));
  return result.status;
}

}  // namespace

int run_train(std::span<const std::string> arguments) {
  TrainOptions options;
  OwnOptions own;
  Flags flags("train", "Trains a model on one or more ranks, which exchange compressed gradients.",
              train_lists() + std::string(examples));
  add_train_flags(flags, options);
  flags.add(own);
  if (!flags.parse(arguments)) return 0;
  flags.assign(own);
  if (flags.given("replay")) return run_replay(own.replay, flags, names_of_options(own));
  assign_train_flags(flags, options);

  const bool joins = !own.coordinator.empty();
  const bool meets = transport_table().require("backend", options.backend).own_meeting.empty();
  World world = joins ? World() : find_world(options.master, meets);
  // The shell of an interactive job (`srun --pty bash`) is a step of one task, and starts ranks like any other.
  const bool starts = (flags.given("ranks") && options.ranks > 1) || !own.hosts.hosts.empty() || !own.elastic.empty();
  if (world.starter == "slurm" && world.size == 1 && starts) world = World();
  const bool started = world.starter != "single";
  flags.refuse_empty({"hosts", "elastic", "coordinator"});
  if (world.starter != "sotto" && !options.resume)
    flags.refuse_empty({"secret", "relay", "master"});  // an empty one would be taken from the record
  if (started) {  // for `ps` and `top`; no space, since Slurm cannot find processes whose name has one
    prctl(PR_SET_NAME, fmt::format("sotto-rank{}", world.starter == "sotto" ? world.id : world.rank).c_str());
  }
  // A number from a record or a file of options counts only if nothing else says how many ranks there are now.
  const bool counted = started || !own.hosts.hosts.empty() || !own.elastic.empty();
  if (counted && !flags.given("ranks")) options.ranks = 0;
  refuse(started && options.ranks != 0 && options.ranks != world.size,
         "--ranks {}: {} started {} ranks; leave --ranks out", options.ranks, world.starter, world.size);
  for (const auto& [name, value] :
       {std::pair("weights", options.weights), {"weights-except", options.weights_except}}) {
    refuse(options.resume && flags.given(name) && !value.empty(),
           "{}: a resumed run continues with its own parameters; leave it out", named(name, value));
  }
  refuse(joins && !(own.elastic.empty() && own.restarts == 0),
         "--coordinator: the coordinator says how many ranks there may be; leave --elastic and --restarts out");
  refuse(!joins && flags.given("coordinator-wait"),
         "--coordinator-wait: this rank has no coordinator; leave it out, or say --coordinator HOST:PORT");
  if (read_on_failure(own.on_failure) != OnFailure::go_on) require_elastic_job(own);
  refuse(joins && !own.hosts.hosts.empty(), "--coordinator: starts one rank, here; leave --hosts out");
  std::int64_t least_ranks = 0;
  std::optional<TcpStores> stores;  // must outlive the world that uses them
  const World coordinator = joins ? find_coordinator(own, options, least_ranks, stores) : World();
  if (!flags.given("backend") && !are_private(options, own, joins ? coordinator : world)) {
    options.backend = "gloo";
    if (world.rank == 0) {
      print_error(fmt::format(
          "backend: gloo, since others could read and change on the way what ranks send; with --secret it is private, "
          "and goes over tcp\n"));
    }
  }
  const Transport& transport = transport_table().require("backend", options.backend);
  refuse(!own.hosts.hosts.empty() && started, "--hosts: {} started this rank, and decides where ranks run",
         world.starter);
  std::optional<JobHosts> hosts = read_job_hosts(own.hosts, options);
  if (!joins)
    least_ranks = read_elastic(own.elastic, options.ranks, hosts ? "the hosts of --hosts have" : "--ranks says");
  if (options.ranks == 0) options.ranks = world.size;
  if (started && options.topology == "hosts") options.topology = fmt::format("hosts({})", world.local_size);
  if (started && options.node_size == 0) options.node_size = ranks_of_host("--node-size 0", "how many", world);
  Choices choices = read_choices(options);
  choices.spelling = flag_spelling;
  refuse(own.restarts > 0 && started, "--restarts: {} started this rank; let it start all of them again, with --resume",
         world.starter);
  refuse(!own.elastic.empty() && started, "--elastic: {} started this rank; only ranks that sotto starts can be lost",
         world.starter);
  if (least_ranks > 0) {
    const bool saves = !joins && read_on_failure(own.on_failure) == OnFailure::checkpoint;  // with any number left
    require_elastic(joins ? "coordinator" : "elastic", choices, saves ? 1 : least_ranks, options.ranks);
  }
  if (own.dry_run) {
    if (joins && !options.resume) choices.options.train_dir.clear();  // it may hold the run of this job already
    return print_dry_run(choices);
  }
  World wanted = world;
  if (!started) wanted.size = wanted.local_size = static_cast<int>(choices.options.ranks);
  // On hosts, the ranks check what the transport needs, unless it is a transport that does not start ranks by ssh.
  if (!hosts || !transport.own_meeting.empty()) transport.require(wanted);
  if (hosts) take_secret(*hosts, transport, choices.options);
  // A single rank is launched, too, because OpenMP reads its variables before main().
  if (joins) return join_coordinator(choices.options, coordinator);
  if (started) world.stores = world.agent_store ? &c10d_stores() : &stores.emplace(stores_of(choices.options, world));
  return started ? run_rank(choices, world) : run_job(choices.options, own, least_ranks, hosts ? &*hosts : nullptr);
}

}  // namespace sotto
