// Two ranks that do nothing but exchange, over a transport of the table: bench/transports.py starts them. Rank 0 prints
// GB/s in one direction and in both at once, and microseconds of a round trip of 100 bytes: medians.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "adapters/c10d/transports.h"
#include "sotto/comm/communicator.h"
#include "sotto/comm/group/tcp_store.h"
#include "sotto/comm/transport.h"
#include "sotto/core/error.h"
#include "sotto/core/options.h"
#include "sotto/core/timer.h"

namespace {

using namespace sotto;

struct Arguments {
  std::string backend = "gloo", secret;
  std::size_t bytes = 64 << 20;  // of a message
  int repeats = 9;
  std::int64_t streams = 1;
};

Arguments parse(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view name = argv[i], value = argv[i + 1];
    if (name == "--backend") {
      arguments.backend = value;
    } else if (name == "--secret") {
      arguments.secret = value;
    } else if (name == "--bytes") {
      arguments.bytes = static_cast<std::size_t>(parse_int(name, value, Bounds{1, 1e9}));
    } else if (name == "--repeats") {
      arguments.repeats = static_cast<int>(parse_int(name, value, Bounds{1, 1000}));
    } else if (name == "--streams") {
      arguments.streams = parse_int(name, value, Bounds{1, 64});
    } else {
      throw ConfigError(fmt::format("{}: unknown", name));
    }
  }
  return arguments;
}

// Seconds of one exchange: this rank sends and receives what it is told to. The first one is not counted.
double seconds(Communicator& communicator, int repeats, std::span<const std::byte> out, std::span<std::byte> in) {
  const int peer = 1 - communicator.rank();
  std::vector<double> times;
  for (int i = 0; i <= repeats; ++i) {
    communicator.barrier();
    const Timer timer;
    const Send send{peer, out};
    Recv recv{peer, in};
    communicator.exchange({&send, out.empty() ? 0U : 1U}, {&recv, in.empty() ? 0U : 1U});
    communicator.barrier();  // both ranks have everything
    if (i > 0) times.push_back(timer.seconds());
  }
  std::ranges::nth_element(times, times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2));
  return times[times.size() / 2];
}

void run(const Arguments& arguments) {
  World world = find_world("");
  world.stores = &plain_stores();
  const Transport& transport = transport_table().require("backend", arguments.backend);
  const auto communicator = transport.connect(
      world, {.secret = arguments.secret, .streams = arguments.streams, .deadline = std::chrono::minutes(10)});
  std::vector<std::byte> out(arguments.bytes, std::byte{7}), in(arguments.bytes);
  const bool first = world.rank == 0;
  const auto none = std::span<std::byte>();
  const double one_way = seconds(*communicator, arguments.repeats, first ? out : none, first ? none : in);
  const double both = seconds(*communicator, arguments.repeats, out, in);
  const double empty =
      seconds(*communicator, 20 * arguments.repeats, std::span(out).first(100), std::span(in).first(100));
  if (!first) return;
  const auto rate = [&](double time) { return static_cast<double>(arguments.bytes) / time / 1e9; };
  fmt::print("{:.6f} {:.6f} {:.1f}\n", rate(one_way), 2 * rate(both), empty * 1e6);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    run(parse(argc, argv));
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
