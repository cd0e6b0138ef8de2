#pragma once

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace sotto::test {

class TempFolder {
 public:
  TempFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "sotto-train-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~TempFolder() { std::filesystem::remove_all(path_); }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

inline void write(const std::filesystem::path& path, const std::string& text) { std::ofstream(path) << text; }

}  // namespace sotto::test
