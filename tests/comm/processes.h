#pragma once

#include <functional>
#include <string>
#include <vector>

namespace sotto {

// How a rank ended.
struct Ended {
  int status = 0;     // 0; 1 when its body threw; 128 + signal
  std::string error;  // what it threw
  double seconds = 0;
};

// Runs `body` for each rank in its own process, forked from this one, which must have no threads. Processes that do not
// end within `limit_seconds` are killed; all are killed when this process dies.
std::vector<Ended> run_processes(int ranks, double limit_seconds, const std::function<void(int rank)>& body);

// Runs `serve` in a process that ends with this object. `serve` calls ready(port); then the process waits.
class ServerProcess {
 public:
  explicit ServerProcess(const std::function<void(const std::function<void(int)>& ready)>& serve);
  ~ServerProcess();
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;
  int port() const { return port_; }
  int pid() const { return pid_; }

 private:
  int pid_ = 0;
  int port_ = 0;
};

}  // namespace sotto
