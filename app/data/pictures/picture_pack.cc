#include "app/data/pictures/picture_pack.h"

#include <fmt/format.h>
#include <libdeflate.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "app/data/pictures/picture.h"
#include "app/data/pictures/picture_set.h"
#include "app/data/unpack.h"
#include "sotto/core/bytes.h"
#include "sotto/core/error.h"
#include "sotto/core/open_file.h"

namespace sotto {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view pack_head("sotto pictures\1\n", 16), pack_tail("packed\1\n", 8);
constexpr std::size_t pack_foot = 8 + 8 + 4 + pack_tail.size();

std::uint32_t crc_of(std::span<const std::byte> bytes) { return libdeflate_crc32(0, bytes.data(), bytes.size()); }
std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

// A growing array of bytes.
struct Growing {
  std::vector<std::byte> bytes;

  void put_bytes(std::span<const std::byte> more) { bytes.insert(bytes.end(), more.begin(), more.end()); }
  template <class T>
  void put(T value) {
    put_bytes(std::as_bytes(std::span(&value, 1)));
  }
  void put_text(std::string_view text) {
    put(static_cast<std::uint32_t>(text.size()));
    put_bytes(bytes_of(text));
  }
};

std::string_view get_text(ByteReader& reader, const char* what) {
  return as_text(reader.take(reader.get<std::uint32_t>(what), what));
}

// One split, as in the index.
struct PackedSplit {
  struct Item {
    std::uint64_t begin;
    std::uint32_t length, crc, label;
    std::uint32_t name_length;
    std::uint64_t name;  // where it begins in `names`
  };
  std::string folder, names;
  std::vector<Item> items;
  std::vector<std::string> broken;
};

PackedSplit read_split(ByteReader& reader, std::size_t classes, std::uint64_t end) {
  PackedSplit split;
  split.folder = get_text(reader, "the name of a folder");
  const auto count = reader.get<std::uint64_t>("the number of pictures");
  constexpr std::size_t least = 8 + 4 + 4 + 4 + 4;  // bytes of a picture in the index
  if (count > reader.left() / least || count > std::numeric_limits<std::uint32_t>::max()) {
    throw WireError(fmt::format("{} pictures are more than the index has room for", count));
  }
  split.items.reserve(count);
  for (std::uint64_t i = 0; i < count; ++i) {
    PackedSplit::Item item{};
    item.begin = reader.get<std::uint64_t>("where a picture begins");
    item.length = reader.get<std::uint32_t>("the length of a picture");
    item.crc = reader.get<std::uint32_t>("the checksum of a picture");
    item.label = reader.get<std::uint32_t>("the class of a picture");
    const std::string_view name = get_text(reader, "the name of a picture");
    item.name = split.names.size();
    item.name_length = static_cast<std::uint32_t>(name.size());
    split.names += name;
    if (item.label >= classes)
      throw WireError(fmt::format("class {} of picture {} is not in 0..{}", item.label, i, classes - 1));
    if (item.begin < pack_head.size() || item.begin > end || end - item.begin < item.length) {
      throw WireError(fmt::format("picture {} is not where pictures are", i));
    }
    split.items.push_back(item);
  }
  const auto broken = reader.get<std::uint32_t>("the number of broken pictures");
  for (std::uint32_t i = 0; i < broken; ++i)
    split.broken.emplace_back(get_text(reader, "what is wrong with a picture"));
  return split;
}

class PackStore final : public PictureStore {
 public:
  PackStore(fs::path path, Split split) : path_(std::move(path)), file_(path_) {
    try {
      read_index(split);
    } catch (const WireError& error) {
      throw FileError(fmt::format("{}: {}; make it again", path_.string(), error.what()));
    }
  }
  std::size_t size() const override { return split_.items.size(); }
  const std::vector<std::string>& classes() const { return classes_; }
  const std::vector<std::string>& broken() const { return split_.broken; }
  std::string place() const { return fmt::format("{} ({})", path_.string(), split_.folder); }
  std::string name(std::size_t index) const override {
    const PackedSplit::Item& item = split_.items[index];
    return fmt::format("{}: {}/{}", path_.string(), split_.folder,
                       std::string_view(split_.names).substr(item.name, item.name_length));
  }
  std::int64_t label(std::size_t index) const override { return split_.items[index].label; }
  void read(std::size_t index, std::vector<std::byte>& bytes) const override {
    const PackedSplit::Item& item = split_.items[index];
    bytes.resize(item.length);
    file_.read(item.begin, bytes);
    if (crc_of(bytes) != item.crc) {
      throw FileError(
          fmt::format("{}: its checksum is wrong: the pack is damaged at {} bytes from byte {} on; make it again",
                      name(index), item.length, item.begin));
    }
  }

