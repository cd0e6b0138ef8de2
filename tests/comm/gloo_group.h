#pragma once

#include "adapters/c10d/transports.h"
#include "job.h"

namespace sotto {

// A job whose ranks are connected by Gloo.
class Gloo : public Job {
 protected:
  std::vector<Ended> run(int ranks, std::chrono::milliseconds deadline,
                         const std::function<void(Communicator&)>& body) const {
    return run_over(connect_gloo, ranks, deadline, body);
  }
};

}  // namespace sotto
