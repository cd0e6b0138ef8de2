#include "app/data/pictures/picture_set.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "app/data/images/pixels.h"
#include "app/data/pictures/picture.h"
#include "app/data/pictures/view.h"
#include "sotto/core/file.h"
#include "sotto/core/open_file.h"

namespace sotto {
namespace {

std::vector<std::string> remarks_about(const CheckedPictures& checked, const std::string& place) {
  constexpr std::size_t most_named = 20;
  const std::vector<std::string>& broken = checked.broken;
  if (broken.empty()) return {};
  std::vector<std::string> remarks{
      fmt::format("{} of {} pictures of {} cannot be decoded and are left out; with {} they are an error",
                  broken.size(), checked.tried, place, named("strict"))};
  remarks.insert(remarks.end(), broken.begin(),
                 broken.begin() + static_cast<std::ptrdiff_t>(std::min(broken.size(), most_named)));
  if (broken.size() > most_named) remarks.push_back(fmt::format("and {} more", broken.size() - most_named));
  return remarks;
}

class PictureSet final : public Dataset {
 public:
  // `examples` says which of the store's pictures are used.
  PictureSet(std::unique_ptr<PictureStore> store, std::vector<std::uint32_t> examples, std::vector<std::string> classes,
             std::int64_t side, std::vector<std::string> remarks)
      : store_(std::move(store)),
        examples_(std::move(examples)),
        classes_(std::move(classes)),
        shape_{3, side, side},
        normaliser_(shape_, imagenet_normalisation),
        remarks_(std::move(remarks)) {}

  std::size_t size() const override { return examples_.size(); }
  ImageShape shape() const override { return shape_; }
  std::int64_t classes() const override { return static_cast<std::int64_t>(classes_.size()); }
  std::string class_name(std::int64_t label) const override { return classes_.at(static_cast<std::size_t>(label)); }
  std::int64_t label(std::size_t index) const override { return store_->label(examples_[index]); }
  std::vector<float> black() const override { return normaliser_.black(); }
  bool decodes() const override { return true; }
  std::string meaning() const override { return fmt::format("the classes {}", fmt::join(classes_, ", ")); }
  std::vector<std::string> remarks() const override { return remarks_; }
  void read(std::size_t index, std::span<float> image, std::int64_t& label) const override {
    read_view(index, nullptr, image, label);
  }
  void read_crop(std::size_t index, Philox& random, std::span<float> image, std::int64_t& label) const override {
    read_view(index, &random, image, label);
  }

 private:
  void read_view(std::size_t index, Philox* random, std::span<float> image, std::int64_t& label) const {
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
      const View view =
          random != nullptr ? random_view(width, height, side, *random) : middle_view(width, height, side);
      normaliser_.apply_to_pixels(views.read(*picture, view), image);
    } catch (const FileError& error) {
      throw FileError(store_->name(stored) + ": " + error.what() + "; it could be decoded before");
    }
    keep_small(bytes);
    label = store_->label(stored);
  }

  std::unique_ptr<PictureStore> store_;
  std::vector<std::uint32_t> examples_;
  std::vector<std::string> classes_;  // their names
  ImageShape shape_;
  Normaliser normaliser_;
  std::vector<std::string> remarks_;
};

// Decodes the pictures in order, each once, until `wanted` of them are readable or none is left. FileError when a file
// cannot be read.
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

namespace fs = std::filesystem;

// The entries whose names do not begin with a dot, in the order of their bytes.
std::vector<fs::directory_entry> entries_of(const fs::path& folder) try {
  std::vector<fs::directory_entry> entries;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (!entry.path().filename().native().starts_with('.')) entries.push_back(entry);
  }
  std::ranges::sort(entries, {}, [](const fs::directory_entry& entry) { return entry.path().native(); });
  return entries;
} catch (const fs::filesystem_error& error) {
  throw FileError(fmt::format("{}: {}", folder.string(), error.code().message()));
}

bool is_folder(const fs::directory_entry& entry) {
  std::error_code unknown;
  return entry.is_directory(unknown);
}

std::vector<std::string> classes_in(const fs::path& folder) {
  std::vector<std::string> classes;
  for (const fs::directory_entry& entry : entries_of(folder)) {
    if (!is_folder(entry)) {
      throw FileError(fmt::format("{}: is not in the folder of a class; pictures are in {}", entry.path().string(),
                                  (folder / "CLASS").string()));
    }
    classes.push_back(entry.path().filename().string());
  }
  if (classes.empty()) throw FileError(fmt::format("{}: holds no folders of classes", folder.string()));
  return classes;
}

