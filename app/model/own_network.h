#pragma once

#include <charconv>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "sotto/core/examples.h"
#include "sotto/core/version.h"

#if __has_include(<torch/version.h>)
#include <torch/version.h>
#endif

// A user's own network, for `sotto train`: a shared library with
//   sotto::OwnNetwork make_network(sotto::NetworkRequest& wanted) { ... }
//   SOTTO_NETWORK(make_network)
// Everything here is inline, so such a library only links LibTorch.

namespace at {
class Tensor;
}
namespace torch::nn {
class Module;
}

namespace sotto {

// The images, outputs and options that a network is made for.
class NetworkRequest {
 public:
  // `options`: the arguments of `./mine.so(width=64)`.
  NetworkRequest(ImageShape shape, std::int64_t outputs, std::map<std::string, std::string> options)
      : shape_(shape), outputs_(outputs), options_(std::move(options)) {}

  std::int64_t channels() const { return shape_.channels; }  // of the images
  std::int64_t height() const { return shape_.height; }
  std::int64_t width() const { return shape_.width; }
  std::int64_t outputs() const { return outputs_; }  // outputs of the network for an image, one for each class

  // The value of an option, or `usual` if the user does not give it. std::invalid_argument if the value must be a
  // number and is none. sotto refuses options that make_network() has not asked for, since they would have no effect.
  std::string text(const std::string& name, const std::string& usual) {
    asked_.insert(name);
    const auto found = options_.find(name);
    return found == options_.end() ? usual : found->second;
  }
  double number(const std::string& name, double usual) { return parsed(name, usual, "a number"); }
  std::int64_t count(const std::string& name, std::int64_t usual) { return parsed(name, usual, "a whole number"); }

  std::vector<std::string> asked() const { return {asked_.begin(), asked_.end()}; }

 private:
  template <class Number>
  Number parsed(const std::string& name, Number usual, const char* wanted) {
    const std::string said = text(name, "");
    if (said.empty() && !options_.contains(name)) return usual;
    Number value{};
    const auto [end, error] = std::from_chars(said.data(), said.data() + said.size(), value);
    if (error == std::errc() && end == said.data() + said.size()) return value;
    throw std::invalid_argument(name + " must be " + wanted + ", not `" + said + "`");
  }

  ImageShape shape_;
  std::int64_t outputs_;
  std::map<std::string, std::string> options_;
  std::set<std::string> asked_;
};

// A torch module, and how it is called: (count, channels, height, width) -> (count, outputs), floats. Its parameters
// and float buffers are moved into flat vectors, so it must not keep pointers into them. Its draws from torch's
// generator, for first weights and dropout, depend on the seed of the run alone: sotto seeds the generator before each
// call.
struct OwnNetwork {
  std::shared_ptr<torch::nn::Module> module;
  std::function<at::Tensor(const at::Tensor& images)> forward;

  OwnNetwork(std::shared_ptr<torch::nn::Module> its_module, std::function<at::Tensor(const at::Tensor&)> its_forward)
      : module(std::move(its_module)), forward(std::move(its_forward)) {}
  // Converts the holder of a module that has forward(images): a class by TORCH_MODULE, or a torch::nn::Sequential.
  template <class Holder>
  requires requires(Holder holder) { holder.ptr(); }
  OwnNetwork(Holder network)  // NOLINT(google-explicit-constructor): `return network;` is all that a maker says
      : module(network.ptr()),
        forward([network](const at::Tensor& images) mutable { return network->forward(images); }) {}
};

// The symbol that a library exports. sotto reads `make` only if all members before it match its own. They are plain C,
// so any version of sotto can read them.
struct OwnNetworkLibrary {
  std::uint32_t interface_version;
  std::uint32_t has_new_strings;  // _GLIBCXX_USE_CXX11_ABI
  const char* sotto_version;
  const char* torch_version;
  OwnNetwork (*make)(NetworkRequest& wanted);
};
inline constexpr std::uint32_t own_network_interface = 1;
inline constexpr char own_network_symbol[] = "sotto_own_network";

}  // namespace sotto

#define SOTTO_NETWORK(maker)                                                                                \
  extern "C" {                                                                                              \
  __attribute__((visibility("default"))) extern const sotto::OwnNetworkLibrary sotto_own_network;           \
  }                                                                                                         \
  const sotto::OwnNetworkLibrary sotto_own_network = {sotto::own_network_interface, _GLIBCXX_USE_CXX11_ABI, \
                                                      sotto::version.data(), TORCH_VERSION, maker};
