#pragma once

#include <mpi.h>

#include <cstddef>

namespace sotto {

// A number of bytes as MPI wants to be told: its counts are ints, so what is longer than 1 GiB is one element of a type
// of its own. It may go when the call that it is for has returned.
class MpiExtent {
 public:
  explicit MpiExtent(std::size_t bytes);
  ~MpiExtent();
  MpiExtent(const MpiExtent&) = delete;
  MpiExtent& operator=(const MpiExtent&) = delete;

  int count() const { return count_; }
  MPI_Datatype type() const { return type_; }

 private:
  static constexpr int most = 1 << 30;
  int count_ = 1;
  MPI_Datatype type_ = MPI_BYTE;
};

}  // namespace sotto
