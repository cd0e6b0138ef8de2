#pragma once
// LibTorch's ProcessGroupGloo.hpp includes this header of Gloo, which the wheel does not ship. It only holds pointers
// to these types and calls one function that libtorch_cpu defines; nobody here may make an object of them.

#include <chrono>

namespace gloo {

namespace transport {
class UnboundBuffer {
 public:
  virtual ~UnboundBuffer() = 0;
};
}  // namespace transport

class Context {
 public:
  void setTimeout(std::chrono::milliseconds timeout);
};

}  // namespace gloo
