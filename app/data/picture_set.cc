#include "app/data/picture_set.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "app/data/picture.h"
#include "app/data/view.h"
#include "sotto/core/error.h"

namespace sotto {
namespace {

std::vector<std::string> remarks_about(const std::vector<std::string>& broken, std::size_t checked,
                                       const std::string& folder) {
  constexpr std::size_t most_named = 20;
  std::vector<std::string> remarks;
  if (broken.empty()) return remarks;
  remarks.push_back(fmt::format("{} of {} pictures of {} cannot be decoded and are left out; with {} they are an error",
                                broken.size(), checked, folder, named("strict")));
  remarks.insert(remarks.end(), broken.begin(),
                 broken.begin() + static_cast<std::ptrdiff_t>(std::min(broken.size(), most_named)));
  if (broken.size() > most_named) remarks.push_back(fmt::format("and {} more", broken.size() - most_named));
  return remarks;
}

}  // namespace

CheckedPictures check_pictures(const PictureStore& store, std::size_t wanted, ThreadPool& pool) {
  CheckedPictures checked;
  std::vector<std::string> problems;
  for (std::size_t begin = 0; begin < store.size() && checked.readable.size() < wanted; begin += problems.size()) {
    problems.assign(std::min(store.size() - begin, wanted - checked.readable.size()), "");
    pool.run(problems.size(), [&](std::size_t i) {
      thread_local std::vector<std::byte> bytes;
      store.read(begin + i, bytes);
      problems[i] = why_broken(bytes);
      keep_small(bytes);
    });
    for (std::size_t i = 0; i < problems.size(); ++i) {
      if (problems[i].empty()) {
        checked.readable.push_back(static_cast<std::uint32_t>(begin + i));
      } else {
        checked.broken.push_back(store.name(begin + i) + ": " + problems[i]);
      }
    }
  }
  checked.tried = checked.readable.size() + checked.broken.size();
  return checked;
}

PictureSet::PictureSet(std::unique_ptr<PictureStore> store, std::vector<std::uint32_t> examples,
                       std::vector<std::string> classes, std::int64_t side, std::vector<std::string> remarks)
    : store_(std::move(store)),
      examples_(std::move(examples)),
      classes_(std::move(classes)),
      shape_{3, side, side},
      normaliser_(shape_, imagenet_normalisation),
      remarks_(std::move(remarks)) {}

std::string PictureSet::meaning() const { return fmt::format("the classes {}", fmt::join(classes_, ", ")); }

void PictureSet::read(std::size_t index, std::span<float> image, std::int64_t& label) const {
  read_view(index, nullptr, image, label);
}

void PictureSet::read_crop(std::size_t index, Philox& random, std::span<float> image, std::int64_t& label) const {
  read_view(index, &random, image, label);
}

void PictureSet::read_view(std::size_t index, Philox* random, std::span<float> image, std::int64_t& label) const {
  if (index >= examples_.size() || image.size() != shape_.size()) throw std::out_of_range("PictureSet::read");
  thread_local std::vector<std::byte> bytes;
  thread_local ViewReader views;
  const std::size_t stored = examples_[index];
  store_->read(stored, bytes);
  try {
    const std::unique_ptr<Picture> picture = open_picture(bytes);
    std::size_t width = picture->width(), height = picture->height();
    if (picture->orientation() >= 5) std::swap(width, height);
    const auto side = static_cast<std::size_t>(shape_.width);
    const View view = random != nullptr ? random_view(width, height, side, *random) : middle_view(width, height, side);
    normaliser_.apply_to_pixels(views.read(*picture, view), image);
  } catch (const FileError& error) {
    throw FileError(store_->name(stored) + ": " + error.what() + "; it could be decoded before");
  }
  keep_small(bytes);
  label = store_->label(stored);
}

std::unique_ptr<Dataset> make_picture_set(const DataOptions& options, Split split, std::unique_ptr<PictureStore> store,
                                          CheckedPictures checked, std::vector<std::string> classes,
                                          const std::string& place) {
  if (options.strict && !checked.broken.empty()) {
    throw FileError(fmt::format("{} (one of {} pictures of {} that cannot be decoded)", checked.broken.front(),
                                checked.broken.size(), place));
  }
  chosen_size(options, split, checked.readable.size(), place);
  return std::make_unique<PictureSet>(std::move(store), std::move(checked.readable), std::move(classes),
                                      options.image_size.value_or(224),
                                      remarks_about(checked.broken, checked.tried, place));
}

}  // namespace sotto
