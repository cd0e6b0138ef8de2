#pragma once

#include <memory>
#include <string>

#include "sotto/comm/transport.h"

namespace sotto {

// The linked library, such as "Open MPI v4.1.4"; empty if the MPI backend was not built.
std::string mpi_library();

// ConfigError if MPI cannot work: it was not built, or neither mpirun nor srun started the ranks.
void require_mpi(const World& world);

// Makes a communicator on MPI messages between the ranks that mpirun or srun started. Sums have the same bits as with
// every other backend; MPI's own sums may differ between ranks.
//
// MPI_Init, which has no deadline, waits for all ranks. MPI ends when the communicator and its clones have been
// destroyed on all ranks, so a process can use it only once. If the program uses MPI itself, the program starts and
// ends MPI, and must have requested MPI_THREAD_MULTIPLE.
//
// After a CommError this process does not call MPI again, since MPI may still hold the memory of messages. The other
// ranks are told, and those that wait fail at once. If the process exits after an error, or an exception passes through
// the communicator, the whole job is aborted: ranks must not wait for it in MPI_Finalize.
std::unique_ptr<Communicator> connect_mpi(const World& world, const TransportOptions& options);

}  // namespace sotto
