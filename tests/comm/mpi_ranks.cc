// One rank of a test over MPI: `mpirun -n N comm_mpi_ranks SCENARIO [FOLDER]`. Each rank writes its results into its
// own file in the folder, since a failure ends the whole job.
#include <mpi.h>
#include <pthread.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "adapters/mpi/mpi.h"
#include "adapters/mpi/session.h"
#include "laws.h"
#include "mailbox_laws.h"
#include "sotto/comm/emulated/shaped.h"
#include "sotto/core/error.h"

namespace sotto {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

struct Rank {
  Communicator& communicator;
  fs::path folder;

  int number() const { return communicator.rank(); }
  fs::path file(int rank) const { return folder / std::to_string(rank); }
  void tell(const std::string& text) const {
    const fs::path partial = folder / (std::to_string(number()) + ".tmp");
    std::ofstream(partial) << text;
    fs::rename(partial, file(number()));
  }
  // Waits until `rank` has told.
  void await(int rank) const {
    while (!fs::exists(file(rank))) std::this_thread::sleep_for(2ms);
  }
  void await_all() const {
    for (int rank = 0; rank < communicator.size(); ++rank) await(rank);
  }
  // Tells the error of `function`, and waits until all others have told theirs.
  template <class Function>
  void tell_error(Function function) const {
    try {
      function();
      tell("no error");
    } catch (const CommError& error) {
      tell(error.what());
      await_all();
      throw;
    }
    await_all();
  }
};

void laws_hold(const Rank& rank) {
  check_laws(rank.communicator);
  const auto clone = rank.communicator.clone();
  check_laws(*clone);
  check_mailbox_laws(rank.communicator);
  check_mailbox_laws(*make_shaped(rank.communicator.clone(), {{10e9, 20e-6, 50e-6}}));
}

// Rank 1 does not take part. The vector is large, so that some ranks wait for neighbours that wait themselves.
void stall(const Rank& rank) {
  std::vector<float> data(100000);
  rank.communicator.barrier();
  if (rank.number() == 1) {
    for (int other = 0; other < rank.communicator.size(); ++other) {
      if (other != 1) rank.await(other);
    }
    rank.tell("stalled");
    return rank.await_all();
  }
  rank.tell_error([&] { rank.communicator.all_reduce(data); });
}

void overflow_a_room(const Rank& rank, std::size_t length) {
  std::vector<std::byte> data(length);
  const Send send{1, data};
  Recv recv{0, std::span(data).first(length - 1)};
  rank.tell_error([&] {
    if (rank.number() == 0) rank.communicator.exchange({&send, 1}, {});
    if (rank.number() == 1) rank.communicator.exchange({}, {&recv, 1});
    rank.communicator.barrier();
  });
}
void overflow(const Rank& rank) { overflow_a_room(rank, 10); }
void overflow_large(const Rank& rank) { overflow_a_room(rank, 10'000'000); }

// Every operation after a failure fails, and no clone can be made.
void fail_again(const Rank& rank) {
  const auto clone = rank.communicator.clone();
  if (rank.number() == 1) {
    rank.await(0);
    rank.tell("stalled");
    return rank.await_all();
  }
  std::string all;
  for (const auto& operation :
       std::vector<std::function<void()>>{[&] { rank.communicator.barrier(); }, [&] { rank.communicator.barrier(); },
                                          [&] { clone->barrier(); }, [&] { rank.communicator.clone(); }}) {
    try {
      operation();
      all += "no error\n";
    } catch (const CommError& error) {
      all += std::string(error.what()) + "\n";
    }
  }
  rank.tell(all);
  rank.await_all();
}

// Rank 2 gives up, and does not end until the others have told.
void give_up(const Rank& rank) {
  std::vector<float> data(100);
  if (rank.number() == 2) {
    rank.communicator.barrier();
    rank.communicator.give_up("the disk is full");
    rank.tell("gave up");
    rank.await_all();
    throw std::runtime_error("the disk is full");
  }
  rank.tell_error([&] {
    rank.communicator.barrier();
    rank.communicator.all_reduce(data);
  });
}

// An exception of the last rank ends its mailbox without telling the others.
void lose_a_mailbox(const Rank& rank) {
  try {
    check_lost_peer(rank.communicator, [] { throw NumericError("the loss is nan"); });
  } catch (const NumericError&) {
    rank.tell("lost");
    rank.await_all();
    throw;
  }
  rank.tell("held");
  rank.await_all();
}

// The last rank gives up; the others hear why.
void give_up_mailboxes(const Rank& rank) {
  check_lost_peer(rank.communicator, [&] { rank.communicator.give_up("the disk is full"); });
  rank.tell("held");
  rank.await_all();
}

void stall_a_mailbox(const Rank& rank) {
  check_stalled_peer(rank.communicator);
  rank.tell("held");
  rank.await_all();
}

// A collective fails on rank 1 while the others wait for mail. Their wait must end, whichever rank the mail would come
// from.
void fail_beside_a_mailbox(const Rank& rank) {
  const auto mailbox = rank.communicator.open_mailbox(1000);
  rank.communicator.barrier();
  rank.tell_error([&] {
    if (rank.number() == 1) rank.communicator.barrier();
    mailbox->poll(600s);
  });
}

// Rank 1 throws while the others wait for it, with a deadline that is too long to help.
void leave(const Rank& rank) {
  rank.communicator.barrier();
  if (rank.number() == 1) throw NumericError("rank 1: the loss is nan");
  rank.communicator.barrier();
}

void leave_without_an_error(const Rank& rank) {
  if (rank.number() == 1) std::exit(0);
  rank.communicator.barrier();
}

// All ranks but rank 1 reach the end.
void never_end(const Rank& rank) {
  rank.communicator.barrier();
  while (rank.number() == 1) std::this_thread::sleep_for(1s);
}

// One message has more bytes than MPI counts in units of MPI_BYTE; a short one is received in a room of the same size.
void huge(const Rank& rank) {
  const std::size_t length = (std::size_t{1} << 30) + 12345;
  std::vector<std::byte> data(length);
  const auto at = [](std::size_t i) { return static_cast<std::byte>((i * 2654435761U) >> 13); };
  if (rank.number() == 0) {
    for (std::size_t i = 0; i < length; ++i) data[i] = at(i);
    const std::array<Send, 2> sends{Send{1, data}, Send{1, std::span(data).first(1000)}};
    for (const Send& send : sends) rank.communicator.exchange({&send, 1}, {});
  } else {
    const auto check = [&](std::size_t count, std::size_t step) {
      for (std::size_t i = 0; i < count; i += step) {
        if (data[i] != at(i)) throw std::runtime_error("byte " + std::to_string(i) + " is another");
      }
    };
    Recv recv{0, data};
    rank.communicator.exchange({}, {&recv, 1});
    check(length, 1);
    std::fill(data.begin(), data.end(), std::byte{0xEE});
    rank.communicator.exchange({}, {&recv, 1});
    check(1000, 1);
    for (std::size_t i = 1000; i < length; ++i) {
      if (data[i] != std::byte{0xEE}) throw std::runtime_error("byte " + std::to_string(i) + " was touched");
    }
  }
  rank.communicator.barrier();
}

struct Scenario {
  std::string_view name;
  void (*play)(const Rank& rank);
  std::chrono::milliseconds deadline = 240s;
};
// The address at which MPI was asked to write the duplicated group.
void* duplicate_place = nullptr;

bool on_the_stack(const void* place) {
  pthread_attr_t attributes;
  void* low = nullptr;
  std::size_t size = 0;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return false;
  pthread_attr_getstack(&attributes, &low, &size);
  pthread_attr_destroy(&attributes);
  return place >= low && place < static_cast<const std::byte*>(low) + size;
}

// Rank 1 starts MPI, but does not take part in the duplication in time. Rank 0 must not have asked MPI to write on its
// stack.
int miss_a_duplicate(const fs::path& folder) {
  const fs::path there = folder / "0", over = folder / "1";
  int provided = 0;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  std::string told;
  if (rank == 0) {
    try {
      const MpiSession session(300ms);
      told = "no error";
    } catch (const CommError& error) {
      told = std::string(error.what()) + (on_the_stack(duplicate_place) ? ", on the stack" : ", kept");
    }
    std::ofstream(folder / "0.tmp") << told;
    fs::rename(folder / "0.tmp", there);
  }
  while (!fs::exists(there)) std::this_thread::sleep_for(2ms);
  std::optional<MpiSession> late;
  if (rank == 1) late.emplace(60s);  // now MPI writes to rank 0's address
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 1) std::ofstream(over) << "came late";
  late.reset();
  MPI_Finalize();
  return 0;
}

