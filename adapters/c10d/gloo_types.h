#pragma once
// LibTorch's ProcessGroupGloo.hpp includes five headers of Gloo, which the wheel does not ship (CMakeLists.txt makes
// headers of those names that include this one). It holds pointers to these types, calls one function that libtorch_cpu
// defines, and derives GlooStore from Store; nobody here may make an object of them.

#include <chrono>
#include <string>
#include <vector>

namespace gloo {

namespace transport {
class Device;
class UnboundBuffer {
 public:
  virtual ~UnboundBuffer() = 0;
};
}  // namespace transport

class Context {
 public:
  void setTimeout(std::chrono::milliseconds timeout);
};

namespace rendezvous {
class Store {  // only what GlooStore's overrides need
 public:
  virtual ~Store();
  virtual void set(const std::string& key, const std::vector<char>& data) = 0;
  virtual std::vector<char> get(const std::string& key) = 0;
  virtual void wait(const std::vector<std::string>& keys) = 0;
  virtual void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds& timeout) = 0;
};
}  // namespace rendezvous

}  // namespace gloo
