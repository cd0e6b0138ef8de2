#pragma once
// LibTorch's ProcessGroupGloo.hpp includes this header of Gloo, which the wheel does not ship, and holds pointers only.

namespace gloo::transport {
class Device;
}  // namespace gloo::transport
