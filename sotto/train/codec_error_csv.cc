#include "sotto/train/codec_error_csv.h"

#include <fmt/format.h>

#include <charconv>
#include <fstream>
#include <string>
#include <string_view>

#include "sotto/codec/measure.h"
#include "sotto/core/error.h"
#include "sotto/core/file.h"

namespace sotto {

void CodecErrorCsv::begin(const std::filesystem::path& folder, std::uint64_t first_step) {
  path_ = folder / "codec_errors.csv";
  const std::string columns = fmt::format("step,elements,bytes,ratio,{}\n", csv_columns_of_errors());
  std::string text = columns;
  if (first_step > 0 && path_exists(path_)) {
    const std::string old = read_text(path_);
    if (!old.starts_with(columns)) throw FileError(path_.string() + ": its columns are not those of this program");
    // A last line that a crash cut off has no end, and is left out.
    for (std::size_t at = columns.size(), end = 0; (end = old.find('\n', at)) != std::string::npos; at = end + 1) {
      const std::string_view line(old.data() + at, end + 1 - at);
      std::uint64_t step = 0;
      const auto [after, error] = std::from_chars(line.data(), line.data() + line.size(), step);
      if (error != std::errc() || *after != ',') {
        throw FileError(fmt::format("{}: `{}` does not begin with a step", path_.string(), line.substr(0, 40)));
      }
      if (step < first_step) text += line;
    }
  }
  write_file_atomic(path_, text);
}

void CodecErrorCsv::add(std::uint64_t step, const Layout& layout, std::span<const float> gradient) {
  Codec* const codec = codec_.get();
  const MeasuredErrors measured = measure_errors({&codec, 1}, layout, gradient, 1).front();
  std::ofstream file(path_, std::ios::app | std::ios::binary);
  file << fmt::format("{},{},{},{:.6g},{}\n", step, measured.measurement.elements, measured.measurement.bytes,
                      measured.measurement.ratio, csv_cells(measured.errors))
       << std::flush;
  if (!file) throw FileError(path_.string() + ": cannot be written");
}

}  // namespace sotto
