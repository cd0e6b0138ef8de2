#include "app/data/text/vocabulary.h"

#include <fmt/format.h>
#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <unordered_map>

#include "sotto/core/error.h"
#include "sotto/core/file.h"

namespace sotto {
namespace {

class SentencePiece final : public SentencePieces {
 public:
  explicit SentencePiece(const std::filesystem::path& file) {
    const std::vector<std::byte> bytes = read_file(file);
    const auto status = processor_.LoadFromSerializedProto({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    const auto fail = [&](const std::string& why) { throw FileError(fmt::format("{}: {}", file.string(), why)); };
    if (!status.ok()) fail("not a model of SentencePiece");
    if (processor_.pad_id() != 0 || processor_.unk_id() != 1 || processor_.bos_id() != 2 || processor_.eos_id() != 3) {
      fail("its marks must be pad_id=0, unk_id=1, bos_id=2 and eos_id=3");
    }
    if (processor_.GetPieceSize() > 65536) fail(fmt::format("{} tokens; at most 65536", processor_.GetPieceSize()));
  }

  std::int64_t size() const override { return processor_.GetPieceSize(); }
  std::vector<std::uint16_t> encode(std::string_view text) const override {
    std::vector<int> ids;
    check(processor_.Encode({text.data(), text.size()}, &ids));
    return {ids.begin(), ids.end()};
  }
  void append(std::string_view text, std::vector<std::uint16_t>& tokens,
              std::vector<std::uint32_t>& bytes) const override {
    sentencepiece::ImmutableSentencePieceText found;
    check(processor_.Encode({text.data(), text.size()}, found.mutable_proto()));
    for (const auto& piece : found.pieces()) {
      tokens.push_back(static_cast<std::uint16_t>(piece.id()));
      bytes.push_back(piece.end() - piece.begin());
    }
  }
  std::string decode(std::span<const std::int64_t> tokens) const override {
    std::string text;
    check(processor_.Decode(std::vector<int>(tokens.begin(), tokens.end()), &text));
    return text;
  }
  std::string meaning() const override {
    const std::string model = processor_.serialized_model_proto();
    return fmt::format("the vocabulary {:.16}", sha256_hex(std::as_bytes(std::span(model))));
  }

 private:
  static void check(const sentencepiece::util::Status& status) {
    if (!status.ok()) throw Error(status.ToString());
  }
  sentencepiece::SentencePieceProcessor processor_;
};

constexpr std::size_t longest_part = 4096;  // in bytes; the trainer leaves out longer ones

// The parts of lines, for the trainer.
class Sentences final : public sentencepiece::SentenceIterator {
 public:
  explicit Sentences(const std::vector<std::string>& lines) {
    for (const std::string& line : lines) {
      for (const std::string_view part : parts_of_line(line)) parts_.emplace_back(part);
    }
  }
  bool done() const override { return next_ == parts_.size(); }
  void Next() override { ++next_; }
  const std::string& value() const override { return parts_[next_]; }
  sentencepiece::util::Status status() const override { return {}; }

 private:
  std::vector<std::string> parts_;
  std::size_t next_ = 0;
};

// Our error text in place of the trainer's message about a size. It repeats the number in that message.
std::string refusal_of(const std::string& message) {
  const auto number_after = [&](std::string_view words) -> std::string_view {
    const std::size_t at = message.find(words);
    if (at == std::string::npos) return "";
    const std::string_view rest = std::string_view(message).substr(at + words.size());
    return rest.substr(0, rest.find_first_not_of("0123456789"));
  };
  const std::string_view least = number_after(" vs "), most = number_after("to a value <= ");
  if (message.find("smaller than required_chars") != std::string::npos && !least.empty()) {
    return fmt::format("too few for this text, whose characters and marks alone are {}", least);
  }
  if (!most.empty()) return fmt::format("too many for this text, which has pieces for {} at most", most);
  return "it cannot be learned from this text: " + message;
}

}  // namespace

std::unique_ptr<SentencePieces> open_sentencepiece(const std::filesystem::path& file) {
  return std::make_unique<SentencePiece>(file);
}

std::vector<std::string_view> parts_of_line(std::string_view line) {
  std::vector<std::string_view> parts;
  while (line.size() > longest_part) {
    std::size_t cut = line.rfind(' ', longest_part);
    if (cut == 0 || cut == std::string_view::npos) {
      cut = longest_part;
      while ((static_cast<unsigned char>(line[cut]) & 0xC0U) == 0x80) --cut;
    }
    parts.push_back(line.substr(0, cut));
    line.remove_prefix(cut);
  }
  parts.push_back(line);
  return parts;
}

// One thread, so that no order of sums depends on the machine.
void train_sentencepiece(const std::vector<std::string>& lines, std::int64_t size, Keeps keeps,
                         const std::filesystem::path& file) {
  if (path_exists(file)) {
    throw FileError(file.string() + ": is there already, and is not overwritten; move it away, or use it");
  }
  std::string model;
  Sentences sentences(lines);
  std::unordered_map<std::string, std::string> settings{{"model_type", "bpe"},
                                                        {"vocab_size", std::to_string(size)},
                                                        {"character_coverage", "1"},
                                                        {"max_sentence_length", std::to_string(longest_part)},
                                                        {"num_threads", "1"},
                                                        {"pad_id", "0"},
                                                        {"unk_id", "1"},
                                                        {"bos_id", "2"},
                                                        {"eos_id", "3"},
                                                        {"minloglevel", "2"}};
  if (keeps == Keeps::bytes) {
    settings.insert({{"normalization_rule_name", "identity"},
                     {"remove_extra_whitespaces", "false"},
                     {"add_dummy_prefix", "false"},
                     {"byte_fallback", "true"}});
    settings["character_coverage"] = "0.9995";  // bytes spell the others
  }
  const auto status = sentencepiece::SentencePieceTrainer::Train(settings, &sentences, &model);
  if (!status.ok())
    throw ConfigError(fmt::format("a vocabulary of {} tokens: {}", size, refusal_of(status.ToString())));
  write_file_atomic(file, model);
}

}  // namespace sotto
