#pragma once
// LibTorch's ProcessGroupGloo.hpp includes this header of Gloo, which the wheel does not ship, and needs nothing from
// it.
