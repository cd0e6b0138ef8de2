#include "sotto/comm/gloo_connect.h"

#include <csignal>
#include <utility>

namespace sotto {

Connect gloo_connect(c10::intrusive_ptr<c10d::ProcessGroupGloo::Options> settings, int rank, int size) {
  return [settings = std::move(settings), rank, size](const c10::intrusive_ptr<c10d::Store>& store) -> GroupPtr {
    return c10::make_intrusive<c10d::ProcessGroupGloo>(store, rank, size, settings);
  };
}

void ignore_broken_pipes() {
  struct sigaction now {};
  if (::sigaction(SIGPIPE, nullptr, &now) == 0 && now.sa_handler == SIG_DFL) ::signal(SIGPIPE, SIG_IGN);
}

}  // namespace sotto
