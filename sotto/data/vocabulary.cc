#include "sotto/data/vocabulary.h"

#include <fmt/format.h>
#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <string>
#include <unordered_map>

#include "sotto/core/error.h"
#include "sotto/core/file.h"

namespace sotto {
namespace {

class SentencePiece final : public Vocabulary {
 public:
  explicit SentencePiece(const std::filesystem::path& file) {
    const std::vector<std::byte> bytes = read_file(file);
    const auto status = processor_.LoadFromSerializedProto({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    const auto fail = [&](const std::string& why) { throw FileError(fmt::format("{}: {}", file.string(), why)); };
    if (!status.ok()) fail(fmt::format("not a model of SentencePiece: {}", status.ToString()));
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
  std::string decode(std::span<const std::int64_t> tokens) const override {
    std::string text;
    check(processor_.Decode(std::vector<int>(tokens.begin(), tokens.end()), &text));
    return text;
  }

 private:
  static void check(const sentencepiece::util::Status& status) {
    if (!status.ok()) throw Error(status.ToString());
  }
  sentencepiece::SentencePieceProcessor processor_;
};

// The lines of a text, for the trainer.
class Sentences final : public sentencepiece::SentenceIterator {
 public:
  explicit Sentences(const std::vector<std::string>& lines) : lines_(lines) {}
  bool done() const override { return next_ == lines_.size(); }
  void Next() override { ++next_; }
  const std::string& value() const override { return lines_[next_]; }
  sentencepiece::util::Status status() const override { return {}; }

 private:
  const std::vector<std::string>& lines_;
  std::size_t next_ = 0;
};

}  // namespace

std::unique_ptr<Vocabulary> open_sentencepiece(const std::filesystem::path& file) {
  return std::make_unique<SentencePiece>(file);
}

// One thread, so that no order of sums depends on the machine.
void train_sentencepiece(const std::vector<std::string>& lines, std::int64_t size, const std::filesystem::path& file) {
  std::string model;
  Sentences sentences(lines);
  const std::unordered_map<std::string, std::string> settings{{"model_type", "bpe"},
                                                              {"vocab_size", std::to_string(size)},
                                                              {"character_coverage", "1"},
                                                              {"num_threads", "1"},
                                                              {"pad_id", "0"},
                                                              {"unk_id", "1"},
                                                              {"bos_id", "2"},
                                                              {"eos_id", "3"},
                                                              {"minloglevel", "2"}};
  const auto status = sentencepiece::SentencePieceTrainer::Train(settings, &sentences, &model);
  if (!status.ok()) throw ConfigError(fmt::format("a vocabulary of {} tokens: {}", size, status.ToString()));
  write_file_atomic(file, model);
}

}  // namespace sotto
