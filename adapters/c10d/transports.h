#pragma once

#include <string>

#include "adapters/c10d/store_service.h"
#include "sotto/comm/transport.h"
#include "sotto/core/table.h"

namespace sotto {

const Table<Transport>& transport_table();  // the default first

// For help: "tcp; gloo; mpi, which wants mpirun or srun as the starter; or ..."
std::string transport_choices();

}  // namespace sotto
