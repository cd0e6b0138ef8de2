#pragma once

#include <memory>
#include <string>

#include "sotto/comm/transport.h"

namespace sotto {

// The library that was linked, as "Open MPI v4.1.4"; empty where the MPI backend was not built.
std::string mpi_library();

// ConfigError where MPI cannot work: it was not built, or neither mpirun nor srun started the ranks.
void require_mpi(const World& world);

// A communicator on messages of MPI itself, between the ranks that mpirun or srun started. Sums are those of every
// other backend, bit for bit: MPI's own may differ between ranks.
//
// MPI_Init, which has no deadline, waits for all ranks. MPI ends when the communicator and its clones are gone, as soon
// as all ranks have come so far; so it is once in the life of a process. Where the program uses MPI by itself, that is
// not ours to begin or to end: it must have asked for MPI_THREAD_MULTIPLE.
//
// After a CommError this process calls MPI no more, since that may still hold the memory of messages. The other ranks
// are told, and fail at once where they wait. When the process exits after an error, or while an exception goes through
// the communicator, the whole job is aborted: ranks must not wait for it in MPI_Finalize.
std::unique_ptr<Communicator> connect_mpi(const World& world, const TransportOptions& options);

}  // namespace sotto
