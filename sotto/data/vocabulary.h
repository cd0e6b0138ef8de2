#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sotto {

// What cuts sentences into tokens, and puts them together. The first tokens are marks: 0 pads, 1 is unknown, 2 begins
// and 3 ends a sentence.
class Vocabulary {
 public:
  virtual ~Vocabulary() = default;
  virtual std::int64_t size() const = 0;
  virtual std::vector<std::uint16_t> encode(std::string_view text) const = 0;  // without marks
  virtual std::string decode(std::span<const std::int64_t> tokens) const = 0;
};

// A model of SentencePiece (Kudo, Richardson, EMNLP 2018). FileError when the file holds no such model, one whose marks
// are others, or more than 65,536 tokens.
std::unique_ptr<Vocabulary> open_sentencepiece(const std::filesystem::path& file);

// Trains such a model of `size` tokens, by byte-pair encoding, on the lines of some texts, and writes it to `file`. The
// same lines give the same model. ConfigError when the lines have too few different pieces.
void train_sentencepiece(const std::vector<std::string>& lines, std::int64_t size, const std::filesystem::path& file);

}  // namespace sotto
