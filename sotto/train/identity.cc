#include "sotto/train/identity.h"

#include <fmt/format.h>

#include <vector>

#include "sotto/core/error.h"
#include "sotto/core/file.h"
#include "sotto/core/hash.h"
#include "sotto/core/options.h"
#include "sotto/train/buckets.h"

namespace sotto {
namespace {

std::uint64_t hash_of(std::span<const float> parameters) {
  Hash hash;
  hash.add(sha256_hex(std::as_bytes(parameters)));
  return hash.value();
}

}  // namespace

checkpoint::Metadata run_identity(const TrainOptions& options, const std::string& method,
                                  const ChosenOptimiser& optimiser, const Layout& parameters, int ranks) {
  return {
      {"accumulate", std::to_string(options.accumulate)},
      {"aggregator", options.aggregator},
      {"algorithm", options.algorithm +
                        (options.topology.empty() ? "" : fmt::format(" on {}, {}", options.topology, options.mixing)) +
                        (options.peers_per_step.empty() ? "" : ", peers " + options.peers_per_step)},
      {"average-iterates", format_double(options.average_iterates)},
      {"batch-size", std::to_string(options.batch_size)},
      {"buckets", bucket_text(options)},
      {"codec", method},
      {"data", options.data.data},
      {"data-seed", std::to_string(options.data.data_seed)},
      {"model", options.model},
      {"optimiser", lasting_options(optimiser)},
      {"parameter-layout", fmt::format("{:016x}", parameters.hash())},
      {"ranks", std::to_string(ranks)},
      {"seed", std::to_string(options.seed)},
      {"train-size", std::to_string(options.data.train_size)}};
}

void require_same(std::uint64_t mine, std::string_view otherwise, Communicator& communicator) {
  std::vector<std::uint64_t> all(static_cast<std::size_t>(communicator.size()));
  communicator.all_gather(std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(all)));
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank] != all[0]) throw ConfigError(fmt::format("rank {} {}", rank, otherwise));
  }
}

void require_same_parameters(std::span<const float> parameters, std::string_view otherwise,
                             Communicator& communicator) {
  require_same(hash_of(parameters), otherwise, communicator);
}

void require_same_start(const TrainOptions& options, const Links& links, const Dataset& train, const Dataset& test,
                        std::span<const float> parameters, Communicator& communicator) {
  TrainOptions shared = options;
  shared.interface.clear();
  shared.address.clear();
  shared.master.clear();
  shared.data.data_dir.clear();
  shared.train_dir.clear();  // rank 0's counts
  shared.capture.clear();
  if (!links.file.empty()) shared.link.clear();  // what it says counts
  shared.threads = 0;
  shared.codec_threads = 1;
  Hash hash;
  hash.add(to_toml(shared));
  hash.add(links.file);
  hash.add(std::uint64_t{train.size()});
  hash.add(std::uint64_t{test.size()});
  hash.add(hash_of(parameters));
  require_same(hash.value(), "was started with other options, data or initial parameters than rank 0", communicator);
}

}  // namespace sotto
