// A library that makes no network.
extern "C" int make_network();
int make_network() { return 3; }
