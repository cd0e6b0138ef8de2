#include "app/train/course.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "sotto/core/error.h"

namespace sotto {

Course::Course(const Epochs& epochs, const StepSize& size)
    : batches_(epochs.each), accumulate_(size.accumulate), size_(size), epochs_(epochs) {}

// How far the run is at the beginning of this step, in batches of the first start, rounded down.
std::uint64_t Course::batches_at(std::uint64_t step) const {
  const Epochs::Place place = epochs_.at(step * size_.accumulate);
  const std::uint64_t made = place.epoch == epochs_.epoch ? made_ : 0;
  return place.epoch * batches_ + made + place.index * (batches_ - made) / place.positions;
}

double Course::epochs_at(std::uint64_t step) const {
  const Epochs::Place place = epochs_.at(step * size_.accumulate);
  const std::uint64_t made = place.epoch == epochs_.epoch ? made_ : 0;
  const double since = static_cast<double>(place.index * (batches_ - made)) / static_cast<double>(place.positions);
  return (static_cast<double>(place.epoch * batches_ + made) + since) / static_cast<double>(batches_);
}

std::uint64_t Course::first_step_in(std::uint64_t epoch) const {
  return (epochs_.begin_of(epoch) + size_.accumulate - 1) / size_.accumulate;
}

Course Course::changed(std::uint64_t step, const StepSize& size) const {
  const Epochs::Place place = epochs_.at(step * size_.accumulate);
  Course course = *this;
  course.size_ = size;
  if (place.epoch != epochs_.epoch) course.read_.clear();
  if (place.index > 0) course.read_.push_back({size_.ranks, size_.batch, place.index});
  course.made_ = batches_at(step) - place.epoch * batches_;
  course.epochs_.first = step * size.accumulate;
  course.epochs_.epoch = place.epoch;
  return course;
}

std::string Course::text() const {
  std::string text = fmt::format("{} {} {} {} {} {} {} {} {} {}", batches_, accumulate_, size_.ranks, size_.batch,
                                 size_.accumulate, epochs_.each, epochs_.first, epochs_.epoch, epochs_.left, made_);
  for (const Reading& read : read_) text += fmt::format(" {} {} {}", read.ranks, read.batch, read.positions);
  return text;
}

Course Course::of_text(std::string_view text) {
  std::vector<std::uint64_t> numbers;
  const auto fail = [&] { throw FileError(fmt::format("`{}` is no course of a run", text.substr(0, 60))); };
  for (const char* at = text.data(); at != text.data() + text.size();) {
    const auto [end, error] = std::from_chars(at, text.data() + text.size(), numbers.emplace_back());
    if (error != std::errc()) fail();
    at = end == text.data() + text.size() ? end : end + 1;
  }
  constexpr std::size_t own = 10, of_each = 3;
  if (numbers.size() < own || (numbers.size() - own) % of_each != 0) fail();
  const auto& n = numbers;
  Course course;
  course.batches_ = n[0];
  course.accumulate_ = n[1];
  course.size_ = {n[2], n[3], n[4]};
  course.epochs_ = {n[5], n[6], n[7], n[8]};
  course.made_ = n[9];
  for (std::size_t i = own; i < n.size(); i += of_each) course.read_.push_back({n[i], n[i + 1], n[i + 2]});
  const bool any_zero =
      std::ranges::any_of(std::span(n).first(6), [](std::uint64_t number) { return number == 0; }) ||
      std::ranges::any_of(course.read_, [](const Reading& r) { return r.ranks == 0 || r.batch == 0; });
  if (any_zero || course.made_ > course.batches_) fail();
  return course;
}

}  // namespace sotto
