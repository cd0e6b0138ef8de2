#pragma once

#include <mpi.h>

#include <cstddef>

namespace sotto {

// A number of bytes in the form that MPI needs: its counts are ints, so more than 1 GiB is one element of a special
// type. It may be destroyed when the call that uses it has returned.
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
