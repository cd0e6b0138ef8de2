#include <fmt/format.h>
#include <sys/resource.h>

#include <cstdint>
#include <cstdio>
#include <string>

#include "app/cli/commands.h"
#include "app/cli/flags.h"
#include "app/train/stop_signal.h"
#include "sotto/comm/relay/server.h"
#include "sotto/comm/world.h"
#include "sotto/core/error.h"
#include "sotto/core/output.h"

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

struct OwnOptions {
  std::string listen;
  void visit(OptionVisitor& v) {
    v.option("listen", listen, "HOST:PORT, an address of this machine that the ranks reach; port 0: any free one");
  }
};

// Each pair of ranks needs two files. What the system refuses is left as it is.
void allow_many_files() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

int run_relay(std::span<const std::string> arguments) {
  OwnOptions own;
  Flags flags("relay", "Joins the connections of ranks that cannot reach each other.", examples);
  if (!flags.read(arguments, own)) return 0;
  if (own.listen.empty()) throw ConfigError("--listen: missing; say HOST:PORT, such as 0.0.0.0:29600");
  const StopSignal signals;
  const MeetingPlace place = read_meeting_place("--listen " + own.listen, own.listen, 0);
  allow_many_files();
  const std::string host = own.listen.substr(0, own.listen.rfind(':'));
  const auto listens = [&](std::uint16_t port) {
    print_error(fmt::format("sotto: the relay listens at {}:{}\n", host, port));
  };
  return 128 + serve_relay(place, listens, StopSignal::caught);
}

}  // namespace sotto
