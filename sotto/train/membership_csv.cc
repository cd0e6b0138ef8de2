#include "sotto/train/membership_csv.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <fstream>

#include "sotto/core/error.h"

namespace sotto {

void append_generation(const std::filesystem::path& train_dir, const GenerationRow& row) {
  const auto path = train_dir / "membership.csv";
  std::ofstream file(path, std::ios::app);
  if (file.tellp() == 0) file << "generation,step,ranks,members\n";
  file << fmt::format("{},{},{},{}\n", row.generation, row.step, row.ids.size(), fmt::join(row.ids, " "));
  file.flush();
  if (!file) throw FileError(path.string() + ": cannot be written");
}

}  // namespace sotto
