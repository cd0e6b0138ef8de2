#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sotto {

// Cuts sentences into tokens, and joins tokens to sentences. The first tokens are marks: 0 is a pad, 1 stands for
// unknown pieces, 2 begins and 3 ends a sentence.
class Vocabulary {
 public:
  virtual ~Vocabulary() = default;
  virtual std::int64_t size() const = 0;
  virtual std::vector<std::uint16_t> encode(std::string_view text) const = 0;  // without marks
  virtual std::string decode(std::span<const std::int64_t> tokens) const = 0;
  virtual std::string meaning() const { return ""; }  // as Task::meaning(); empty for one that is always the same
};

// A model of SentencePiece (Kudo, Richardson, EMNLP 2018). Abstract so that its users need no header of that library.
class SentencePieces : public Vocabulary {
 public:
  // Adds the tokens of a text, and for each token the number of bytes that it stands for.
  virtual void append(std::string_view text, std::vector<std::uint16_t>& tokens,
                      std::vector<std::uint32_t>& bytes) const = 0;
};
// FileError if the file holds no such model, a model with other marks, or more than 65,536 tokens.
std::unique_ptr<SentencePieces> open_sentencepiece(const std::filesystem::path& file);

// Cuts a line into parts of at most 4096 bytes, since a line of a book may be too long for SentencePiece. Cuts before a
// space, if there is one, or else between two characters. REQUIRES UTF-8.
std::vector<std::string_view> parts_of_line(std::string_view line);

// What a model keeps of a text. `words`: the words, in Unicode's form NFKC, with single spaces between them. `bytes`:
// every byte; a character without a piece becomes tokens of single bytes.
enum class Keeps : std::uint8_t { words, bytes };
// Trains such a model of `size` tokens, by byte-pair encoding, on the lines of some texts, and writes it to `file`. The
// same lines give the same model. ConfigError when the lines have too few different pieces for that size, or too many.
// FileError if the file exists already: nothing is overwritten.
void train_sentencepiece(const std::vector<std::string>& lines, std::int64_t size, Keeps keeps,
                         const std::filesystem::path& file);

}  // namespace sotto