bool ends_as_picture(std::string name) {
  std::ranges::transform(name, name.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return name.ends_with(".jpg") || name.ends_with(".jpeg") || name.ends_with(".png");
}

std::vector<std::string> pictures_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : entries_of(folder)) {
    std::error_code unknown;
    const std::string name = entry.path().filename().string();
    if (!ends_as_picture(name)) {
      throw FileError(fmt::format("{}: is no picture; a class has files that end in .jpg, .jpeg or .png alone",
                                  entry.path().string()));
    }
    if (!entry.is_regular_file(unknown)) {
      throw FileError(fmt::format("{}: is {}", entry.path().string(),
                                  is_folder(entry)        ? "a folder, and not a picture"
                                  : entry.exists(unknown) ? "not a regular file"
                                                          : "a link that leads to no readable file"));
    }
    names.push_back(name);
  }
  if (names.empty()) throw FileError(fmt::format("{}: this class has no pictures", folder.string()));
  return names;
}

fs::path split_folder(const fs::path& folder, Split split) {
  fs::path train = folder / "train", val = folder / "val", test = folder / "test";
  if (!path_exists(train)) {
    throw FileError(fmt::format("{}: there is no such folder; pictures are in {}", train.string(),
                                (train / "CLASS" / "NAME.jpg").string()));
  }
  if (split == Split::train) return train;
  if (path_exists(val)) return val;
  if (path_exists(test)) return test;
  throw FileError(fmt::format("{}: there is no such folder, and no {}", val.string(), test.string()));
}

class FolderStore final : public PictureStore {
 public:
  explicit FolderStore(FolderListing listing) : listing_(std::move(listing)) {}
  std::size_t size() const override { return listing_.files.size(); }
  std::string name(std::size_t index) const override { return listing_.path(index).string(); }
  std::int64_t label(std::size_t index) const override { return listing_.files[index].label; }
  void read(std::size_t index, std::vector<std::byte>& bytes) const override {
    const FileReader file(listing_.path(index));
    bytes.resize(file.size());
    file.read(0, bytes);
  }

 private:
  FolderListing listing_;
};

}  // namespace

std::unique_ptr<Dataset> make_picture_set(const DataOptions& options, Split split, std::unique_ptr<PictureStore> store,
                                          CheckedPictures checked, std::vector<std::string> classes,
                                          const std::string& place) {
  if (options.strict && !checked.broken.empty()) {
    throw FileError(fmt::format("{} (one of {} pictures of {} that cannot be decoded)", checked.broken.front(),
                                checked.broken.size(), place));
  }
  chosen_size(options, split, checked.readable.size(), place);
  return std::make_unique<PictureSet>(std::move(store), std::move(checked.readable), std::move(classes),
                                      options.image_size.value_or(224), remarks_about(checked, place));
}

FolderListing list_folder(const fs::path& folder, Split split) {
  FolderListing listing{split_folder(folder, split), classes_in(folder / "train"), {}};
  std::vector<std::vector<std::string>> names(listing.classes.size());
  std::size_t most = 0;
  for (const std::string& name : split == Split::train ? listing.classes : classes_in(listing.folder)) {
    const auto known = std::ranges::lower_bound(listing.classes, name);
    if (known == listing.classes.end() || *known != name) {
      const std::vector<std::string_view> all(listing.classes.begin(), listing.classes.end());
      throw FileError(fmt::format("{}: {} has no class of this name: {}", (listing.folder / name).string(),
                                  (folder / "train").string(), unknown_name("class", name, all)));
    }
    auto& its = names[static_cast<std::size_t>(known - listing.classes.begin())];
    its = pictures_in(listing.folder / name);
    most = std::max(most, its.size());
  }
  for (std::size_t place = 0; place < most; ++place) {
    for (std::uint32_t label = 0; label < names.size(); ++label) {
      if (place < names[label].size()) listing.files.push_back({label, std::move(names[label][place])});
    }
  }
  if (listing.files.size() > std::numeric_limits<std::uint32_t>::max()) {
    throw FileError(fmt::format("{}: has more than 2^32 pictures", listing.folder.string()));
  }
  return listing;
}

void require_all_classes(const FolderListing& listing, std::span<const std::size_t> readable) {
  const auto lacking = std::ranges::find(readable, 0U);
  if (lacking == readable.end()) return;
  const std::string& name = listing.classes[static_cast<std::size_t>(lacking - readable.begin())];
  throw FileError(
      fmt::format("{}: none of the pictures of this class can be decoded", (listing.folder / name).string()));
}

std::unique_ptr<PictureStore> folder_store(FolderListing listing) {
  return std::make_unique<FolderStore>(std::move(listing));
}

std::unique_ptr<Dataset> open_image_folder(const DataOptions& options, Split split) {
  const FolderListing listing = list_folder(options.data_dir, split);
  const std::string folder = listing.folder.string();
  std::unique_ptr<PictureStore> store = folder_store(listing);
  const std::size_t wanted = chosen_size(options, split, store->size(), folder);
  ThreadPool pool(static_cast<int>(options.data_threads.value_or(1)));
  CheckedPictures checked = check_pictures(*store, wanted, pool);
  if (split == Split::train && checked.tried == store->size()) {
    std::vector<std::size_t> of_class(listing.classes.size());
    for (const std::uint32_t index : checked.readable) ++of_class[listing.files[index].label];
    require_all_classes(listing, of_class);
  }
  return make_picture_set(options, split, std::move(store), std::move(checked), listing.classes, folder);
}

}  // namespace sotto
