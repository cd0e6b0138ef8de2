#include "app/cli/commands.h"

#include <fmt/format.h>

#include <array>

#include "sotto/core/table.h"

namespace sotto {

std::span<const Command> command_table() {
  static constexpr std::array<Command, 19> table{{
      {"demo", "train LeNet on four ranks, dense and compressed, over a slow link; print one table", run_demo, true},
      {"train", "train a model on one or more ranks", run_train, true},
      {"compare", "train the same job once with each of several codecs; print one table", run_compare, true},
      {"tune", "find the best learning rate, or any other option, by short trainings", run_tune, true},
      {"advise", "predict a step with each of many codecs over a link, and recommend one", run_advise, false, true},
      {"report", "show runs in one HTML file: curves, costs, differences", run_report},
      {"watch", "show a run while it trains, in a terminal or as a page", run_watch},
      {"eval", "evaluate the checkpoints of a run, also while it trains", run_eval, false, true},
      {"export", "write the weights of a checkpoint to a safetensors file", run_export},
      {"import", "make a run folder of the weights in a safetensors file", run_import},
      {"codec", "list, describe and measure codecs; advise on a basis", run_codec},
      {"analyze", "show what captured gradients are like, and what codecs do to them", run_analyze, false, true},
      {"topology", "list and show who exchanges with whom in gossip", run_topology},
      {"data", "list, download and show data sets", run_data},
      {"coordinator", "let the ranks of a job come and go while it runs", run_coordinator},
      {"relay", "join the connections of ranks that cannot reach each other, such as ranks behind NAT", run_relay},
      {"secret", "make the secret that keeps connections private", run_secret},
      {"hosts", "check machines that ssh reaches, or copy files to them", run_hosts},
      {"doctor", "check this machine: network interfaces, threads, torch, transports, space", run_doctor},
  }};
  return table;
}

int run_action(std::string_view command, std::span<const Command> actions, std::string_view help,
               std::span<const std::string> arguments) {
  if (arguments.empty() || arguments[0] == "--help" || arguments[0] == "-h") {
    fmt::print("{}", help);
    return 0;
  }
  return Table<Command>("action", actions)
      .require(fmt::format("sotto {}", command), arguments[0])
      .run(arguments.subspan(1));
}

}  // namespace sotto
