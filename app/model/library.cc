#include "app/model/library.h"

#include <c10/util/Exception.h>
#include <dlfcn.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>

#include "app/model/image_network.h"
#include "app/model/network.h"
#include "app/model/own_network.h"
#include "sotto/core/file.h"

namespace sotto {
namespace {

constexpr std::string_view ending = ".so";

// The index at which the options begin; without options, the end.
std::size_t end_of_path(std::string_view model) {
  const std::size_t end = model.find(std::string(ending) + "(");
  if (end != std::string_view::npos) return end + ending.size();
  return model.ends_with(')') ? model.find('(') : model.size();
}

struct LibraryOptions {
  std::string path;
  std::map<std::string, std::string> options;
  void visit(OptionVisitor& /*visitor*/) {}
};

// Stands for a network of a library.
class LibraryNetwork final : public ImageNetwork {
 public:
  explicit LibraryNetwork(OwnNetwork own) : ImageNetwork(in_torchs_order(), ""), own_(std::move(own)) {}

  std::shared_ptr<torch::nn::Module> trained() override { return own_.module; }

  at::Tensor forward(const at::Tensor& images, std::uint64_t random) override {
    seed_torch(random);
    for (const auto& module : own_.module->modules()) announce(*module);  // a user's network does not call through()
    return own_.forward(images);
  }

 private:
  static ImageOptions in_torchs_order() {
    ImageOptions options;
    options.channels_last = false;  // view() of a user's network fails with channels last
    return options;
  }
  OwnNetwork own_;
};

const OwnNetworkLibrary& load(const std::string& path) {
  // Never unloaded: its code is in use as long as a network lives. RTLD_NOW: a missing symbol is an error here, not in
  // training.
  void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* reason = ::dlerror();
    throw ConfigError(fmt::format("it cannot be loaded; it must be built with torch {}: {}", TORCH_VERSION,
                                  reason == nullptr ? "" : reason));
  }
  const auto* found = static_cast<const OwnNetworkLibrary*>(::dlsym(library, own_network_symbol));
  if (found == nullptr) {
    throw ConfigError(
        "it is no library for sotto: it lacks a line SOTTO_NETWORK(make_network), as "
        "sotto/app/model/own_network.h describes");
  }
  if (found->interface_version != own_network_interface) {
    throw ConfigError(fmt::format("it was built with interface {} of own_network.h, this sotto has {}; build it again",
                                  found->interface_version, own_network_interface));
  }
  const std::string ours(version);
  if (found->sotto_version != ours) {
    throw ConfigError(
        fmt::format("it was built with sotto {}, this is sotto {}; build it again", found->sotto_version, ours));
  }
  if (std::strcmp(found->torch_version, TORCH_VERSION) != 0) {
    throw ConfigError(fmt::format("it was built with torch {}, this sotto with torch {}; build it again",
                                  found->torch_version, TORCH_VERSION));
  }
  if (found->has_new_strings != _GLIBCXX_USE_CXX11_ABI) {
    throw ConfigError("it was built with another _GLIBCXX_USE_CXX11_ABI than this sotto; build it again");
  }
  return *found;
}

// Calls the user's code, and turns all its exceptions into ConfigErrors.
template <class Call>
auto guarded(std::string_view what, Call&& call) {
  const auto fail = [&](const std::string& message) -> ConfigError {
    return ConfigError(fmt::format("{} failed: {}", what, message));
  };
  try {
    return call();
  } catch (const c10::Error& error) {
    throw fail(error.what_without_backtrace());
  } catch (const std::exception& error) {
    throw fail(error.what());
  } catch (...) {
    throw fail("it threw something that is no std::exception");
  }
}

// ConfigError for parameters that FlatModule cannot move into flat vectors.
void check_parameters(const torch::nn::Module& module) {
  const auto parameters = module.named_parameters();
  if (parameters.is_empty()) throw ConfigError("the network has no parameters");
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const at::Tensor& value = parameters[i].value();
    const std::string& name = parameters[i].key();
    if (!value.defined() || value.scalar_type() != at::kFloat || !value.device().is_cpu()) {
      throw ConfigError(fmt::format("the parameter {} is no tensor of 32-bit floats on the processor", name));
    }
    if (!value.requires_grad()) {
      throw ConfigError(fmt::format("the parameter {} requires no gradient; make it a buffer", name));
    }
    for (std::size_t other = 0; other < i; ++other) {
      if (parameters[other].value().is_same(value)) {
        throw ConfigError(fmt::format("{} and {} are one parameter; register it once", parameters[other].key(), name));
      }
    }
  }
}

