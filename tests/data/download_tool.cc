// Calls download() for test_download.py: download_tool URL MD5 BYTES PATH [cancel-after-bytes]
// or download_tool get NAME FOLDER BASE_URL; and unpack_zip(): download_tool unzip ARCHIVE PREFIX FOLDER. Prints the
// result; an Error goes to stderr, with exit status 1.
#include <fmt/format.h>

#include <string>
#include <vector>

#include "app/data/download.h"
#include "app/data/unpack.h"
#include "sotto/core/error.h"

namespace {

constexpr const char* name_of(sotto::Fetched fetched) {
  switch (fetched) {
    case sotto::Fetched::already_there: return "already there";
    case sotto::Fetched::done: return "done";
    case sotto::Fetched::cancelled: return "cancelled";
  }
  return "?";
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> args(argv + 1, argv + argc);
  if (args.size() < 4) return 2;
  try {
    if (args[0] == "get") {
      fmt::print("{}\n", name_of(sotto::get_dataset(args[1], args[2], args[3], {})));
    } else if (args[0] == "unzip") {
      sotto::unpack_zip(
          args[1], [&](std::string_view name) { return name.starts_with(args[2]); }, args[3]);
    } else {
      const std::uint64_t limit = args.size() > 4 ? std::stoull(args[4]) : UINT64_MAX;
      const auto progress = [limit](const auto&, std::uint64_t done, std::uint64_t) { return done < limit; };
      const sotto::Download source{args[0], args[1], std::stoull(args[2])};
      fmt::print("{}\n", name_of(sotto::download(source, args[3], progress)));
    }
  } catch (const sotto::Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
