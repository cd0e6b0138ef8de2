#include "app/train/record/tensorboard.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cstring>

#include "app/train/record/listener.h"
#include "sotto/algorithm/algorithm.h"
#include "sotto/core/bytes.h"
#include "sotto/core/error.h"
#include "sotto/core/file.h"

namespace sotto {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view prefix = "events.out.tfevents.";

template <class T>
void put_raw(std::string& out, T value) {  // little-endian, as all of ours
  std::array<char, sizeof(T)> bytes{};
  std::memcpy(bytes.data(), &value, sizeof(T));
  out.append(bytes.data(), bytes.size());
}

// Fields of a protocol buffer: number of the field and kind, then the value.
void put_varint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}
void put_whole(std::string& out, int field, std::uint64_t value) {
  put_varint(out, static_cast<std::uint64_t>(field) << 3);
  put_varint(out, value);
}
template <class Real>
void put_real(std::string& out, int field, Real value) {
  put_varint(out, static_cast<std::uint64_t>(field) << 3 | (sizeof value == 8 ? 1 : 5));
  put_raw(out, value);
}
void put_bytes(std::string& out, int field, std::string_view value) {
  put_varint(out, static_cast<std::uint64_t>(field) << 3 | 2);
  put_varint(out, value.size());
  out += value;
}

double now() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

// Event: wall_time = 1, step = 2, and one of file_version = 3, summary = 5, session_log = 7.
std::string event(std::uint64_t step, int field, std::string_view content) {
  std::string text;
  put_real(text, 1, now());
  put_whole(text, 2, step);
  put_bytes(text, field, content);
  return text;
}

std::string record(std::string_view event_text) {
  const auto masked = [](std::uint32_t crc) { return std::rotr(crc, 15) + 0xa282ead8U; };
  std::string text;
  put_raw(text, static_cast<std::uint64_t>(event_text.size()));
  put_raw(text, masked(crc32c(text)));
  text += event_text;
  put_raw(text, masked(crc32c(event_text)));
  return text;
}

// Names begin with the time in seconds. If the newest file has this second or a later one (the clock was set back), the
// name takes the second after that.
fs::path next_name(const fs::path& folder) {
  auto seconds = static_cast<std::uint64_t>(now());
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(prefix)) continue;
    seconds = std::max<std::uint64_t>(seconds, std::strtoull(name.c_str() + prefix.size(), nullptr, 10) + 1);
  }
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) host[0] = '\0';
  return folder / fmt::format("{}{:010}.{}.{}.0", prefix, seconds, host.data(), ::getpid());
}

class TensorBoard final : public Listener {
 public:
  explicit TensorBoard(const Choices& choices)
      : folder_(*choices.options.tensorboard),
        algorithm_(choices.algorithm),
        examples_of_rank_(choices.options.batch_size * choices.options.accumulate) {
    check_tensorboard(choices.options);
    make_folder(folder_);  // now, since an error after the run has begun would leave a folder behind
  }

  // Steps count from 1 here, as in the curves of a report: the number of steps made.
  void begin(const RunStart& start) override {
    examples_ = examples_of_rank_ * (start.ranks - idle_ranks(algorithm_, start.ranks));
    if (start.rank == start.shown) file_.emplace(folder_, start.first_step + 1);
  }

  void stepped(const TrainedStep& row) override {
    if (!file_) return;
    sent_ += static_cast<double>(row.bytes_sent);
    file_->add(row.step + 1, {{"train/loss", row.loss},
                              {"train/learning-rate", row.lr},
                              {"train/epoch", row.epoch},
                              {"rate/steps-a-second", 1e3 / row.step_ms},
                              {"rate/examples-a-second", 1e3 * static_cast<double>(examples_) / row.step_ms},
                              {"bytes/sent-a-step", static_cast<double>(row.bytes_sent)},
                              {"bytes/sent-since-start", sent_},
                              {"ms/step", row.step_ms},
                              {"ms/compute", row.compute_ms},
                              {"ms/data", row.data_ms},
                              {"ms/wait", row.wait_ms},
                              {"ms/encode", row.encode_ms},
                              {"ms/network", row.network_ms},
                              {"ms/decode", row.decode_ms}});
  }

