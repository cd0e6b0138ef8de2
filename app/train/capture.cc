#include "app/train/capture.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <system_error>

#include "sotto/core/error.h"
#include "sotto/core/file.h"
#include "sotto/core/options.h"
#include "app/train/size_text.h"

namespace sotto {

CapturePlan read_capture(std::string_view option, std::string_view text) {
  constexpr std::string_view form =
      "it is written every=N,dir=DIR, and may go on with ranks=all, memory=true, format=npy or safetensors, limit=16GB";
  CapturePlan plan;
  const std::string said = named(option, text);
  const auto fail = [&](std::string_view why) { throw ConfigError(fmt::format("{}: {}", said, why)); };
  std::set<std::string_view> keys;
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view item = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(item.size() + 1, rest.size()));
    const std::string_view key = item.substr(0, item.find('='));
    if (key.size() == item.size()) fail(form);
    const std::string_view value = item.substr(key.size() + 1);
    if (!keys.insert(key).second) fail(fmt::format("{} is given twice; say it once", key));
    if (key == "every") {
      plan.every = static_cast<std::uint64_t>(parse_int(said + ": every", value, Bounds{1, 1e12}));
    } else if (key == "dir") {
      plan.folder = value;
    } else if (key == "ranks") {
      if (value != "all" && value != "one") fail("ranks must be one or all");
      plan.all_ranks = value == "all";
    } else if (key == "memory") {
      plan.memory = parse_bool(said + ": memory", value);
    } else if (key == "format") {
      const auto format = capture_format(value);
      if (!format) fail("format must be sotto, npy or safetensors");
      plan.format = *format;
    } else if (key == "limit") {
      const auto bytes = parse_bytes(said + ": limit", value);
      if (!bytes || *bytes < 1 || *bytes > 1e18) fail("limit must be a size, as 16GB");
      plan.limit = static_cast<std::uint64_t>(*bytes);
    } else {
      fail(fmt::format("`{}` is unknown; {}", key, form));
    }
  }
  if (plan.every == 0) fail("every=N is missing: how many steps lie between two gradients");
  if (plan.folder.empty()) fail("dir=DIR is missing: where to write the gradients");
  return plan;
}

Capture::Capture(CapturePlan plan, int rank, int ranks)
    : plan_(std::move(plan)), share_(plan_.limit / static_cast<std::uint64_t>(plan_.all_ranks ? ranks : 1)) {
  if (plan_.all_ranks) rank_ = rank;
}

void Capture::write(std::uint64_t step, const Layout& layout, std::span<const float> gradient,
                    std::span<const float> memory) {
  if (full_) return;
  make_folder(plan_.folder);
  const std::uint64_t next = most_captured_bytes(layout) * (memory.empty() ? 1 : 2);
  if (used(step) + next > share_) {
    full_ = true;
    remark_ = fmt::format(
        "{}: no more gradients from step {} on: {} bytes might not be enough for another; limit says how many",
        plan_.folder.string(), step, plan_.limit);
    return;
  }
  CapturedFile file{plan_.folder, false, step, rank_, plan_.format};
  file.write(layout, gradient);
  if (memory.empty()) return;
  file.memory = true;
  file.write(layout, memory);
}

// The bytes of what this rank captured at other steps, before a resume, too.
std::uint64_t Capture::used(std::uint64_t step) const {
  std::uint64_t bytes = 0;
  for (const CapturedFile& file : captured_files(plan_.folder)) {
    if (file.rank != rank_ || file.step == step) continue;
    std::error_code gone;  // somebody may remove files at any time
    const auto size = std::filesystem::file_size(file.path(), gone);
    if (!gone) bytes += size;
  }
  return bytes;
}

}  // namespace sotto
