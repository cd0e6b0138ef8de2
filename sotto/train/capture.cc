#include "sotto/train/capture.h"

#include <fmt/format.h>

#include <system_error>
#include <utility>

#include "sotto/codec/gradient_file.h"
#include "sotto/core/error.h"
#include "sotto/core/options.h"

namespace sotto {

CapturePlan read_capture(std::string_view option, std::string_view text) {
  CapturePlan plan;
  const auto fail = [&](std::string_view why) { throw ConfigError(fmt::format("{}: {}", named(option, text), why)); };
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view item = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(item.size() + 1, rest.size()));
    const std::string_view key = item.substr(0, item.find('='));
    if (key.size() == item.size()) fail("it is written every=N,dir=DIR");
    const std::string_view value = item.substr(key.size() + 1);
    if (key == "every") {
      plan.every = static_cast<std::uint64_t>(parse_int(named(option, text) + ": every", value, Bounds{1, 1e12}));
    } else if (key == "dir") {
      plan.folder = value;
    } else {
      fail(fmt::format("`{}` is unknown; it is written every=N,dir=DIR", key));
    }
  }
  if (plan.every == 0) fail("every=N is missing: how many steps lie between two gradients");
  if (plan.folder.empty()) fail("dir=DIR is missing: where to write the gradients");
  return plan;
}

Capture::~Capture() {
  if (thread_.joinable()) thread_.join();
}

std::span<float> Capture::room(std::size_t elements) {
  finish();
  values_.resize(elements);
  return values_;
}

void Capture::write(std::uint64_t step, const Layout& layout) {
  const auto work = [this, step, &layout] {
    try {
      write_file(step, layout);
    } catch (...) {
      error_ = std::current_exception();
    }
  };
  try {
    thread_ = std::thread(work);
  } catch (const std::system_error&) {  // no thread is available
    work();
  }
}

void Capture::finish() {
  if (thread_.joinable()) thread_.join();
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

void Capture::write_file(std::uint64_t step, const Layout& layout) const {
  std::error_code error;
  std::filesystem::create_directories(plan_.folder, error);
  if (error) throw FileError(fmt::format("{}: {}", plan_.folder.string(), error.message()));
  write_gradient_file(plan_.folder / fmt::format("gradient-{:06d}.sotto", step), step, layout, values_);
}

}  // namespace sotto
