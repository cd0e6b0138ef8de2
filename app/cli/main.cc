#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <system_error>

#include "adapters/c10d/compute_threads.h"
#include "app/cli/commands.h"
#include "app/cli/flags.h"
#include "app/launch/launcher.h"
#include "app/launch/spawn.h"
#include "sotto/comm/deadline.h"
#include "sotto/comm/world.h"
#include "sotto/core/error.h"
#include "sotto/core/table.h"
#include "sotto/core/text.h"

namespace sotto {
namespace {

constexpr std::array<Command, 19> command_table{{
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

void print_help() {
  fmt::print(
      "sotto: train neural networks over slow links.\n"
      "\n"
      "Usage: sotto COMMAND [OPTIONS]        sotto help COMMAND says more\n"
      "\n"
      "Commands:\n");
  for (const Command& command : command_table) fmt::print("  {:<9} {}\n", command.name, command.summary);
  fmt::print(
      "\n"
      "A codec is a chain of stages, `memory | transform | select | quantise | code`, each with its options:\n"
      "  none                         what training without compression sends\n"
      "  qsgd(bits=4)                 every element in 4 bits and a sign, unbiased\n"
      "  ef | topk(0.01)              the largest hundredth of the elements; the rest is remembered (error feedback)\n"
      "  velocity | svd | atomo(s=3)  three singular triplets of each tensor's momentum, drawn at random (ATOMO)\n"
      "\n"
      "Examples:\n"
      "  sotto demo\n"
      "  sotto train --ranks 4 --model lenet --data digits --codec \"ef | topk(0.01)\"\n"
      "  sotto compare --ranks 2 --max-steps 200 --codecs none \"qsgd(bits=4)\" int8\n"
      "  sotto tune --grid lr=2^-7..2^-1 codec=\"topk(0.01),topk(0.001)\"\n"
      "  sotto codec list\n"
      "\n"
      "Exit status: 0; 2 if an option or argument cannot be used; 130, 143 and 138 after SIGINT, SIGTERM and SIGUSR1; "
      "else 1.\n");
}

int run_program(const std::vector<std::string>& arguments);

// Whether another launcher started this process.
bool is_rank() {
  try {
    return find_world("", false).starter != "single";
  } catch (const ConfigError&) {  // its variables are malformed; a command that needs them will say so
    return true;
  }
}

// Sets a variable of OpenMP. OpenMP has read its variables already, so the program starts itself again. Ranks do not
// inherit the variable: their launcher decides for them.
void spin_briefly(std::span<const std::string> arguments) {
  const auto& [variable, value] = spin_variable;
  if (const char* spins = std::getenv(variable); spins != nullptr && std::string_view(spins) == value) {
    unsetenv(variable);
    return;
  }
  if (brief_spins() == nullptr || setenv(variable, value, 1) != 0) return;
  std::string name = "sotto";
  std::vector<std::string> words(arguments.begin(), arguments.end());
  std::vector<char*> pointers{name.data()};
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  execv("/proc/self/exe", pointers.data());  // if that fails, the process continues unchanged
}

int run(std::span<const std::string> arguments) {
  if (arguments.empty() || arguments[0] == "--help" || arguments[0] == "-h" ||
      (arguments[0] == "help" && arguments.size() == 1)) {
    print_help();
    return 0;
  }
  if (arguments[0] == "help") {  // `sotto help codec measure` is `sotto codec measure --help`
    std::vector<std::string> words(arguments.begin() + 1, arguments.end());
    words.emplace_back("--help");
    return run(words);
  }
  if (arguments[0] == "--version") {
    fmt::print("{}\n", version_text());
    return 0;
  }
  const Table<Command> commands("command", command_table);
  const Command* command = commands.find(arguments[0]);
  if (command == nullptr) throw ConfigError(unknown_name("command", arguments[0], commands.names()));
  if (command->starts_ranks && !is_rank()) start_fork_server(run_program);
  if (command->computes) spin_briefly(arguments);
  return command->run(arguments.subspan(1));
}

// An error repeats the user's text, which may be megabytes long.
std::string shortened(const std::string& message) {
  constexpr std::size_t begin = 1500, end = 700;
  if (message.size() <= begin + end) return message;
  return message.substr(0, begin) + " ... " + message.substr(message.size() - end);
}

int fail(int status, const std::string& whole, Reason reason = Reason::other) {
  const std::string message = shortened(whole);
  if (!report_to_launcher(message, reason)) print_error(fmt::format("sotto: {}\n", message));
  return status;
}

// Reports that standard output could not be written to, for example on a full disk. A reader that closes its pipe early
// is no error.
int lost_output(int error) {
  return error == EPIPE ? 0 : fail(1, fmt::format("standard output cannot be written to: {}", std::strerror(error)));
}

int status_of(const std::vector<std::string>& arguments) {
  try {
    const int status = run(arguments);
    if (status != 0) return status;
    if (std::fflush(stdout) != 0) return lost_output(errno);
    report_to_launcher("", Reason::done);
    return 0;
  } catch (const ConfigError& error) {
    return fail(2, error.text(flag_spelling));
  } catch (const Stopped& error) {
    return fail(128 + error.signal(), error.what(), Reason::lost_peer);
  } catch (const CommError& error) {
    return fail(1, error.what(), Reason::lost_peer);
  } catch (const NumericError& error) {
    return fail(1, error.what(), Reason::not_finite);
  } catch (const Error& error) {
    return fail(1, error.what());
  } catch (const std::filesystem::filesystem_error& error) {  // a path that cannot be examined
    return fail(1, error.what());
  } catch (const std::system_error& error) {
    if (std::ferror(stdout) != 0) return lost_output(error.code().value());
    return fail(1, fmt::format("internal error: {}", error.what()));
  } catch (const std::exception& error) {
    return fail(1, fmt::format("internal error: {}", error.what()));
  }
}

// Ends a process before destructors of global objects run: LibTorch's unregister its operators one by one, which takes
// a tenth of a second.
void end_at_once(int status, void* /*unused*/) {
  stop_fork_server();
  std::fflush(nullptr);
  _exit(status);
}

int run_program(const std::vector<std::string>& arguments) {
#ifndef __SANITIZE_ADDRESS__  // it looks for leaks at the end
  ::on_exit(end_at_once, nullptr);
#endif
  prctl(PR_SET_NAME, "sotto");  // it may have been started as /proc/self/exe, and would be called `exe`
  return status_of(arguments);
}

// If a descriptor is closed, as by `2>&-`, the next file opened would get its number, and messages would go into that
// file. Standard output still cannot be written to then.
void fill_closed_descriptors() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(descriptor, F_GETFD) != -1) continue;
    static_cast<void>(::open("/dev/null", descriptor == STDERR_FILENO ? O_WRONLY : O_RDONLY));
  }
}

}  // namespace
}  // namespace sotto

int main(int argc, char** argv) {
  sotto::fill_closed_descriptors();
  return sotto::run_program({argv + 1, argv + argc});
}
