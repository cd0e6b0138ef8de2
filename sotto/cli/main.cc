#include <fmt/format.h>
#include <sys/prctl.h>

#include <cstdio>
#include <exception>
#include <filesystem>
#include <string>
#include <vector>

#include "sotto/cli/commands.h"
#include "sotto/cli/flags.h"
#include "sotto/comm/stop.h"
#include "sotto/core/error.h"
#include "sotto/core/table.h"
#include "sotto/launch/launcher.h"

namespace sotto {
namespace {

void print_help() {
  fmt::print(
      "sotto: train neural networks over slow links, sending little.\n"
      "\n"
      "Usage: sotto COMMAND [OPTIONS]        sotto COMMAND --help says more\n"
      "\n"
      "Commands:\n");
  for (const Command& command : command_table()) fmt::print("  {:<9} {}\n", command.name, command.summary);
  fmt::print(
      "\n"
      "A codec is a sentence, `memory | transform | select | quantise | code`, each part with its options:\n"
      "  none                     what training without compression sends\n"
      "  qsgd(bits=4)             every element in 4 bits and a sign, unbiased\n"
      "  ef | topk(0.01)          the largest hundredth of the elements; the rest is remembered (error feedback)\n"
      "  svd | atomo(s=3)         three singular triplets of each tensor, drawn at random: unbiased (ATOMO)\n"
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

int run(std::span<const std::string> arguments) {
  if (arguments.empty() || arguments[0] == "--help" || arguments[0] == "-h" || arguments[0] == "help") {
    print_help();
    return 0;
  }
  if (arguments[0] == "--version") {
    fmt::print("{}\n", version_text());
    return 0;
  }
  const Table<Command> commands("command", command_table());
  const Command* command = commands.find(arguments[0]);
  if (command == nullptr) throw ConfigError(unknown_name("command", arguments[0], commands.names()));
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
  if (!report_to_launcher(message, reason)) fmt::print(stderr, "sotto: {}\n", message);
  return status;
}

}  // namespace
}  // namespace sotto

int main(int argc, char** argv) {
  prctl(PR_SET_NAME, "sotto");  // a rank is started as /proc/self/exe, and would be called `exe`
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  try {
    return sotto::run(arguments);
  } catch (const sotto::ConfigError& error) {
    return sotto::fail(2, error.text(sotto::flag_spelling));
  } catch (const sotto::Stopped& error) {
    return sotto::fail(128 + error.signal(), error.what(), sotto::Reason::lost_peer);
  } catch (const sotto::CommError& error) {
    return sotto::fail(1, error.what(), sotto::Reason::lost_peer);
  } catch (const sotto::NumericError& error) {
    return sotto::fail(1, error.what(), sotto::Reason::not_finite);
  } catch (const sotto::Error& error) {
    return sotto::fail(1, error.what());
  } catch (const std::filesystem::filesystem_error& error) {  // a path that cannot be examined
    return sotto::fail(1, error.what());
  } catch (const std::exception& error) {
    return sotto::fail(1, fmt::format("internal error: {}", error.what()));
  }
}
