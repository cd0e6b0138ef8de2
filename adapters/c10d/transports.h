#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "sotto/comm/group/store.h"
#include "sotto/comm/transport.h"
#include "sotto/core/table.h"

namespace sotto {

const Table<Transport>& transport_table();  // the default first

// For help: "tcp; gloo; mpi, which wants mpirun or srun as the starter; or ..."
std::string transport_choices();

// Joins a store of c10d (TCPStore), as torchrun's agent serves one. It serves none.
const StoreService& c10d_stores();

// Runs two ranks as threads of this process: they meet in a store on this machine, connect over the interface (over the
// loopback if it is empty), and both run `work`. Throws the Error of the rank that failed.
void run_two_ranks(decltype(Transport::make) connect, const std::string& interface, std::chrono::milliseconds deadline,
                   const std::function<void(Communicator&)>& work);

// The check of a transport whose ranks meet in a store: two ranks sum a megabyte. Returns how long that took, in words.
std::string try_two_ranks(decltype(Transport::make) connect, const std::string& interface);

}  // namespace sotto
