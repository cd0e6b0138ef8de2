#include "app/cli/ssh_flags.h"

#include <filesystem>

namespace sotto {

Ssh SshFlags::read() const {
  const auto here = [] { return std::filesystem::read_symlink("/proc/self/exe").string(); };
  return {.command = ssh, .program = remote_sotto.empty() ? here() : remote_sotto};
}

}  // namespace sotto
