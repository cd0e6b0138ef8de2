#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "app/data/dataset.h"
#include "app/data/pixels.h"
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
  std::vector<std::string> broken;      // where the others are, and what is wrong with them
  std::size_t tried = 0;                // the number of pictures in both, unless only some are used
};
// Decodes all pictures once, or the first ones until `wanted` could be decoded. FileError when a file cannot be read.
CheckedPictures check_pictures(const PictureStore& store, std::size_t wanted, ThreadPool& pool);

// Pictures as square images of `side`*`side` pixels, normalised as it is usual for ImageNet.
class PictureSet final : public Dataset {
 public:
  // `examples` says which of the store's pictures are used.
  PictureSet(std::unique_ptr<PictureStore> store, std::vector<std::uint32_t> examples, std::vector<std::string> classes,
             std::int64_t side, std::vector<std::string> remarks);
  std::size_t size() const override { return examples_.size(); }
  ImageShape shape() const override { return shape_; }
  std::int64_t classes() const override { return static_cast<std::int64_t>(classes_.size()); }
  std::string class_name(std::int64_t label) const override { return classes_.at(static_cast<std::size_t>(label)); }
  std::int64_t label(std::size_t index) const override { return store_->label(examples_[index]); }
  std::vector<float> black() const override { return normaliser_.black(); }
  bool decodes() const override { return true; }
  std::string meaning() const override;
  std::vector<std::string> remarks() const override { return remarks_; }
  // Reads the middle (middle_view). FileError, which names the picture, when it cannot be decoded any more.
  void read(std::size_t index, std::span<float> image, std::int64_t& label) const override;
  void read_crop(std::size_t index, Philox& random, std::span<float> image, std::int64_t& label) const override;

 private:
  void read_view(std::size_t index, Philox* random, std::span<float> image, std::int64_t& label) const;

  std::unique_ptr<PictureStore> store_;
  std::vector<std::uint32_t> examples_;
  std::vector<std::string> classes_;  // their names
  ImageShape shape_;
  Normaliser normaliser_;
  std::vector<std::string> remarks_;
};

// The set of all readable pictures. `place` is where they are, for remarks() about broken ones. FileError for a broken
// picture with options.strict, ConfigError if there are fewer pictures than the options require.
std::unique_ptr<Dataset> make_picture_set(const DataOptions& options, Split split, std::unique_ptr<PictureStore> store,
                                          CheckedPictures checked, std::vector<std::string> classes,
                                          const std::string& place);

}  // namespace sotto
