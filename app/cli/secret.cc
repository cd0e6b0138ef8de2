#include "sotto/comm/secret.h"

#include <array>
#include <string>
#include <string_view>

#include "app/cli/commands.h"
#include "app/cli/flags.h"

namespace sotto {
namespace {

constexpr std::string_view help =
    "Usage: sotto secret new FILE\n"
    "\n"
    "The secret of a job makes the connections of `--backend tcp` private. All ranks need the same one.\n"
    "\n"
    "Actions:\n"
    "  new FILE   write a new secret to a file that only you may read\n";

int make_secret(std::span<const std::string> arguments) {
  std::string path;
  Flags flags("secret new", "Writes a new secret to a file that only you may read.",
              "Example:\n  sotto secret new job.secret\n"
              "  sotto train --ranks 4 --backend tcp --interface eth0 --secret job.secret");
  flags.add_positional("file", path, "a file that does not exist yet", true);
  if (!flags.parse(arguments)) return 0;
  write_secret(new_secret(), path);
  return 0;
}

constexpr std::array<Command, 1> actions{{{"new", "", make_secret}}};

}  // namespace

int run_secret(std::span<const std::string> arguments) { return run_action("secret", actions, help, arguments); }

}  // namespace sotto
