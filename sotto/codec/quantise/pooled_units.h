#pragma once

namespace sotto {

// Offered by a quantiser whose unit may be all pieces of a message together, one after the other, in place of a unit
// for each piece. No transform may precede it then. Only `clusters` offers it; the chain need not know that name.
class PooledUnits {
 public:
  virtual ~PooledUnits() = default;
  virtual bool pools() const = 0;
};

}  // namespace sotto
