#include "adapters/c10d/transports.h"

#include <fmt/format.h>

#include <array>

#include "adapters/c10d/gloo.h"
#include "sotto/comm/mpi/mpi.h"
#include "adapters/c10d/nccl.h"
#include "sotto/comm/tcp/tcp.h"
#include "adapters/c10d/two_ranks.h"

namespace sotto {
namespace {

constexpr std::array entries{
    Transport{"tcp", "TCP, on any machine, private with a secret", "", "", "", "", "", "", [](const World&) {},
              connect_tcp,
              [](const std::string&) { return try_two_ranks(connect_tcp, "") + "; other interfaces want a secret"; }},
    Transport{"gloo", "TCP by Gloo, in the clear", "", "", "what it sends can be read on the way",
              "ranks connect to each other directly", "ranks have one connection to each peer", "", [](const World&) {},
              connect_gloo, [](const std::string& interface) { return try_two_ranks(connect_gloo, interface); }},
    Transport{"mpi", "whatever networks MPI reaches", "mpirun or srun as the starter",
              "it is mpirun that chooses networks (Open MPI: its parameter btl_tcp_if_include)",
              "what it sends can be read on the way", "MPI chooses its ways", "MPI chooses its connections",
              "the ranks find each other by themselves", require_mpi, connect_mpi,
              [](const std::string&) { return mpi_library(); }},
    Transport{"nccl", "the links of GPUs", "a GPU for each rank",
              "NCCL chooses networks, as its variables say (NCCL_SOCKET_IFNAME=eth0)",
              "what it sends can be read on the way", "NCCL chooses its ways",
              "NCCL chooses its connections (NCCL_NSOCKS_PERTHREAD=4)", "", require_nccl, connect_nccl,
              [](const std::string&) { return nccl_library(); }},
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

}  // namespace sotto
