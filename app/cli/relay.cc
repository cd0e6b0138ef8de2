#include <fmt/format.h>
#include <sys/resource.h>

#include <array>
#include <cstdint>

#include "app/cli/commands.h"
#include "app/cli/flags.h"
#include "app/train/stop_signal.h"
#include "sotto/comm/relay/relay.h"
#include "sotto/comm/secret.h"
#include "sotto/comm/world.h"
#include "sotto/core/text.h"

namespace sotto {
namespace {

constexpr std::string_view examples = R"text(
Ranks behind NAT can only connect outwards. They connect to a relay that all of them reach, and it carries what they
send each other. It has no secret, and sees only ciphertext. A rank that others can reach needs no --relay: ranks
behind NAT connect to it directly. Ctrl-C ends the relay; ranks that use it try to reach it again until their
--deadline.

Example, on a machine that all reach, and for each rank behind NAT:
  sotto relay --listen 0.0.0.0:29600
  sotto train --codec int8 --secret job.secret --relay relay.example.org:29600)text";

// Raises the limit of open files, since each pair of ranks needs two. If the system refuses, the limit stays.
void allow_many_files() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

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

int run_relay(std::span<const std::string> arguments) {
  std::string listen;
  Flags flags("relay", "Joins the connections of ranks that cannot reach each other.", examples);
  const Flags::Visit visit = [&](OptionVisitor& v) {
    v.option("listen", listen, "HOST:PORT, an address of this machine that the ranks reach; port 0: any free one");
  };
  if (!flags.read(arguments, visit)) return 0;
  refuse(listen.empty(), "--listen: missing; say HOST:PORT, such as 0.0.0.0:29600");
  const StopSignal signals;
  const MeetingPlace place = read_meeting_place("--listen " + listen, listen, 0);
  allow_many_files();
  const std::string host = listen.substr(0, listen.rfind(':'));
  const auto listens = [&](std::uint16_t port) {
    print_error(fmt::format("sotto: the relay listens at {}:{}\n", host, port));
  };
  return 128 + serve_relay(place, listens, StopSignal::caught);
}

int run_secret(std::span<const std::string> arguments) { return run_action("secret", actions, help, arguments); }

}  // namespace sotto
