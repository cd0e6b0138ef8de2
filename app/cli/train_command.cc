#include "app/cli/train_command.h"

#include <fmt/format.h>

#include <vector>

#include "app/cli/flags.h"
#include "app/launch/remote.h"

namespace sotto {

Settings read_settings(const TrainOptions& options) {
  Settings settings;
  const std::vector<std::string> flags = to_flags(options);  // "--lr=0.1", or "--link", ""
  for (const std::string& flag : flags) {
    if (!flag.starts_with("--")) continue;
    const std::size_t equals = flag.find('=');
    settings.push_back({flag.substr(2, equals == std::string::npos ? equals : equals - 2),
                        equals == std::string::npos ? "" : flag.substr(equals + 1)});
  }
  return settings_of(std::move(settings));
}

std::string train_command(const Settings& settings) {
  const Settings usual = read_settings(TrainOptions{});
  std::string line = "sotto train";
  for (std::size_t i = 0; i < settings.size(); ++i) {
    if (settings[i] == usual[i]) continue;
    line += " " + quoted(fmt::format("--{}={}", settings[i].name, settings[i].value));
  }
  return line;
}

}  // namespace sotto
