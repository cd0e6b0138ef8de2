#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sotto {

// A line of the table of commands. `run` takes the arguments after the command's name and returns the exit status.
struct Command {
  std::string_view name;
  std::string_view summary;
  int (*run)(std::span<const std::string> arguments);
  bool starts_ranks = false;
  bool computes = false;  // the command computes in this process, with all cores
};

int run_train(std::span<const std::string> arguments);
int run_watch(std::span<const std::string> arguments);
int run_report(std::span<const std::string> arguments);
int run_eval(std::span<const std::string> arguments);
int run_export(std::span<const std::string> arguments);
int run_import(std::span<const std::string> arguments);
int run_compare(std::span<const std::string> arguments);
int run_advise(std::span<const std::string> arguments);
int run_tune(std::span<const std::string> arguments);
int run_demo(std::span<const std::string> arguments);
int run_codec(std::span<const std::string> arguments);
int run_analyze(std::span<const std::string> arguments);
int run_topology(std::span<const std::string> arguments);
int run_coordinator(std::span<const std::string> arguments);
int run_relay(std::span<const std::string> arguments);
int run_secret(std::span<const std::string> arguments);
int run_hosts(std::span<const std::string> arguments);
int run_data(std::span<const std::string> arguments);
int run_doctor(std::span<const std::string> arguments);

// Runs the action that arguments[0] names; without arguments prints `help`. ConfigError for an unknown action.
int run_action(std::string_view command, std::span<const Command> actions, std::string_view help,
               std::span<const std::string> arguments);

// "sotto 0.1.0 (1a2b3c4), torch 2.13.0, g++ 12.2.0, release"
std::string version_text();

// The actions of `sotto codec`. Each takes the arguments after its name and returns the exit status.
int list_codecs(std::span<const std::string> arguments);
int describe_codec(std::span<const std::string> arguments);
int measure_codecs(std::span<const std::string> arguments);
int sweep_codec(std::span<const std::string> arguments);
int advise_on_basis(std::span<const std::string> arguments);

// The names of all data sets, of every kind.
std::vector<std::string_view> set_names();
// `sotto data info`: describes a data set and the contents of its folder.
int run_data_info(std::span<const std::string> arguments);

}  // namespace sotto
