#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <vector>

#include "sotto/core/timer.h"

namespace sotto {

// A value that TensorBoard draws against steps.
struct EventScalar {
  std::string_view tag;  // "train/loss"
  double value = 0;
};

// A file of events as TensorBoard reads it: records with checksums (TFRecord) of protocol buffers (Event, Summary).
// Only scalars are written. Events reach the disk at least once a second while there are new ones.
class EventFile {
 public:
  // Makes a new file in `folder`. Its name sorts after those of the files there, because TensorBoard reads files in
  // that order. It tells TensorBoard to forget `first_step` and later steps of an earlier start. FileError.
  EventFile(const std::filesystem::path& folder, std::uint64_t first_step);
  ~EventFile();
  EventFile(const EventFile&) = delete;
  EventFile& operator=(const EventFile&) = delete;

  void add(std::uint64_t step, const std::vector<EventScalar>& scalars);
  void flush();  // FileError, for example if the disk is full

  static bool has_any(const std::filesystem::path& folder);  // whether there are such files

 private:
  std::filesystem::path path_;
  std::ofstream file_;
  Timer since_flush_;
};

// The checksum of a record, before it is masked (CRC-32C; Castagnoli et al., 1993).
std::uint32_t crc32c(std::string_view bytes);

}  // namespace sotto
