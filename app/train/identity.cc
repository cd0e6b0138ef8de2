#include "app/train/identity.h"

#include <fmt/format.h>

#include "sotto/comm/group/store.h"
#include "sotto/core/file.h"

namespace sotto {
namespace {

std::uint64_t hash_of(std::span<const float> parameters) {
  Hash hash;
  hash.add(sha256_hex(std::as_bytes(parameters)));
  return hash.value();
}

// The lowest rank whose number differs from rank 0's. Collective.
std::optional<int> first_other(std::uint64_t mine, Communicator& communicator) {
  // The maximum of the numbers, and the maximum of their complements, which gives the minimum.
  std::array<std::uint64_t, 2> ends{mine, ~mine};
  for (std::uint64_t& end : ends) end ^= std::uint64_t{1} << 63;  // compared as signed numbers
  communicator.all_reduce(std::as_writable_bytes(std::span(ends)), DType::i64, ReduceOp::max);
  if (ends[0] == ~ends[1]) return std::nullopt;
  std::vector<std::uint64_t> all(static_cast<std::size_t>(communicator.size()));
  communicator.all_gather(std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(all)));
  const auto other = std::ranges::find_if(all, [&](std::uint64_t each) { return each != all[0]; });
  return static_cast<int>(other - all.begin());
}

// The lines of that rank's text, made safe for printing by others. Collective.
std::vector<std::string> told_by(int rank, std::string text, Communicator& communicator) {
  constexpr std::uint64_t most = 1 << 20;
  std::uint64_t length = std::min<std::uint64_t>(text.size(), most);
  communicator.broadcast(std::as_writable_bytes(std::span(&length, 1)), rank);
  text.resize(std::min(length, most));
  communicator.broadcast(std::as_writable_bytes(std::span(text)), rank);
  std::vector<std::string> lines;
  for (std::size_t at = 0, end = 0; end != text.npos; at = end + 1) {
    end = text.find('\n', at);
    lines.push_back(visible(text.substr(at, end - at)));
  }
  return lines;
}

// The canonical text of an optimiser without its weight decay, which may change during a run, like the learning rate.
std::string lasting_text(const OptimiserSpec& optimiser) {
  return record_options(optimiser.entry->name, optimiser.options, "weight-decay");
}

// The same text for the optimiser and for the groups of tensors that have other options. Factors of the learning rate
// may change, and are left out.
std::string lasting_text(const Choices& choices) {
  std::string text = lasting_text(choices.optimiser.spec);
  for (const ParameterGroup& group : choices.optimiser.groups) {
    text += fmt::format("; {}: {}", group.names(), lasting_text(group.optimiser));
  }
  // Checkpoints hold the state of a plateau; its options may change, like those of all schedules.
  if (const auto* plateau = plateau_of(choices.schedule)) {
    text += "; plateau of " + plateau->options.as<PlateauOptions>().metric;
  }
  return text;
}

void require_other_ranks(const Choices& choices, const std::string& folder, const std::string& before,
                         const std::string& ranks, const Manifest& manifest) {
  const std::string refusal =
      fmt::format("{}: it was written with ranks {}, this run has {}", named("resume", folder), before, ranks);
  if (manifest.course.empty()) {
    throw ConfigError(
        fmt::format("{}, and an older version of sotto wrote it, which did not note what was read; use {}", refusal,
                    named("ranks", before)));
  }
  const bool has_nodes = choices.options.node_size > 1;
  if (choices.algorithm.entry->traits.other_ranks && !has_nodes) return;
  throw ConfigError(fmt::format(
      "{}, and `{}`{} cannot continue with another number; use the same, or start a run of its own from the "
      "mean model with {}",
      refusal, choices.algorithm.entry->name, has_nodes ? " between nodes" : "",
      named("weights", (std::filesystem::path(folder) / checkpoint::model_file).string())));
}

}  // namespace

checkpoint::Metadata run_identity(const Choices& choices, const std::string& method, const Layout& parameters,
                                  int ranks) {
  const TrainOptions& options = choices.options;
  checkpoint::Metadata identity{
      {"accumulate", std::to_string(options.accumulate)},
      {"amp", std::string(choices.amp.entry->name)},
      {"aggregator", options.aggregator},
      {"algorithm", options.algorithm +
                        (options.topology ? fmt::format(" on {}, {}", *options.topology, *options.mixing) : "") +
                        (options.peers_per_step ? ", peers " + *options.peers_per_step : "") +
                        (options.node_size == 1 ? "" : fmt::format(", between nodes of {}", options.node_size))},
      {"augment", options.data.augment},
      {"average-iterates", choices.optimiser.averaging.text()},
      {"batch-size", std::to_string(options.batch_size)},
      {"buckets", choices.buckets.text()},
      {"codec", method},
      {"data", options.data.data + (options.data.data == "parallel" ? " " + options.data.languages : "") +
                   (options.data.tokens == "bytes" ? "" : " as tokens of " + options.data.tokens) +
                   (options.data.image_size ? fmt::format(" at {}", *options.data.image_size) : "") +
                   (deals(choices.partition) ? " dealt by " + choices.partition.text() : "")},
      {"data-seed", std::to_string(options.data.data_seed)},
      {"model", options.model},
      {"optimiser", lasting_text(choices)},
      {"parameter-layout", fmt::format("{:016x}", parameters.hash())},
      {"ranks", std::to_string(ranks)},
      {"seed", std::to_string(options.seed)},
      {"task", options.task},
      {"train-size", std::to_string(options.data.train_size)}};
  if (!choices.model.fingerprint.empty()) identity["model-library"] = choices.model.fingerprint;
  return identity;
}

