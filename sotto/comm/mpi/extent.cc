#include "sotto/comm/mpi/extent.h"

#include <array>

namespace sotto {

MpiExtent::MpiExtent(std::size_t bytes) {
  if (bytes <= most) {
    count_ = static_cast<int>(bytes);
    return;
  }
  MPI_Datatype chunk = MPI_DATATYPE_NULL;
  MPI_Type_contiguous(most, MPI_BYTE, &chunk);
  const std::array<int, 2> counts{static_cast<int>(bytes / most), static_cast<int>(bytes % most)};
  const std::array<MPI_Aint, 2> places{0, static_cast<MPI_Aint>(bytes / most * most)};
  const std::array<MPI_Datatype, 2> types{chunk, MPI_BYTE};
  MPI_Type_create_struct(2, counts.data(), places.data(), types.data(), &type_);
  MPI_Type_commit(&type_);
  MPI_Type_free(&chunk);
}

// MPI keeps the type until messages in transit are complete.
MpiExtent::~MpiExtent() {
  if (type_ != MPI_BYTE) MPI_Type_free(&type_);
}

}  // namespace sotto
