// Replaces the MPI backend if no MPI was found.
#include "adapters/mpi/mpi.h"
#include "sotto/core/error.h"

namespace sotto {

std::string mpi_library() { return {}; }

void require_mpi(const World& /*world*/) {
  throw ConfigError(named("backend", "mpi") +
                    ": this program was built without MPI; install an MPI with its headers (Debian: libopenmpi-dev "
                    "openmpi-bin), and build with -DSOTTO_BUILD_MPI=ON");
}

std::unique_ptr<Communicator> connect_mpi(const World& world, const TransportOptions& /*options*/) {
  require_mpi(world);
  return nullptr;
}

}  // namespace sotto