 private:
  void read_index(Split split) {
    std::vector<std::byte> head(std::min<std::uint64_t>(pack_head.size(), file_.size()));
    file_.read(0, head);
    if (!std::ranges::equal(head, bytes_of(pack_head))) {
      throw FileError(fmt::format("{}: is neither a folder of pictures nor a pack of them", path_.string()));
    }
    if (file_.size() < pack_head.size() + pack_foot) throw WireError("truncated");
    std::vector<std::byte> foot(pack_foot);
    const std::uint64_t foot_begin = file_.size() - pack_foot;
    file_.read(foot_begin, foot);
    ByteReader reader(foot);
    const auto begin = reader.get<std::uint64_t>("its end"), length = reader.get<std::uint64_t>("its end");
    const auto crc = reader.get<std::uint32_t>("its end");
    if (!std::ranges::equal(reader.rest(), bytes_of(pack_tail))) throw WireError("truncated, or its end is damaged");
    if (begin < pack_head.size() || begin > foot_begin || length != foot_begin - begin) {
      throw WireError("its end is damaged");
    }
    std::vector<std::byte> index(length);
    file_.read(begin, index);
    if (crc_of(index) != crc) throw WireError("its index is damaged");
    ByteReader content(index);
    const auto classes = content.get<std::uint32_t>("the number of classes");
    if (classes == 0) throw WireError("it has no classes");
    for (std::uint32_t i = 0; i < classes; ++i) classes_.emplace_back(get_text(content, "the name of a class"));
    split_ = read_split(content, classes, begin);
    PackedSplit tests = read_split(content, classes, begin);
    content.finish("the index");
    if (split == Split::test) split_ = std::move(tests);
  }

  fs::path path_;
  FileReader file_;
  std::vector<std::string> classes_;
  PackedSplit split_;
};

}  // namespace

std::optional<PackReport> write_picture_pack(const fs::path& folder, const fs::path& file, bool strict,
                                             ThreadPool& pool, const PackProgress& progress) {
  constexpr std::size_t at_once = 64;
  PackReport report;
  const std::array listings{list_folder(folder, Split::train), list_folder(folder, Split::test)};
  const std::size_t all = listings[0].files.size() + listings[1].files.size();
  Growing index;
  index.put(static_cast<std::uint32_t>(listings[0].classes.size()));
  for (const std::string& name : listings[0].classes) index.put_text(name);
  AtomicFile out(file);
  out.write(bytes_of(pack_head));
  report.bytes = pack_head.size();
  std::vector<std::vector<std::byte>> contents(at_once);
  std::vector<std::string> problems(at_once);
  std::vector<std::size_t> of_class(listings[0].classes.size());  // pictures of each class in the training split
  std::size_t done = 0;
  for (std::size_t split = 0; split < 2; ++split) {
    const FolderListing& listing = listings.at(split);
    const std::unique_ptr<PictureStore> store = folder_store(listing);
    Growing items;
    Growing broken;
    std::uint32_t broken_count = 0;
    for (std::size_t begin = 0; begin < store->size(); begin += at_once) {
      const std::size_t count = std::min(at_once, store->size() - begin);
      pool.run(count, [&](std::size_t i) {
        store->read(begin + i, contents[i]);
        problems[i] = why_broken(contents[i]);
        if (contents[i].size() > std::numeric_limits<std::uint32_t>::max()) problems[i] = "it has 4 GiB or more";
      });
      for (std::size_t i = 0; i < count; ++i) {
        const std::string name = store->name(begin + i);
        if (!problems[i].empty()) {
          report.broken.push_back(name + ": " + problems[i]);
          if (strict) throw FileError(report.broken.back());
          broken.put_text(report.broken.back());
          ++broken_count;
          continue;
        }
        items.put(report.bytes);
        items.put(static_cast<std::uint32_t>(contents[i].size()));
        items.put(crc_of(contents[i]));
        items.put(static_cast<std::uint32_t>(store->label(begin + i)));
        items.put_text(listing.path(begin + i).lexically_relative(listing.folder).string());
        out.write(contents[i]);
        report.bytes += contents[i].size();
        ++report.pictures.at(split);
        if (split == 0) ++of_class[static_cast<std::size_t>(store->label(begin + i))];
      }
      done += count;
      if (!progress(done, all)) return std::nullopt;
    }
    require_all_classes(listings[0], of_class);
    index.put_text(listing.folder.filename().string());
    index.put(std::uint64_t{report.pictures.at(split)});
    index.put_bytes(items.bytes);
    index.put(broken_count);
    index.put_bytes(broken.bytes);
  }
  Growing foot;
  foot.put(report.bytes);
  foot.put(std::uint64_t{index.bytes.size()});
  foot.put(crc_of(index.bytes));
  out.write(index.bytes);
  out.write(foot.bytes);
  out.write(bytes_of(pack_tail));
  report.bytes += index.bytes.size() + pack_foot;
  out.commit();
  return report;
}

std::unique_ptr<Dataset> open_pictures(const DataOptions& options, Split split) {
  std::error_code unknown;
  if (!fs::is_regular_file(options.data_dir, unknown)) return open_image_folder(options, split);
  auto store = std::make_unique<PackStore>(options.data_dir, split);
  const std::vector<std::string> classes = store->classes();
  const std::string place = store->place();
  CheckedPictures checked{.readable = {}, .broken = store->broken(), .tried = store->size() + store->broken().size()};
  checked.readable.resize(chosen_size(options, split, store->size(), place));
  std::iota(checked.readable.begin(), checked.readable.end(), 0U);
  return make_picture_set(options, split, std::move(store), std::move(checked), classes, place);
}

void check_picture_pack(const fs::path& file, const PackProgress& progress) {
  const PackStore train(file, Split::train), test(file, Split::test);
  std::vector<std::byte> bytes;
  std::size_t done = 0;
  for (const PackStore* store : {&train, &test}) {
    for (std::size_t i = 0; i < store->size(); ++i) {
      if (!progress(done++, train.size() + test.size())) return;
      store->read(i, bytes);
    }
  }
}

}  // namespace sotto
