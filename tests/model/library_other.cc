// A library that was built for another sotto or torch. OTHER says what differs: the interface (1), strings (2), sotto
// (3), torch (4); with 0 it makes no network.
#include "app/model/own_network.h"

extern "C" {
#if OTHER == 0
int make_network();
#else
extern const sotto::OwnNetworkLibrary sotto_own_network;
#endif
}
#if OTHER == 0
int make_network() { return 3; }
#else
const sotto::OwnNetworkLibrary sotto_own_network = {
    OTHER == 1 ? 77 : sotto::own_network_interface, OTHER == 2 ? !_GLIBCXX_USE_CXX11_ABI : _GLIBCXX_USE_CXX11_ABI,
    OTHER == 3 ? "0.0.9" : sotto::version.data(), OTHER == 4 ? "1.13.0" : TORCH_VERSION, nullptr};
#endif
