// The commands of the program that the Python package has, too: for `python -m sotto`.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <array>
#include <cstdio>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "app/cli/commands.h"
#include "app/cli/flags.h"
#include "python/bindings/module.h"
#include "sotto/core/error.h"
#include "sotto/core/text.h"

namespace sotto::python {
namespace {

struct Entry {
  std::string_view name, action;  // `sotto NAME ACTION`; some have no action
  int (*run)(std::span<const std::string> arguments);
};
constexpr std::array<Entry, 4> table{{{"coordinator", "", run_coordinator},
                                      {"doctor", "", run_doctor},
                                      {"codec", "list", list_codecs},
                                      {"codec", "describe", describe_codec}}};

int run(std::span<const std::string> arguments) {
  for (const auto& [name, action, run] : table) {
    const std::size_t words = action.empty() ? 1 : 2;
    if (arguments.size() < words || arguments[0] != name || (words == 2 && arguments[1] != action)) continue;
    return run(arguments.subspan(words));
  }
  throw ConfigError(arguments[0] +
                    ": the Python package has coordinator, doctor, codec list and codec describe; all else is in "
                    "the program that `./dev build` makes of sotto's source");
}

// Returns the exit status.
int run_command(const std::vector<std::string>& arguments) {
  const pybind11::gil_scoped_release released;
  try {
    const int status = run(arguments);
    flush_output();  // Python knows nothing of it
    return status;
  } catch (const ConfigError& error) {
    throw ConfigError(error.text(flag_spelling));
  } catch (const std::system_error& error) {
    if (std::ferror(stdout) == 0) throw;
    if (error.code() == std::errc::broken_pipe) return 0;  // as `head` expects
    throw Error("standard output cannot be written to: " + error.code().message());
  }
}

}  // namespace

void bind_program(pybind11::module_& module) { module.def("run_command", &run_command); }

}  // namespace sotto::python
