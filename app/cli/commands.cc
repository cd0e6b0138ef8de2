#include "app/cli/commands.h"

#include <fmt/format.h>

#include "sotto/core/table.h"

namespace sotto {

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
