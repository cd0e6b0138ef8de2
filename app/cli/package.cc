// The program of the Python package, free of LibTorch: those commands of `sotto` that the package has.
#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "app/cli/commands.h"
#include "app/cli/flags.h"
#include "sotto/core/error.h"
#include "sotto/core/text.h"

namespace sotto {
namespace {

struct Entry {
  std::string_view name, action;  // `sotto NAME ACTION`; some have no action
  int (*run)(std::span<const std::string> arguments);
};
constexpr std::array<Entry, 5> table{{{"coordinator", "", run_coordinator},
                                      {"relay", "", run_relay},
                                      {"secret", "", run_secret},
                                      {"codec", "list", list_codecs},
                                      {"codec", "describe", describe_codec}}};

int run(std::span<const std::string> arguments) {
  for (const auto& [name, action, run] : table) {
    const std::size_t words = action.empty() ? 1 : 2;
    if (arguments.size() < words || arguments[0] != name || (words == 2 && arguments[1] != action)) continue;
    return run(arguments.subspan(words));
  }
  throw ConfigError((arguments.empty() ? "nothing" : arguments[0]) +
                    ": the Python package has coordinator, relay, secret, doctor, codec list and codec describe; all "
                    "else is in the program that `./dev build` makes of sotto's source");
}

int fail(int status, const std::string& message) {
  print_error(fmt::format("sotto: {}\n", message));
  return status;
}

// A reader that closes its pipe early is no error.
int lost_output(int error) {
  return error == EPIPE ? 0 : fail(1, fmt::format("standard output cannot be written to: {}", std::strerror(error)));
}

int status_of(std::span<const std::string> arguments) {
  try {
    const int status = run(arguments);
    return status == 0 && std::fflush(stdout) != 0 ? lost_output(errno) : status;
  } catch (const ConfigError& error) {
    return fail(2, error.text(flag_spelling));
  } catch (const std::system_error& error) {
    return std::ferror(stdout) != 0 ? lost_output(error.code().value()) : fail(1, error.what());
  } catch (const std::exception& error) {
    return fail(1, error.what());
  }
}

}  // namespace
}  // namespace sotto

int main(int count, char** words) { return sotto::status_of(std::vector<std::string>(words + 1, words + count)); }