  void evaluated(std::span<const EvaluationRow> rows, const TestResult& tested) override {
    if (!file_) return;
    std::vector<std::string> tags;
    for (const EvaluationRow& row : rows) {
      const std::string_view split = row.split == Split::test ? "test" : "train-mean";
      std::vector<EventScalar> scalars;
      tags.clear();
      for (const Metric& metric : row.metrics.kinds) tags.push_back(fmt::format("{}/{}", split, metric.name));
      for (std::size_t i = 0; i < tags.size(); ++i) scalars.push_back({tags[i], row.metrics.values[i]});
      if (row.split == Split::test) {
        scalars.push_back({"bytes/sent-by-all-ranks", static_cast<double>(row.bytes_sent)});
        if (!tested.rank_goals.empty()) scalars.push_back({"test/consensus-distance", tested.consensus_distance});
      }
      file_->add(row.step, scalars);
    }
    file_->flush();
  }

 private:
  std::filesystem::path folder_;
  AlgorithmSpec algorithm_;
  std::int64_t examples_of_rank_, examples_ = 0;  // examples of a step: on one computing rank, and on all of them
  double sent_ = 0;
  std::optional<EventFile> file_;  // none: another rank's steps are shown
};

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  static constexpr auto table = [] {
    std::array<std::uint32_t, 256> made{};
    for (std::uint32_t i = 0; i < made.size(); ++i) {
      std::uint32_t crc = i;
      for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78U : 0);
      made[i] = crc;
    }
    return made;
  }();
  std::uint32_t crc = ~0U;
  for (const char byte : bytes) crc = table[(crc ^ static_cast<unsigned char>(byte)) & 0xff] ^ crc >> 8;
  return ~crc;
}

EventFile::EventFile(const fs::path& folder, std::uint64_t first_step) {
  make_folder(folder);
  path_ = next_name(folder);
  file_.open(path_, std::ios::binary);
  file_ << record(event(0, 3, "brain.Event:2"));
  std::string start;
  put_whole(start, 1, 1);  // SessionLog: status = START
  file_ << record(event(first_step, 7, start));
  flush();
}

EventFile::~EventFile() {
  try {
    flush();
  } catch (const Error&) {  // NOLINT(bugprone-empty-catch): an error is being handled already, or nobody is left
  }
}

void EventFile::add(std::uint64_t step, const std::vector<EventScalar>& scalars) {
  std::string summary;
  for (const EventScalar& scalar : scalars) {
    std::string value;  // Summary.Value: tag = 1, simple_value = 2
    put_bytes(value, 1, scalar.tag);
    put_real(value, 2, static_cast<float>(scalar.value));
    put_bytes(summary, 1, value);
  }
  file_ << record(event(step, 5, summary));
  if (since_flush_.seconds() > 1) flush();
}

void EventFile::flush() {
  since_flush_.lap();
  if (!file_.flush()) throw FileError(path_.string() + ": cannot be written: " + std::strerror(errno));
}

bool EventFile::has_any(const fs::path& folder) {
  std::error_code missing;
  for (const auto& entry : fs::directory_iterator(folder, missing)) {
    if (entry.path().filename().string().starts_with(prefix)) return true;
  }
  return false;
}

void check_tensorboard(const TrainOptions& options) {
  if (!options.tensorboard || options.resume || !EventFile::has_any(*options.tensorboard)) return;
  throw ConfigError(
      fmt::format("{}: holds the events of another run, and TensorBoard would draw both as one; choose "
                  "another folder",
                  named("tensorboard", *options.tensorboard)));
}

std::unique_ptr<Listener> make_tensorboard(const Choices& choices) { return std::make_unique<TensorBoard>(choices); }

}  // namespace sotto
