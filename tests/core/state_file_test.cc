#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>

#include "helpers.h"
#include "sotto/core/error.h"
#include "sotto/core/file.h"
#include "sotto/core/state_file.h"

namespace sotto {
namespace {

using test::error_of;
using test::TemporaryFolder;

struct Component {
  std::vector<float> residual;
  std::vector<std::uint8_t> table;
  std::uint64_t step = 0;

  void visit_state(StateVisitor& v) {
    v.visit("residual", residual);
    v.visit("table", table);
    v.visit("step", step);
  }
  bool operator==(const Component&) const = default;
};

const Component sample{{1.5F, -0.0F, 1e-45F}, {1, 2, 255, 0, 7}, 0x0123456789ABCDEFULL};

std::filesystem::path write_sample(const TemporaryFolder& folder) {
  Component component = sample;
  StateWriter writer(folder / "state", "lenet, step 7");
  component.visit_state(writer);
  writer.finish();
  return folder / "state";
}

TEST(StateFile, RoundTrip) {
  const TemporaryFolder folder;
  StateReader reader(write_sample(folder));
  EXPECT_EQ(reader.text(), "lenet, step 7");
  Component fresh{{9, 9, 9}, {}, 1};  // vectors have the right length, or are empty
  fresh.visit_state(reader);
  reader.finish();
  EXPECT_EQ(fresh, sample);
  EXPECT_TRUE(std::signbit(fresh.residual[1]));
}

TEST(StateFile, EmptyVectorsNothingAtAllAndBorrowedOnes) {
  const TemporaryFolder folder;
  StateWriter(folder / "nothing").finish();
  StateReader nothing(folder / "nothing");
  EXPECT_EQ(nothing.text(), "");
  nothing.finish();

  Component component;
  std::vector<float> parameters(1000, std::numeric_limits<float>::quiet_NaN());
  StateWriter writer(folder / "state");
  component.visit_state(writer);
  writer.add("parameters", parameters);
  writer.finish();
  StateReader reader(folder / "state");
  Component fresh{{}, {}, 1};
  fresh.visit_state(reader);
  EXPECT_EQ(fresh, component);
  std::vector<float> back(1000);
  reader.get("parameters", back);
  reader.finish();
  EXPECT_EQ(std::memcmp(back.data(), parameters.data(), 4000), 0);
}

TEST(StateFile, ScopesKeepComponentsApart) {
  const TemporaryFolder folder;
  Component a = sample, b = sample;
  b.step = 5;
  StateWriter writer(folder / "state");
  const auto visit_both = [](StateVisitor& v, Component& first, Component& second) {
    ScopedState first_scope(v, "bucket 0"), second_scope(v, "bucket 1");
    first.visit_state(first_scope);
    second.visit_state(second_scope);
  };
  visit_both(writer, a, b);
  writer.finish();
  StateReader reader(folder / "state");
  Component c, d;
  visit_both(reader, c, d);
  reader.finish();
  EXPECT_EQ(c, a);
  EXPECT_EQ(d, b);
}

TEST(StateFile, LongVectorsAreWrittenAndHashedAsTheyStand) {
  const TemporaryFolder folder;
  std::vector<float> odd(700'001), whole(1 << 19), shorter(1000);
  for (std::vector<float>* values : {&odd, &whole, &shorter}) {
    for (std::size_t i = 0; i < values->size(); ++i) (*values)[i] = static_cast<float>(i * values->size() % 1021);
  }
  std::string hash;
  for (const int threads : {1, 3}) {
    ThreadPool pool(threads);
    StateWriter writer(folder / "state", "long", pool);
    writer.visit("odd", odd);
    writer.visit("shorter", shorter);
    writer.visit("whole", whole);
    hash = writer.finish();
    EXPECT_EQ(hash, block_hash(read_file(folder / "state"), pool));
    EXPECT_EQ(hash, block_hash_of_file(folder / "state", pool));
  }
  StateReader reader(folder / "state");
  std::vector<float> a, b, c;
  reader.visit("whole", c);
  reader.visit("odd", a);
  reader.visit("shorter", b);
  EXPECT_TRUE(a == odd && b == shorter && c == whole);
}

TEST(StateFile, WithoutAnEndThereIsNoFile) {
  const TemporaryFolder folder;
  {
    StateWriter writer(folder / "state");
    writer.add("values", std::vector<float>(10));
  }
  EXPECT_EQ(folder.entries(), 0U);
}

// The expected hash is made block by block, as `split -b 1M` and `sha256sum` would.
TEST(BlockHash, IsTheHashOfTheHashesOfBlocks) {
  std::vector<std::byte> bytes((std::size_t{5} << 19) + 3);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * i >> 7);
  std::vector<std::byte> digests;
  for (std::size_t at = 0; at < bytes.size(); at += std::size_t{1} << 20) {
    const std::string hex = sha256_hex(std::span(bytes).subspan(at, std::min(bytes.size() - at, std::size_t{1} << 20)));
    for (std::size_t i = 0; i < hex.size(); i += 2) {
      digests.push_back(static_cast<std::byte>(std::stoi(hex.substr(i, 2), nullptr, 16)));
    }
  }
  const std::string wanted = sha256_hex(digests);
  ThreadPool one(1), four(4);
  EXPECT_EQ(block_hash(bytes, one), wanted);
  EXPECT_EQ(block_hash(bytes, four), wanted);
  BlockHash pieces(four);
  for (std::size_t at = 0, size = 1; at < bytes.size(); at += size, size = size * 5 % 1'500'000 + 1) {
    pieces.add(std::span(bytes).subspan(at, std::min(size, bytes.size() - at)));
  }
  EXPECT_EQ(pieces.hex(), wanted);
  EXPECT_EQ(block_hash({}, one), sha256_hex({}));
}

TEST(StateFile, ANameIsWrittenOnce) {
  const TemporaryFolder folder;
  StateWriter writer(folder / "state");
  std::uint64_t value = 1;
  writer.visit("step", value);
  EXPECT_THROW(writer.visit("step", value), std::logic_error);
}

TEST(StateFile, AnotherComponentsStateIsRefused) {
  const TemporaryFolder folder;
  const std::string start = "cannot use " + write_sample(folder).string() + ": ";
  StateReader reader(folder / "state");
  std::vector<float> floats;
  std::vector<std::uint8_t> bytes;
  std::uint64_t number = 3;
  EXPECT_EQ(error_of<FileError>([&] { reader.visit("momentum", floats); }), start + "section momentum is missing");
  EXPECT_EQ(error_of<FileError>([&] { reader.visit("residual", bytes); }),
            start + "section residual is floats, and should be bytes");
  EXPECT_EQ(error_of<FileError>([&] { reader.visit("residual", number); }),
            start + "section residual is floats, and should be a number");
  EXPECT_EQ(error_of<FileError>([&] { reader.visit("step", floats); }),
            start + "section step is a number, and should be floats");
  floats.assign(4, 2.0F);
  EXPECT_EQ(error_of<FileError>([&] { reader.visit("residual", floats); }),
            start + "section residual has 3 values, and should have 4");
  EXPECT_EQ(error_of<FileError>([&] { reader.get("residual", {}); }),
            start + "section residual has 3 values, and should have 0");
  bytes.assign(6, 2);
  EXPECT_EQ(error_of<FileError>([&] { reader.visit("table", bytes); }),
            start + "section table has 5 values, and should have 6");
  EXPECT_EQ(floats, std::vector<float>(4, 2.0F));  // a refused section changes nothing
  EXPECT_EQ(number, 3U);
}

TEST(StateFile, SurplusSectionsAreFoundAtTheEnd) {
  const TemporaryFolder folder;
  StateReader reader(write_sample(folder));
  std::uint64_t number = 0;
  std::vector<float> floats;
  reader.visit("step", number);
  reader.visit("residual", floats);
  EXPECT_NE(error_of<FileError>([&] { reader.finish(); }).find("section table belongs to nothing"), std::string::npos);
}

TEST(StateFile, EveryTruncationAndBitFlipIsFound) {
  const TemporaryFolder folder;
  const std::vector<std::byte> good = read_file(write_sample(folder));
  const auto refused = [&](const std::vector<std::byte>& bytes) {
    std::ofstream(folder / "bad", std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    const std::string message = error_of<FileError>([&] { StateReader reader(folder / "bad"); });
    EXPECT_NE(message.find((folder / "bad").string()), std::string::npos) << message;
  };
  for (std::size_t size = 0; size < good.size(); ++size)
    refused({good.begin(), good.begin() + static_cast<long>(size)});
  for (std::size_t bit = 0; bit < 8 * good.size(); ++bit) {
    auto bad = good;
    bad[bit / 8] ^= std::byte{1} << (bit % 8);
    refused(bad);
  }
  auto longer = good;
  longer.push_back(std::byte{0});
  refused(longer);
  error_of<FileError>([&] { StateReader reader(folder / "missing"); });
}

// Builds files by hand: first the bytes that state_file.h describes, then hostile ones with a right checksum.
class Forged {
 public:
  template <class T>
  Forged& put(T value) {
    body_.append(reinterpret_cast<const char*>(&value), sizeof(value));
    return *this;
  }
  Forged& text(std::string_view text) {
    put(static_cast<std::uint32_t>(text.size()));
    body_ += text;
    return *this;
  }
  std::string file() const {
    const std::uint64_t size = 12 + body_.size() + 13;
    const std::uint32_t version = 2;
    std::string all = "sottosta";
    all.append(reinterpret_cast<const char*>(&version), 4);
    all += body_ + '\0';
    all.append(reinterpret_cast<const char*>(&size), 8);
    const std::uint32_t sum = crc32(all);
    all.append(reinterpret_cast<const char*>(&sum), 4);
    return all;
  }

 private:
  static std::uint32_t crc32(std::string_view text) {
    std::uint32_t crc = 0xFFFFFFFFU;
    for (const char c : text) {
      crc ^= static_cast<unsigned char>(c);
      for (int i = 0; i < 8; ++i) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xEDB88320U : 0);
    }
    return ~crc;
  }
  std::string body_;
};

TEST(StateFile, HasTheDocumentedBytes) {
  const TemporaryFolder folder;
  Forged forged;
  forged.text("lenet, step 7");
  forged.put<std::uint8_t>(1).text("residual").put<std::uint64_t>(3);
  for (const float value : sample.residual) forged.put(value);
  forged.put<std::uint8_t>(2).text("table").put<std::uint64_t>(5);
  for (const std::uint8_t value : sample.table) forged.put(value);
  forged.put<std::uint8_t>(3).text("step").put<std::uint64_t>(1).put(sample.step);
  EXPECT_EQ(read_text(write_sample(folder)), forged.file());
}

TEST(StateFile, HostileLengthsAreFoundBehindAValidChecksum) {
  const TemporaryFolder folder;
  const auto refused = [&](const Forged& forged, const char* reason) {
    write_file_atomic(folder / "bad", forged.file());
    EXPECT_EQ(error_of<FileError>([&] { StateReader reader(folder / "bad"); }),
              "cannot use " + (folder / "bad").string() + ": " + reason);
  };
  const auto section = [](std::uint8_t kind, std::uint64_t count) {
    return Forged().text("").put(kind).text("x").put(count).put<std::uint32_t>(0);
  };
  refused(Forged().put(0xFFFFFFFFU), "truncated text: 4294967295 bytes wanted, 0 left");
  refused(section(1, 2), "section x is malformed");
  refused(section(1, 1ULL << 62), "section x is malformed");
  refused(section(2, ~0ULL), "section x is malformed");
  refused(section(3, 1), "section x is malformed");
  refused(section(3, 0), "section x is malformed");
  refused(section(4, 1), "section x is malformed");
  refused(section(0, 1), "section x is malformed");
  refused(section(1, 1).put<std::uint8_t>(1).put<std::uint32_t>(9),
          "truncated name of a section: 9 bytes wanted, 0 left");
  refused(section(1, 1).put<std::uint8_t>(1).text("x").put<std::uint64_t>(0), "section x is there twice");
}

}  // namespace
}  // namespace sotto
