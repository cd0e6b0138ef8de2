#include "adapters/c10d/transports.h"

#include <fmt/format.h>

#include <array>
#include <future>
#include <system_error>

#include "adapters/mpi/mpi.h"
#include "sotto/comm/group/tcp_store.h"
#include "sotto/comm/tcp/tcp.h"

namespace sotto {
namespace {

constexpr std::array<std::string_view, 2> networks{"interface", "address"};
constexpr std::string_view in_the_clear = "what it sends can be read on the way";

constexpr std::array gloo_refuses{
    Transport::Refusal{"secret", in_the_clear},
    Transport::Refusal{"relay", "ranks connect to each other directly"},
    Transport::Refusal{"streams", "ranks have one connection to each peer"},
};
constexpr std::string_view mpirun_chooses =
    "it is mpirun that chooses networks (Open MPI: its parameter btl_tcp_if_include)";
constexpr std::array mpi_refuses{
    Transport::Refusal{"interface", mpirun_chooses},
    Transport::Refusal{"address", mpirun_chooses},
    Transport::Refusal{"secret", in_the_clear},
    Transport::Refusal{"relay", "MPI chooses its ways"},
    Transport::Refusal{"streams", "MPI chooses its connections"},
};
constexpr std::string_view nccl_chooses = "NCCL chooses networks, as its variables say (NCCL_SOCKET_IFNAME=eth0)";
constexpr std::array nccl_refuses{
    Transport::Refusal{"interface", nccl_chooses},
    Transport::Refusal{"address", nccl_chooses},
    Transport::Refusal{"secret", in_the_clear},
    Transport::Refusal{"relay", "NCCL chooses its ways"},
    Transport::Refusal{"streams", "NCCL chooses its connections (NCCL_NSOCKS_PERTHREAD=4)"},
};

constexpr std::array entries{
    Transport{
        .name = "tcp",
        .summary = "TCP, on any machine, private with a secret",
        .takes = Transport::Takes::all,
        .require = [](const World&) {},
        .make = connect_tcp,
        .check =
            [](const std::string&) { return try_two_ranks(connect_tcp, "") + "; other interfaces want a secret"; }},
    Transport{.name = "gloo",
              .summary = "TCP by Gloo, in the clear",
              .taken = networks,
              .refusals = gloo_refuses,
              .require = [](const World&) {},
              .make = connect_gloo,
              .check = [](const std::string& interface) { return try_two_ranks(connect_gloo, interface); }},
    Transport{.name = "mpi",
              .summary = "whatever networks MPI reaches",
              .needs = "mpirun or srun as the starter",
              .own_meeting = "the ranks find each other by themselves",
              .refusals = mpi_refuses,
              .require = require_mpi,
              .make = connect_mpi,
              .check = [](const std::string&) { return mpi_library(); }},
    Transport{.name = "nccl",
              .summary = "the links of GPUs",
              .needs = "a GPU for each rank",
              .refusals = nccl_refuses,
              .require = require_nccl,
              .make = connect_nccl,
              .check = [](const std::string&) { return nccl_library(); }},
};
constexpr Table<Transport> table("backend", entries);

}  // namespace

const Table<Transport>& transport_table() { return table; }

std::string transport_choices() {
  std::string text;
  for (const Transport& transport : table) {
    if (!text.empty()) text += &transport == &entries.back() ? "; or " : "; ";
    text += transport.name;
    if (!transport.needs.empty()) text += fmt::format(", which wants {}", transport.needs);
  }
  return text;
}

void run_two_ranks(decltype(Transport::make) connect, const std::string& interface, std::chrono::milliseconds deadline,
                   const std::function<void(Communicator&)>& work) {
  const StoreServer store(plain_stores(), "127.0.0.1");
  const auto rank = [&](int number) {
    World world;
    world.rank = world.local_rank = number;
    world.size = world.local_size = 2;
    world.host = "127.0.0.1";
    world.port = store.port();
    world.stores = &plain_stores();
    TransportOptions options;
    options.interface = interface;
    if (interface.empty()) options.address = "127.0.0.1";
    options.deadline = options.connect_deadline = deadline;
    const auto communicator = connect(world, options);
    work(*communicator);
    communicator->barrier();
  };
  std::future<void> other;
  try {
    other = std::async(std::launch::async, rank, 1);
  } catch (const std::system_error& error) {
    throw Error(fmt::format("no thread could be started for the second rank ({})", error.what()));
  }
  rank(0);
  other.get();
}

std::string try_two_ranks(decltype(Transport::make) connect, const std::string& interface) {
  constexpr int rounds = 10;
  double seconds = 0;
  run_two_ranks(connect, interface, std::chrono::seconds(10), [&](Communicator& communicator) {
    std::vector<float> values(1 << 18, 1.0F);
    communicator.all_reduce(values);
    const Timer timer;
    for (int i = 0; i < rounds; ++i) communicator.all_reduce(values, ReduceOp::max);
    if (communicator.rank() == 0) seconds = timer.seconds() / rounds;
    if (values.front() != 2.0F) throw Error("the sum over two ranks is wrong");
  });
  return fmt::format("two ranks over {}: 1 MiB all-reduce in {:.2f} ms", interface.empty() ? "the loopback" : interface,
                     seconds * 1e3);
}

}  // namespace sotto
