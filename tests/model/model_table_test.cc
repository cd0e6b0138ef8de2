#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "sotto/core/error.h"
#include "sotto/model/model.h"
#include "tests/model/batches.h"

namespace sotto {
namespace {

TEST(ModelTable, ParameterCounts) {
  const std::map<std::string_view, std::size_t> counts{{"lenet", 431080}, {"mnist-cnn", 3274634}, {"fc", 1033510},
                                                       {"mlp", 13018506}, {"resnet18", 11173962}, {"logreg", 7850}};
  EXPECT_EQ(counts.size(), model_table().size());
  for (const ModelEntry& entry : model_table()) {
    const auto model = model_of(entry);
    EXPECT_EQ(model->layout().numel(), counts.at(entry.name)) << entry.name;
    EXPECT_EQ(model->name(), entry.name);
    std::string digits;  // the summary says the same number
    for (const char c : entry.summary.substr(entry.summary.find(';'))) {
      if (c >= '0' && c <= '9') digits += c;
    }
    EXPECT_EQ(digits, std::to_string(counts.at(entry.name))) << entry.name;
    EXPECT_GT(entry.default_lr, 0) << entry.name;
    EXPECT_GE(entry.default_momentum, 0) << entry.name;
  }
}

TEST(ModelTable, LenetIsCaffes) {
  const auto model = model_of(entry_of("lenet"));
  const std::vector<std::pair<std::string, std::vector<std::int64_t>>> wanted{
      {"conv1.weight", {20, 1, 5, 5}}, {"conv1.bias", {20}}, {"conv2.weight", {50, 20, 5, 5}}, {"conv2.bias", {50}},
      {"fc1.weight", {500, 800}},      {"fc1.bias", {500}},  {"fc2.weight", {10, 500}},        {"fc2.bias", {10}}};
  const auto segments = model->layout().segments();
  ASSERT_EQ(segments.size(), wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_EQ(segments[i].name, wanted[i].first);
    EXPECT_EQ(segments[i].shape, wanted[i].second);
  }
  EXPECT_EQ(model->buffer_layout().segments().size(), 0U);
  EXPECT_EQ(model->buffers().size(), 0U);
  EXPECT_EQ(entry_of("lenet").default_lr, 0.05);
  EXPECT_EQ(entry_of("lenet").default_momentum, 0.9);
}

TEST(ModelTable, Resnet18HasTorchvisionsNames) {
  const auto model = model_of(entry_of("resnet18"));
  const auto segments = model->layout().segments();
  EXPECT_EQ(segments.size(), 62U);
  EXPECT_EQ(segments.front().name, "conv1.weight");
  EXPECT_EQ(segments.back().name, "fc.bias");
  std::map<std::string, std::vector<std::int64_t>> shapes;
  for (const Segment& segment : segments) shapes[segment.name] = segment.shape;
  EXPECT_EQ(shapes.at("layer2.0.downsample.0.weight"), (std::vector<std::int64_t>{128, 64, 1, 1}));
  EXPECT_EQ(shapes.at("layer4.1.conv2.weight"), (std::vector<std::int64_t>{512, 512, 3, 3}));
  EXPECT_EQ(shapes.at("layer4.1.bn2.weight"), (std::vector<std::int64_t>{512}));
  const auto buffers = model->buffer_layout().segments();
  EXPECT_EQ(buffers.size(), 40U);  // mean and variance of 20 norms; no counters
  EXPECT_EQ(buffers[0].name, "bn1.running_mean");
  EXPECT_EQ(buffers[1].name, "bn1.running_var");
}

TEST(ModelTable, OtherImagesAndClasses) {
  EXPECT_EQ(make_model(model_table().require("model", "lenet"), {3, 32, 32}, 100, 1)->layout().segments()[4].shape,
            (std::vector<std::int64_t>{500, 1250}));
  for (const ModelEntry& entry : model_table()) {
    const ImageShape least{2, entry.least_side, entry.least_side + 3};
    const auto model = make_model(entry, least, 3, 1);
    const Noise noise(least, 1, 0, 3);
    EXPECT_TRUE(std::isfinite(model->accumulate_gradient(noise.batch(), 1, 0, {}))) << entry.name;
    EXPECT_GT(dot(model->gradient(), model->gradient()), 0) << entry.name;
  }
}

std::string error_of(std::string_view name, ImageShape shape, std::int64_t outputs = 10) {
  try {
    make_model(model_table().require("model", name), shape, outputs, 1);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

TEST(ModelTable, RefusesWhatItCannotBuild) {
  EXPECT_NE(error_of("lenett", {1, 28, 28}).find("model: unknown model `lenett`; did you mean `lenet`?"),
            std::string::npos);
  EXPECT_NE(error_of("lenet", {1, 28, 15}).find("at least 16x16 pixels, these are 1x28x15"), std::string::npos);
  for (const ModelEntry& entry : model_table()) {
    EXPECT_NE(error_of(entry.name, {1, entry.least_side - 1, 64}).find(entry.name), std::string::npos);
    EXPECT_NE(error_of(entry.name, {0, 64, 64}).find("0x64x64"), std::string::npos);
    EXPECT_NE(error_of(entry.name, {1, 64, 64}, 0).find("0 outputs"), std::string::npos);
  }
}

}  // namespace
}  // namespace sotto
