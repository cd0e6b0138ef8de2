#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "app/model/image_network.h"
#include "tests/model/batches.h"
#include "tests/support/message_of.h"

namespace sotto {
namespace {

// The numbers of parameters for the usual images and classes, as published and as torchvision counts. The summary says
// the same.
TEST(ModelTable, ParameterCounts) {
  for (const ImageModelEntry& entry : image_model_table()) {
    const auto network = entry.make(entry.options(), entry.shape, entry.classes);
    std::int64_t count = 0;
    for (const at::Tensor& parameter : network->parameters()) count += parameter.numel();
    std::string digits;
    for (const char c : entry.summary.substr(entry.summary.find(';'))) {
      if (c >= '0' && c <= '9') digits += c;
    }
    EXPECT_EQ(digits, std::to_string(count)) << entry.name;
    EXPECT_GT(entry.default_lr, 0) << entry.name;
    EXPECT_GE(entry.default_momentum, 0) << entry.name;
  }
}

std::int64_t parameters_of(std::string_view text, const ImageShape& shape, std::int64_t classes) {
  const ImageModelSpec spec = spec_of(text);
  std::int64_t count = 0;
  for (const at::Tensor& parameter : spec.entry->make(spec.options, shape, classes)->parameters()) {
    count += parameter.numel();
  }
  return count;
}

TEST(ModelTable, OtherFormsHaveTheirPublishedSizesToo) {
  const ImageShape small{3, 32, 32}, large{3, 224, 224};
  EXPECT_EQ(parameters_of("resnet18", large, 1000), 11'689'512);
  EXPECT_EQ(parameters_of("resnet34", large, 1000), 21'797'672);
  EXPECT_EQ(parameters_of("resnet(depth=50, width=2)", large, 1000), 68'883'240) << "torchvision's wide_resnet50_2";
  EXPECT_EQ(parameters_of("resnet50", small, 10), 23'520'842);
  EXPECT_EQ(parameters_of("vgg11-bn", small, 10), 9'231'114);
  EXPECT_EQ(parameters_of("vgg16", small, 10), 14'719'818);
  EXPECT_EQ(parameters_of("alexnet", small, 10), 2'472'266);
  EXPECT_EQ(parameters_of("densenet-bc(depth=190, growth=40)", small, 10), 25'624'430);
}

TEST(ModelTable, AllFamiliesAreTested) {
  for (const ImageModelEntry& entry : image_model_table()) {
    EXPECT_TRUE(std::ranges::any_of(small_models, [&](const std::string& text) {
      return spec_of(text).entry->make == entry.make;
    })) << entry.name;
  }
}

TEST(ModelTable, LenetIsCaffes) {
  const auto model = model_of("lenet");
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
  const auto model = model_of("resnet18");
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
  EXPECT_EQ(buffers.size(), 40U);  // mean and variance of 20 norms, no counters
  EXPECT_EQ(buffers[0].name, "bn1.running_mean");
  EXPECT_EQ(buffers[1].name, "bn1.running_var");
}

TEST(ModelTable, OtherImagesAndClasses) {
  EXPECT_EQ(make_image_model(spec_of("lenet"), {3, 32, 32}, 100, 1)->layout().segments()[4].shape,
            (std::vector<std::int64_t>{500, 1250}));
  for (const std::string& text : small_models) {
    const std::int64_t side = spec_of(text).entry->least_side;
    const ImageShape least{2, side, side + 3};
    const auto model = make_image_model(spec_of(text), least, 3, 1);
    const Noise noise(least, 2, 0, 3);
    EXPECT_TRUE(std::isfinite(model->accumulate_gradient(noise.batch(), 1, 0, {}))) << text;
    EXPECT_GT(dot(model->gradient(), model->gradient()), 0) << text;
  }
}

std::string error_of(std::string_view text, ImageShape shape, std::int64_t outputs = 10,
                     Loss loss = Loss::cross_entropy) {
  return test::message_of([&] { make_image_model(spec_of(text), shape, outputs, 1, loss); });
}

TEST(ModelTable, RefusesWhatItCannotBuild) {
  EXPECT_NE(error_of("lenett", {1, 28, 28}).find("unknown model `lenett`; did you mean `lenet`?"), std::string::npos);
  EXPECT_NE(error_of("lenet", {1, 28, 15}).find("at least 16x16 pixels, these are 1x28x15"), std::string::npos);
  for (const std::string& text : small_models) {
    const std::int64_t side = spec_of(text).entry->least_side;
    EXPECT_NE(error_of(text, {1, side - 1, 64}).find("model " + text), std::string::npos) << text;
    EXPECT_NE(error_of(text, {0, 64, 64}).find("0x64x64"), std::string::npos);
    EXPECT_NE(error_of(text, {1, 64, 64}, 0).find("0 outputs"), std::string::npos);
  }
  const ImageShape small{3, 32, 32};
  EXPECT_NE(error_of("resnet(depth=19)", small).find("depth is 18, 34, 50, 101, 152 or 6n+2, not 19"),
            std::string::npos);
  EXPECT_NE(error_of("resnet20(form=imagenet)", small).find("depth 20 has no ImageNet form"), std::string::npos);
  EXPECT_NE(error_of("alexnet(form=imagenet)", small).find("at least 63x63 pixels, these are 32x32"),
            std::string::npos);
  EXPECT_NE(error_of("vgg11(depth=13)", small).find("unknown option `depth`"), std::string::npos) << "of another name";
  EXPECT_NE(error_of("vgg11(norm=true)", small).find("unknown option `norm`"), std::string::npos);
  EXPECT_NE(error_of("resnet20(depth=56)", small).find("unknown option `depth`"), std::string::npos);
  EXPECT_NE(error_of("densenet-bc(depth=99)", small).find("depth is 6n+4, not 99"), std::string::npos);
  EXPECT_NE(error_of("logreg(label-smoothing=0.1)", small, 1, Loss::squared_error).find("label-smoothing"),
            std::string::npos);
}

}  // namespace
}  // namespace sotto
