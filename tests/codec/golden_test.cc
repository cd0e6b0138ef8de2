// Compares our bytes with the bytes of tools/golden.py, an independent program.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "sotto/codec/stages.h"
#include "tests/codec/fixture.h"

namespace sotto::testing {

const char* golden_dir();  // golden_dir.cc

namespace {

struct Golden {
  std::string codec;
  std::string compare = "bytes";  // or the decoded values: "decoded" exactly, "near" but for rounding of sums
  std::vector<Segment> segments;
  std::size_t size = 0;
  Key key;
  std::uint16_t bucket = 0;
  std::size_t part_number = 0;
  Range part;
  std::vector<float> input, decoded;
  std::vector<std::byte> message;
};

std::vector<std::int64_t> read_shape(const std::string& text) {
  std::vector<std::int64_t> shape;
  std::stringstream stream(text == "-" ? "" : text);
  for (std::string number; std::getline(stream, number, 'x');) shape.push_back(std::stoll(number));
  return shape;
}

void add_floats(const std::string& line, std::vector<float>& out) {
  std::istringstream words(line);
  for (std::string word; words >> word;) {  // the bits of a float, or bits*times
    const auto times = word.find('*') == std::string::npos ? 1 : std::stoul(word.substr(word.find('*') + 1));
    out.insert(out.end(), times, std::bit_cast<float>(static_cast<std::uint32_t>(std::stoul(word, nullptr, 16))));
  }
}

Golden read_golden(const std::filesystem::path& path) {
  Golden golden;
  std::ifstream file(path);
  std::string section;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string word;
    words >> word;
    if (word == "input" || word == "message" || word == "decoded") {
      section = word;
    } else if (section == "input") {
      add_floats(line, golden.input);
    } else if (section == "decoded") {
      add_floats(line, golden.decoded);
    } else if (section == "message") {
      for (std::size_t i = 0; i + 1 < line.size(); i += 2) {
        golden.message.push_back(static_cast<std::byte>(std::stoul(line.substr(i, 2), nullptr, 16)));
      }
    } else if (word == "sentence") {
      golden.codec = line.substr(word.size() + 1);
    } else if (word == "compare") {
      words >> golden.compare;
    } else if (word == "segment") {
      Segment segment;
      std::string shape;
      words >> segment.name >> segment.offset >> shape;
      segment.shape = read_shape(shape);
      golden.segments.push_back(segment);
    } else if (word == "size") {
      words >> golden.size;
    } else if (word == "key") {
      words >> golden.key.seed >> golden.key.rank >> golden.key.generation >> golden.key.step >> golden.bucket;
    } else if (word == "part") {
      words >> golden.part_number >> golden.part.begin >> golden.part.end;
    }
  }
  return golden;
}

std::vector<std::filesystem::path> golden_files() {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(golden_dir())) paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  return paths;
}

class GoldenFile : public ::testing::TestWithParam<std::filesystem::path> {};

TEST_P(GoldenFile, IsWhatWeWriteAndRead) {
  const Golden golden = read_golden(GetParam());
  const Layout layout(golden.segments, golden.size);
  ASSERT_EQ(golden.input.size(), golden.size);
  ASSERT_EQ(golden.decoded.size(), golden.size);
  const auto codec = make_codec(read_stages(golden.codec));
  EXPECT_EQ(codec->traits().text, golden.codec);

  std::vector<Range> parts(golden.part_number, Range{0, golden.part.begin});
  parts.push_back(golden.part);
  const auto messages = encode_parts(*codec, {golden.codec, layout, golden.input}, parts, golden.key, golden.bucket);
  const auto ours = messages.back().bytes();
  if (golden.compare == "bytes") {
    EXPECT_TRUE(std::equal(ours.begin(), ours.end(), golden.message.begin(), golden.message.end()));
  }

  for (const std::span<const std::byte> message : {std::span<const std::byte>(golden.message), ours}) {
    const auto view = MessageView::parse(message);
    view.expect({golden.key.generation, golden.key.rank, golden.key.step, golden.bucket,
                 static_cast<std::uint16_t>(golden.part_number)});
    std::vector<float> out(golden.size);
    add_part(*codec, layout, golden.part, message, 1, out);
    if (golden.compare == "near") {
      EXPECT_LE(square_distance(out, golden.decoded), 1e-10 * square_norm(golden.decoded));
    } else {
      EXPECT_EQ(out, golden.decoded);
    }
  }
}

std::string name_of_file(const ::testing::TestParamInfo<std::filesystem::path>& file) {
  std::string name = file.param.stem().string();
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}
INSTANTIATE_TEST_SUITE_P(All, GoldenFile, ::testing::ValuesIn(golden_files()), name_of_file);

TEST(Golden, HasEveryStageOfTheTable) {
  for (const StageEntry& stage : stage_table()) {
    EXPECT_TRUE(
        std::filesystem::exists(std::filesystem::path(golden_dir()) / ("small-" + std::string(stage.name) + ".hex")))
        << stage.name;
  }
}

}  // namespace
}  // namespace sotto::testing