void try_out(const OwnNetwork& own, const ImageShape& shape, std::int64_t outputs) {
  constexpr std::int64_t count = 2;
  const at::NoGradGuard no_grad;
  own.module->eval();
  const at::Tensor found = guarded("its forward", [&] {
    return own.forward(at::zeros({count, shape.channels, shape.height, shape.width}, at::kFloat));
  });
  const auto text = [](at::IntArrayRef sizes) { return fmt::format("({})", fmt::join(sizes.vec(), ", ")); };
  const std::array<std::int64_t, 2> wanted{count, outputs};
  if (!found.defined() || found.sizes() != at::IntArrayRef(wanted) || found.scalar_type() != at::kFloat) {
    throw ConfigError(fmt::format("its forward makes {} of {} images; {} floats are wanted",
                                  found.defined() ? text(found.sizes()) : "nothing", count, text(wanted)));
  }
}

MadeNetwork make_of_library(const LibraryOptions& options, const ImageShape& shape, std::int64_t outputs) {
  const OwnNetworkLibrary& library = load(options.path);
  NetworkRequest wanted(shape, outputs, options.options);
  OwnNetwork own = guarded("its maker", [&] { return library.make(wanted); });
  const std::vector<std::string> asked = wanted.asked();
  for (const auto& [name, value] : options.options) {
    if (std::ranges::count(asked, name) > 0) continue;
    const std::vector<std::string_view> known(asked.begin(), asked.end());
    throw ConfigError(known.empty() ? fmt::format("it has no options, and `{}` is one", name)
                                    : unknown_name("option", name, known));
  }
  if (!own.module || !own.forward) throw ConfigError("its maker made no module, or none that can be called");
  check_parameters(*own.module);
  try_out(own, shape, outputs);
  return std::make_shared<LibraryNetwork>(std::move(own));
}

AnyOptions no_library() { return LibraryOptions{}; }

constexpr ImageModelEntry entry_of_libraries{
    "library", "your own network, in a shared library", {}, 0, 1, 0.01, 0.9, no_library, Made<make_of_library>::make};

}  // namespace

bool names_library(std::string_view model) {
  const std::string_view path = model.substr(0, std::min(end_of_path(model), model.size()));
  return path.ends_with(ending) || path.find('/') != std::string_view::npos;
}

Expression parse_model(std::string_view option, std::string_view model) {
  if (!names_library(model)) return parse_expression(option, model);
  // The parser takes names only, so a name of the same length stands for the path.
  const std::size_t end = end_of_path(model);
  Expression expression = parse_expression(option, std::string(end, 'x') + std::string(model.substr(end)));
  expression.text = model;
  expression.calls.front().name = model.substr(0, end);
  return expression;
}

std::string with_absolute_path(std::string_view model) {
  const std::size_t end = end_of_path(model);
  return std::filesystem::absolute(model.substr(0, end)).lexically_normal().string() + std::string(model.substr(end));
}

ImageModelSpec read_library(const Expression& expression) {
  const Call& call = expression.calls.front();
  if (expression.calls.size() > 1) {
    fail_at(expression, call, expression.calls[1].position, "a single call is wanted here, not several");
  }
  LibraryOptions options{.path = with_absolute_path(call.name), .options = {}};
  std::error_code unknown;
  if (!std::filesystem::is_regular_file(options.path, unknown)) {
    fail_at(expression, call, call.position, fmt::format("there is no such library as {}", options.path));
  }
  for (const Argument& argument : call.arguments) {
    if (argument.key.empty()) {
      fail_at(expression, call, argument.position, "options of a library have names, as in ./mine.so(width=64)");
    }
    if (!options.options.emplace(argument.key, argument.value).second) {
      fail_at(expression, call, argument.position, fmt::format("`{}` is given twice", argument.key));
    }
  }
  return {&entry_of_libraries, std::move(options), place_of(expression, call)};
}

std::string fingerprint_of(const ImageModelSpec& spec) {
  return sha256_hex(read_file(spec.options.as<LibraryOptions>().path));
}

const ImageModelEntry& library_entry() { return entry_of_libraries; }

}  // namespace sotto
