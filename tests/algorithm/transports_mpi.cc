// One rank of the test of algorithms over MPI: `mpirun -n N algorithm_mpi_ranks`.
#include <chrono>
#include <cstdio>
#include <exception>

#include "adapters/mpi/mpi.h"
#include "tests/algorithm/transports.h"

int main() {
  try {
    const auto communicator = sotto::connect_mpi(sotto::find_world("", false), {.deadline = std::chrono::seconds(240)});
    sotto::test::check_as_on_threads(*communicator);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 3;
  }
}
