// Models that torchvision has are laid out as there, so that weights can be exchanged. tools/torchvision_layouts.py
// made the checksums.
#include <gtest/gtest.h>

#include <map>

#include "app/model/image_network.h"
#include "tests/model/batches.h"
#include "tests/model/layouts.h"

namespace sotto {
namespace {
using test::crc32;
using test::lines;

TEST(Torchvision, HasTheSameNamesShapesAndOrder) {
  const std::map<std::string, std::uint32_t> known{
      {"resnet18", 0x07252810},  {"resnet34", 0xd4c1df50},
      {"resnet50", 0x624d8193},  {"resnet101", 0x6c7b48da},
      {"resnet152", 0x8e0629d7}, {"resnet(depth=50, width=2)", 0xbd1c8d73},  // wide_resnet50_2
      {"vgg11", 0x2b7c8f0d},     {"vgg13", 0x83144c9f},
      {"vgg16", 0x64c4c85e},     {"vgg19", 0xf1f13362},
      {"vgg11-bn", 0x03a417da},  {"vgg13-bn", 0xdf7535c1},
      {"vgg16-bn", 0x2d41f06d},  {"vgg19-bn", 0xe93f2c02},
      {"alexnet", 0x1ec385af},   {"densenet121", 0xcecac7f1},
  };
  for (const auto& [text, crc] : known) {
    const ImageModelSpec spec = spec_of(text);
    const auto network = spec.entry->make(spec.options, {3, 224, 224}, 1000);
    const std::string ours = lines(network->named_parameters()) + lines(network->named_buffers());
    EXPECT_EQ(crc32(ours), crc) << text << '\n' << ours;
  }
}

}  // namespace
}  // namespace sotto
