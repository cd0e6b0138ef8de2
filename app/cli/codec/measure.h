#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "app/cli/flags.h"
#include "sotto/codec/measure.h"

namespace sotto {

// The input on which codecs are measured, how they are measured, and how the result is printed.
struct MeasureOptions {
  std::string input = "generated";
  std::string tensor;
  std::string sample = "gaussian";
  std::int64_t elements = 1 << 22;
  std::int64_t rows = 1;
  std::int64_t seed = 1;
  std::int64_t repeats = 7;
  std::int64_t threads = 1;
  bool csv = false;
  bool json = false;
  void visit(OptionVisitor& v) {
    v.option("input", input,
             "`generated`, or a file: a captured gradient, .npy, safetensors, tensors of torch.save, or raw float32 in "
             "a file that is "
             "called .f32, .raw or .bin");
    v.option("tensor", tensor, "only this tensor of the file; empty: all");
    v.option("sample", sample, "distribution of generated values: gaussian, student or sparse");
    v.option("elements", elements, "number of generated values", {1, 1e9});
    v.option("rows", rows, "rows, if the generated values are to be a matrix, as svd needs", {1, 1e9});
    v.option("seed", seed, "seed of generated values", Bounds::at_least(0));
    v.option("repeats", repeats, "how often each codec is timed; medians are printed", {1, 10000});
    v.option("threads", threads, "threads that encode and decode", {1, 256});
    v.option("csv", csv, "print CSV");
    v.option("json", json, "print JSON");
  }
};

struct MeasuredCodec {
  std::string text;   // canonical
  std::string value;  // of the swept parameter; empty: none
  Measurement result;
};

// Parses a codec, without its memory. ConfigError.
std::unique_ptr<Codec> measured_codec(const std::string& expression, std::shared_ptr<ThreadPool> pool);

// Measures the codecs in turns on the same input. Memories are left out; ConfigError if no stages remain. REQUIRES
// parsed flags.
std::vector<MeasuredCodec> measure_all(std::span<const std::string> expressions, const MeasureOptions& options,
                                       const Flags& flags);
// Prints in the form that the options choose. In JSON one codec is an object, several are an array of objects.
std::string to_text(std::span<const MeasuredCodec> codecs, const MeasureOptions& options);

// A codec of a sweep: its text, and the value that replaced {} in it.
struct SweptCodec {
  std::string text, value;
};

// Whether there is a {} in the text.
bool is_swept(std::string_view expression);
// The codec with each of the values in place of {}. Each of `texts` is one value, or a range such as "1..8".
// ConfigError about --codec or --values if {} is missing, or is only in the memory, which is not measured, or if a
// range is bad or too long.
std::vector<SweptCodec> sweep(const std::string& expression, std::span<const std::string> texts);

}  // namespace sotto
