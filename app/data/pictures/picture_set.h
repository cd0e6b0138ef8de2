#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "app/data/images/dataset.h"
#include "sotto/core/thread_pool.h"

namespace sotto {

// Where the bytes of labelled pictures come from. Several threads may read at once.
class PictureStore {
 public:
  virtual ~PictureStore() = default;
  virtual std::size_t size() const = 0;
  virtual std::string name(std::size_t index) const = 0;  // where the picture is, for errors
  virtual std::int64_t label(std::size_t index) const = 0;
  // FileError, which names the file, when it cannot be read.
  virtual void read(std::size_t index, std::vector<std::byte>& bytes) const = 0;
};

// The pictures that can be decoded. That depends on their bytes alone, so all ranks and epochs have the same examples.
struct CheckedPictures {
  std::vector<std::uint32_t> readable;  // in ascending order
  std::vector<std::string> broken;      // for each other picture, where it is and what is wrong with it
  std::size_t tried = 0;                // the number of readable and broken pictures, unless only some of them are used
};

// All readable pictures as square images of options.image_size pixels, normalised as it is usual for ImageNet. `place`
// names the set in remarks() about broken pictures. FileError for a broken picture with options.strict, ConfigError if
// there are fewer pictures than the options require. read() gives the middle of a picture (middle_view). FileError,
// which names the picture, if it cannot be decoded any more.
std::unique_ptr<Dataset> make_picture_set(const DataOptions& options, Split split, std::unique_ptr<PictureStore> store,
                                          CheckedPictures checked, std::vector<std::string> classes,
                                          const std::string& place);

// The contents of one split of a folder of pictures.
struct FolderListing {
  std::filesystem::path folder;      // train, val or test
  std::vector<std::string> classes;  // the folders in train, ordered by the bytes of their names; a label is an index
  struct File {
    std::uint32_t label;
    std::string name;
  };
  // The first file of each class, then the second, and so on; so the first files include all classes.
  std::vector<File> files;

  std::filesystem::path path(std::size_t index) const {
    return folder / classes[files[index].label] / files[index].name;
  }
};

// Lists DIR/train/CLASS/NAME, or DIR/val/CLASS/NAME (DIR/test where there is no DIR/val), for names that end in .jpg,
// .jpeg or .png. Names that begin with a dot are ignored. FileError, which names the path, for any other file, a class
// without pictures, and a class that train lacks.
FolderListing list_folder(const std::filesystem::path& folder, Split split);

// FileError, which names the folder, for a class without readable pictures. `readable` has their number for each class.
void require_all_classes(const FolderListing& listing, std::span<const std::size_t> readable);

// The files of a listing.
std::unique_ptr<PictureStore> folder_store(FolderListing listing);

// ImageNet's layout of files in the folder options.data_dir. All pictures are decoded once when the set is opened.
// A picture that cannot be decoded is left out and named in remarks(); with options.strict it is a FileError.
std::unique_ptr<Dataset> open_image_folder(const DataOptions& options, Split split);

}  // namespace sotto
