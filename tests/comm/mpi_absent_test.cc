// The functions that stand in for the MPI backend where it was not built.
#include <gtest/gtest.h>

#include "adapters/mpi/mpi.h"
#include "sotto/core/error.h"

namespace sotto {
namespace {

TEST(MpiAbsent, SaysHowToBuildIt) {
  EXPECT_EQ(mpi_library(), "");
  World world;
  world.starter = "openmpi";
  try {
    connect_mpi(world, {.deadline = std::chrono::seconds(1)});
    ADD_FAILURE() << "no error";
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find("-DSOTTO_BUILD_MPI=ON"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace sotto
