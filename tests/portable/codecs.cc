// portable_codecs LIBRARY: encodes and decodes tensors with every codec of the laws through this libsotto.so, and prints a
// line for each with hashes of what it got. Lines of two libraries are the same.
#include <dlfcn.h>

#include <cstdio>
#include <cstring>
#include <stdexcept>

#include "sotto/capi/sotto.h"
#include "sotto/core/random.h"
#include "tests/codec/fixture.h"

namespace {

class Library {
 public:
  explicit Library(const char* path) : handle_(dlopen(path, RTLD_NOW | RTLD_LOCAL)) {
    if (!handle_) throw std::runtime_error(dlerror());
    load(create, "sotto_codec_create");
    load(destroy, "sotto_codec_free");
    load(encode, "sotto_codec_encode");
    load(decode, "sotto_codec_decode");
    load(last_error, "sotto_last_error");
  }
  decltype(&sotto_codec_create) create;
  decltype(&sotto_codec_free) destroy;
  decltype(&sotto_codec_encode) encode;
  decltype(&sotto_codec_decode) decode;
  decltype(&sotto_last_error) last_error;

 private:
  template <class Function>
  void load(Function& function, const char* name) {
    function = reinterpret_cast<Function>(dlsym(handle_, name));
    if (!function) throw std::runtime_error(name);
  }
  void* handle_;
};

using Bytes = std::vector<unsigned char>;

unsigned long long hash(const void* data, std::size_t bytes) {
  unsigned long long sum = 0xcbf29ce484222325ULL;  // FNV-1a
  for (std::size_t i = 0; i < bytes; ++i) sum = (sum ^ static_cast<const unsigned char*>(data)[i]) * 0x100000001b3ULL;
  return sum;
}

// Computed without functions of the C library, whose last bits differ between processors.
std::vector<float> values(std::size_t count, std::uint64_t seed) {
  sotto::Philox random(seed, sotto::Purpose::test);
  const auto uniform = [&] { return (static_cast<float>(random.below(1U << 16)) - 0x1p15F) * 0x1p-15F; };
  std::vector<float> made(count);
  for (float& value : made) {
    value = uniform() * uniform() * uniform();
    if (seed % 2 == 0 && random.below(3) == 0) value = 0;
  }
  return made;
}

struct Case {
  std::vector<std::int64_t> shape;
  float scale = 1;
};

void print(const Library& library, const std::string& text, std::size_t number, const Case& each) {
  std::size_t count = 1;
  for (const auto size : each.shape) count *= static_cast<std::size_t>(size);
  std::vector<float> in = values(count, number), out(count);
  for (float& value : in) value *= each.scale;
  const auto tensor_of = [&](float* data) {
    return sotto_tensor{data, SOTTO_F32, each.shape.size(), each.shape.data(), nullptr};
  };
  const sotto_tensor tensor = tensor_of(in.data()), into = tensor_of(out.data());
  Bytes bytes;
  const sotto_sink sink{[](void* context, const void* data, std::size_t size) {
                          const auto* from = static_cast<const unsigned char*>(data);
                          static_cast<Bytes*>(context)->assign(from, from + size);
                        },
                        &bytes};
  sotto_codec* codec = nullptr;
  sotto_status status = library.create(text.c_str(), 1, &codec);
  if (status == SOTTO_OK) status = library.encode(codec, &tensor, 7, 3, sink);
  if (status == SOTTO_OK) status = library.decode(codec, bytes.data(), bytes.size(), &into);
  std::printf("%s, %zu: %zu bytes %016llx, decoded %016llx%s%s\n", text.c_str(), number, bytes.size(),
              hash(bytes.data(), bytes.size()), hash(out.data(), count * sizeof(float)), status == SOTTO_OK ? "" : ", ",
              status == SOTTO_OK ? "" : library.last_error(0));
  if (codec) library.destroy(codec);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const Library library(argv[1]);
  const Case cases[] = {{{1}}, {{7, 13}}, {{64, 65}, 1e-3F}, {{3, 3, 8, 17}}, {{5003}, 1e4F}, {{2, 31, 33}}};
  for (const std::string& text : sotto::testing::all_codecs()) {
    std::size_t number = 0;
    for (const Case& each : cases) print(library, text, number++, each);
  }
}
