#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "app/data/dataset.h"
#include "app/data/picture_set.h"

namespace sotto {

// The contents of one split of a folder of pictures.
struct FolderListing {
  std::filesystem::path folder;      // train, val or test
  std::vector<std::string> classes;  // the folders in train, in the order of their bytes; a label is a place there
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

// ImageNet's layout of files in the folder options.data_dir, or a pack (picture_pack.h). All pictures of a folder are
// decoded once when the set is opened. Those that cannot be are left out and named in remarks(), or a FileError with
// options.strict.
std::unique_ptr<Dataset> open_image_folder(const DataOptions& options, Split split);

}  // namespace sotto