checkpoint::Metadata run_identity(const Choices& choices, const std::string& method, Task& task, int ranks) {
  checkpoint::Metadata identity = run_identity(choices, method, task.layout(), ranks);
  const auto examples = [&task](Split split) {
    return fmt::format("{} examples, hash {:016x}", task.examples(split), task.sample_hash(split));
  };
  identity["training-data"] = examples(Split::train);
  identity["test-data"] = examples(Split::test);  // otherwise evaluations.csv would have rows of two test sets
  if (const std::string meaning = task.meaning(); !meaning.empty()) identity[data_meaning] = meaning;
  return identity;
}

void require_identity(const std::string& folder, const checkpoint::Metadata& found,
                      const checkpoint::Metadata& wanted) {
  for (const auto& [key, value] : wanted) {
    const auto there = found.find(key);
    const std::string other = there == found.end() ? "none" : there->second;
    if (other != value) {
      throw ConfigError(fmt::format("{}: it was written with {} {}, this run has {}; use the same, or another {}",
                                    named("resume", folder), key, other, value, named("train-dir")));
    }
  }
}

bool require_resumable(const Choices& choices, const std::string& folder, const Manifest& manifest,
                       checkpoint::Metadata identity, bool changes) {
  const auto found = manifest.identity.find("ranks");
  const std::string before = found == manifest.identity.end() ? "(nothing)" : found->second;
  const std::string ranks = identity.at("ranks");
  const bool same = before == ranks;
  identity.erase("codec");
  if (!same) {
    if (!changes) require_other_ranks(choices, folder, before, ranks, manifest);
    for (const char* may_change : {"ranks", "batch-size", "accumulate"}) identity.erase(may_change);
  }
  require_identity(folder, manifest.identity, identity);
  return same;
}

void require_same(std::uint64_t mine, std::string_view otherwise, Communicator& communicator) {
  if (const auto rank = first_other(mine, communicator)) throw ConfigError(fmt::format("rank {} {}", *rank, otherwise));
}

void require_same_parameters(std::span<const float> parameters, std::uint64_t step, Communicator& communicator) {
  const auto rank = first_other(hash_of(parameters), communicator);
  if (!rank) return;
  throw Error(fmt::format(
      "rank {} has other parameters than rank 0 after step {}: these are two models by now. Processors of one "
      "type with the same number of compute threads compute the same; if these are, please report it",
      *rank, step));
}

void require_same_start(const Choices& choices, Task& task, Communicator& communicator, bool may_change) {
  const Links& links = choices.links;
  TrainOptions shared = choices.options;
  shared.transport = {.streams = shared.transport.streams};  // the other transport options belong to a host
  shared.master.clear();
  shared.data.data_dir.clear();
  shared.weights.clear();                     // their content counts
  if (!may_change) shared.train_dir.clear();  // only rank 0's counts, and no other rank takes its place
  shared.capture.reset();
  shared.measure_errors = 0;
  shared.tensorboard.reset();
  shared.metrics_port.reset();
  if (!links.file.empty()) shared.link.reset();  // only the file's content counts
  shared.threads.reset();
  shared.codec_threads = 1;
  const std::string text = to_toml(shared);
  Hash hash;
  hash.add(text);
  hash.add(links.file);
  for (const Split split : {Split::train, Split::test}) hash.add(task.sample_hash(split));
  hash.add(hash_of(task.parameters()));
  const auto other = first_other(hash.value(), communicator);
  if (!other) return;
  const auto ours = told_by(0, text, communicator), theirs = told_by(*other, text, communicator);
  const auto [here, there] = std::ranges::mismatch(ours, theirs);
  if (here == ours.end() || there == theirs.end()) {
    throw ConfigError(
        fmt::format("rank {} was started with other data, links or initial parameters than rank 0", *other));
  }
  std::string advice;
  if (may_change && here->starts_with("resume ")) {  // each rank looks whether the folder is there
    advice = fmt::format("; ranks that come and go must share the run folder ({})", shared.train_dir);
  }
  throw ConfigError(fmt::format("rank {} was started with other options than rank 0: `{}` instead of `{}`{}", *other,
                                *there, *here, advice));
}

}  // namespace sotto