constexpr std::array scenarios{
    Scenario{"laws", laws_hold},
    Scenario{"stall", stall, 2s},
    Scenario{"overflow", overflow},
    Scenario{"overflow-large", overflow_large},
    Scenario{"fail-again", fail_again, 1s},
    Scenario{"give-up", give_up},
    Scenario{"lose-a-mailbox", lose_a_mailbox},
    Scenario{"give-up-mailboxes", give_up_mailboxes},
    Scenario{"stall-a-mailbox", stall_a_mailbox, 2s},
    Scenario{"fail-beside-a-mailbox", fail_beside_a_mailbox, 2s},
    Scenario{"leave", leave},
    Scenario{"leave-without-an-error", leave_without_an_error},
    Scenario{"never-end", never_end, 2s},
    Scenario{"huge", huge},
};

int play(std::string_view name, const std::string& folder) {
  if (name == std::string_view("miss-a-duplicate")) return miss_a_duplicate(folder);
  for (const Scenario& scenario : scenarios) {
    if (scenario.name != name) continue;
    const auto communicator = connect_mpi(find_world("", false), {.deadline = scenario.deadline});
    communicator->at_step(17);
    scenario.play({*communicator, folder});
    return 0;
  }
  throw std::runtime_error("there is no such scenario");
}

}  // namespace
}  // namespace sotto

// Replaces MPI's own function, as its profiling interface allows.
extern "C" int MPI_Comm_idup(MPI_Comm group, MPI_Comm* copy, MPI_Request* request) {
  sotto::duplicate_place = copy;
  return PMPI_Comm_idup(group, copy, request);
}

int main(int argc, char** argv) {
  try {
    return sotto::play(argc > 1 ? argv[1] : "", argc > 2 ? argv[2] : ".");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 3;
  }
}
