#include <cstdio>
#include <vector>

#include "sotto/codec/codec.h"
#include "sotto/codec/stages.h"

int main() {
  const sotto::Layout layout({{"weights", 0, {1000}}}, 1000);
  std::vector<float> sent(1000, 0.5F), received(1000);
  sent[7] = -3;
  sotto::Bucket from{sent, &layout}, to{received, &layout};
  const sotto::Range whole{0, 1000};
  sotto::Message message;
  const auto codec = sotto::make_codec(sotto::read_stages("topk(0.1%, dense=0)"));
  codec->encode(from, sotto::Key{.seed = 1}, {}, {&whole, 1}, {&message, 1});
  const auto opened = codec->make_opened();
  opened->open(message.view(), layout, whole);
  opened->add_to(to, 2.0F);
  std::printf("%zu bytes, element 7 is %g, element 8 is %g\n", message.bytes().size(), received[7], received[8]);
}
