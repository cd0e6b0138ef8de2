#include "sotto/comm/gloo_connect.h"

#include <utility>

namespace sotto {

Connect gloo_connect(c10::intrusive_ptr<c10d::ProcessGroupGloo::Options> settings, int rank, int size) {
  return [settings = std::move(settings), rank, size](const c10::intrusive_ptr<c10d::Store>& store) -> GroupPtr {
    return c10::make_intrusive<c10d::ProcessGroupGloo>(store, rank, size, settings);
  };
}

}  // namespace sotto
