// A user's own networks, from libraries that are built with this test.
#include "app/model/library.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>

#include "sotto/core/file.h"
#include "tests/core/helpers.h"
#include "tests/model/batches.h"
#include "tests/support/message_of.h"

namespace sotto {
namespace {

using test::message_of;

constexpr ImageShape tiny{1, 2, 3};

std::string path_of(std::string_view name) { return std::string(LIBRARIES) + "/" + std::string(name) + ".so"; }

std::unique_ptr<ImageModel> made(const std::string& text, std::uint64_t seed = 1) {
  return make_image_model(read_library(parse_model("model", text)), tiny, 4, seed);
}

std::string refusal_of(const std::string& text) {
  return message_of([&] { made(text); });
}

std::string with(const std::string& options) { return path_of("library_fixture") + "(" + options + ")"; }

void expect_in(const std::string& text, std::string_view part) {
  EXPECT_NE(text.find(part), std::string::npos) << text << "\nlacks: " << part;
}

TEST(Library, IsTrainedAsAnyModel) {
  const auto model = made(with("hidden=5"));
  std::vector<std::string> names;
  for (const Segment& segment : model->layout().segments()) names.push_back(segment.name);
  EXPECT_EQ(names, (std::vector<std::string>{"first.weight", "first.bias", "last.weight", "last.bias"}));
  EXPECT_EQ(model->layout().numel(), 6U * 5 + 5 + 5 * 4 + 4);
  EXPECT_EQ(model->buffer_layout().numel(), 3U);

  const Noise noise(tiny, 3, 0, 4);
  std::vector<float> outputs;
  const double before = model->evaluate(noise.batch(), [&](auto values) { outputs = copy_of(values); });
  EXPECT_EQ(outputs.size(), 12U);
  const auto gradient = gradient_of(*model, noise.batch());
  EXPECT_GT(dot(gradient, gradient), 0);
  for (std::size_t i = 0; i < gradient.size(); ++i) model->parameters()[i] -= 0.01F * gradient[i];
  EXPECT_LT(model->evaluate(noise.batch()), before);
  EXPECT_EQ(model->buffers()[0], 1) << "of training alone";
}

TEST(Library, DrawsFromTheSeedAlone) {
  const auto first = made(with("hidden=5"), 3), second = made(with("hidden=5"), 3), other = made(with("hidden=5"), 4);
  EXPECT_TRUE(std::ranges::equal(first->parameters(), second->parameters()));
  EXPECT_FALSE(std::ranges::equal(first->parameters(), other->parameters()));
  const Noise noise(tiny, 3, 0, 4);
  EXPECT_EQ(gradient_of(*first, noise.batch(), 5), gradient_of(*second, noise.batch(), 5)) << "also its dropout";
  EXPECT_NE(gradient_of(*first, noise.batch(), 5), gradient_of(*first, noise.batch(), 6));
}

// No parameter may be read before it is announced, and none may be reported ready that was not announced.
TEST(Library, AnnouncesAllParameters) {
  const auto model = made(with("dropout=0"));
  std::vector<std::size_t> needed, ready;
  SegmentCalls calls;
  calls.needed = [&](std::size_t segment) { needed.push_back(segment); };
  calls.ready = [&](std::size_t segment) { ready.push_back(segment); };
  model->accumulate_gradient(Noise(tiny, 3, 0, 4).batch(), 1, 1, calls);
  for (auto* seen : {&needed, &ready}) {
    std::ranges::sort(*seen);
    EXPECT_EQ(*seen, (std::vector<std::size_t>{0, 1, 2, 3}));
  }
}

TEST(Library, ReadsPathsAndOptions) {
  for (const std::string_view path :
       {"./a.so", "a.so", "/x/y", "a.so(width=3)", "a.so(width=3", "nets/a.so", "./v(1)/a.so(w=1)"}) {
    EXPECT_TRUE(names_library(path)) << path;
  }
  for (const std::string_view name : {"lenet", "resnet(depth=18)", "so", "densenet-bc(depth=22, growth=4)", ""}) {
    EXPECT_FALSE(names_library(name)) << name;
  }
  const Expression expression = parse_model("model", "./Net.so(width=64, form=a)");
  EXPECT_EQ(expression.calls.front().name, "./Net.so");
  EXPECT_EQ(expression.calls.front().arguments.size(), 2U);
  EXPECT_EQ(with_absolute_path("./Net.so(width=64)"), (std::filesystem::current_path() / "Net.so(width=64)").string());
  EXPECT_EQ(with_absolute_path("/a/../Net.so"), "/Net.so");
}

TEST(Library, IsRefusedWhereItIsNone) {
  test::TemporaryFolder folder;
  const std::string text = (folder / "text.so").string();
  expect_in(refusal_of("./missing.so"), "there is no such library as ");
  expect_in(refusal_of("./missing.so(width=3)"), "\n  ./missing.so(width=3)\n  ^");
  expect_in(refusal_of(folder.path().string()), "there is no such library as ");
  write_file_atomic(folder / "text.so", std::string_view("no library"));
  expect_in(refusal_of(text), "it cannot be loaded; it must be built with torch ");
  expect_in(refusal_of(path_of("library_other_0")), "it lacks a line SOTTO_NETWORK(make_network)");
}

TEST(Library, IsRefusedWhereItIsOfAnother) {
  expect_in(refusal_of(path_of("library_other_1")), "it was built with interface 77 of own_network.h");
  expect_in(refusal_of(path_of("library_other_2")), "_GLIBCXX_USE_CXX11_ABI");
  expect_in(refusal_of(path_of("library_other_3")), "it was built with sotto 0.0.9, this is sotto ");
  expect_in(refusal_of(path_of("library_other_4")), "it was built with torch 1.13.0, this sotto with torch ");
}

TEST(Library, ItsErrorsAreTold) {
  expect_in(refusal_of(with("what=throw")), "its maker failed: no such luck");
  expect_in(refusal_of(with("what=throw")), "library_fixture.so(what=throw): ");
  expect_in(refusal_of(with("what=throw-int")), "its maker failed: it threw something that is no std::exception");
  expect_in(refusal_of(with("what=throw-torch")), "its maker failed: torch says no");
  EXPECT_EQ(refusal_of(with("what=throw-torch")).find("frame #"), std::string::npos);
  expect_in(refusal_of(with("what=nothing")), "its maker made no module");
  expect_in(refusal_of(with("what=empty")), "the network has no parameters");
  expect_in(refusal_of(with("what=frozen")), "the parameter first.weight requires no gradient");
  expect_in(refusal_of(with("what=double")), "the parameter first.weight is no tensor of 32-bit floats");
  expect_in(refusal_of(with("what=shared")), "first.bias and last.again are one parameter");
  expect_in(refusal_of(with("what=bad-forward")), "its forward failed: ");
  expect_in(refusal_of(with("what=wide")), "its forward makes (2, 8) of 2 images; (2, 4) floats are wanted");
  expect_in(refusal_of(with("what=undefined")), "its forward makes nothing of 2 images");
}

TEST(Library, ItsOptionsAreRead) {
  expect_in(refusal_of(with("hiden=5")), "unknown option `hiden`; did you mean `hidden`?");
  expect_in(refusal_of(with("hidden=many")), "its maker failed: hidden must be a whole number, not `many`");
  expect_in(refusal_of(with("hidden=2.5")), "its maker failed: hidden must be a whole number, not `2.5`");
  expect_in(refusal_of(with("dropout=")), "dropout must be a number");
  expect_in(refusal_of(with("5")), "options of a library have names");
  expect_in(refusal_of(with("hidden=5, hidden=6")), "`hidden` is given twice");
  EXPECT_EQ(refusal_of(with("hidden=5")), "");
}

TEST(Library, IsKnownByItsContent) {
  test::TemporaryFolder folder;
  write_file_atomic(folder / "a.so", std::string_view("abc"));
  const ImageModelSpec spec = read_library(parse_model("model", (folder / "a.so").string()));
  EXPECT_EQ(fingerprint_of(spec), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

}  // namespace
}  // namespace sotto
