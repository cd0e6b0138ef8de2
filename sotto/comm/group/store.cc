#include "sotto/comm/group/store.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <map>
#include <utility>

#include "sotto/core/text.h"
#include "sotto/core/thread.h"

namespace sotto {
namespace {

class PartOfStore final : public Store {
 public:
  PartOfStore(StorePtr store, const std::string& prefix) : store_(std::move(store)), prefix_(prefix + "/") {}

  void set(const std::string& key, const std::string& value) override { store_->set(prefix_ + key, value); }
  std::string get(const std::string& key) override { return store_->get(prefix_ + key); }
  bool check(const std::string& key) override { return store_->check(prefix_ + key); }
  std::int64_t add(const std::string& key, std::int64_t number) override { return store_->add(prefix_ + key, number); }
  std::string compare_set(const std::string& key, const std::string& expected, const std::string& desired) override {
    return store_->compare_set(prefix_ + key, expected, desired);
  }
  void remove(const std::string& key) override { store_->remove(prefix_ + key); }
  std::optional<std::string> why_no_progress() override { return store_->why_no_progress(); }

 private:
  StorePtr store_;
  std::string prefix_;
};

class MemoryStore final : public Store {
 public:
  explicit MemoryStore(std::uint64_t most_bytes) : most_bytes_(most_bytes) {}

  void set(const std::string& key, const std::string& value) override {
    const Lock lock(mutex_);
    put(key, value);
  }
  std::string get(const std::string& key) override {
    const Lock lock(mutex_);
    const auto found = values_.find(key);
    if (found == values_.end()) throw MissingKey("nobody has written `" + key + "`");
    return found->second;
  }
  bool check(const std::string& key) override {
    const Lock lock(mutex_);
    return values_.contains(key);
  }
  std::int64_t add(const std::string& key, std::int64_t number) override {
    const Lock lock(mutex_);
    const auto found = values_.find(key);
    const auto before = found == values_.end() ? 0 : parsed<std::int64_t>(found->second);
    std::int64_t sum = 0;
    if (!before || __builtin_add_overflow(*before, number, &sum)) {
      throw CommError(fmt::format("nothing can be added to `{}`: it is no number, or too large", visible(key)));
    }
    put(key, std::to_string(sum));
    return sum;
  }
  std::string compare_set(const std::string& key, const std::string& expected, const std::string& desired) override {
    const Lock lock(mutex_);
    const auto found = values_.find(key);
    if (found == values_.end() && !expected.empty()) return expected;
    if (found != values_.end() && found->second != expected) return found->second;
    put(key, desired);
    return desired;
  }
  void remove(const std::string& key) override {
    const Lock lock(mutex_);
    const auto found = values_.find(key);
    if (found == values_.end()) return;
    bytes_ -= bytes_of(key, found->second);
    values_.erase(found);
  }

 private:
  static std::uint64_t bytes_of(const std::string& key, const std::string& value) {
    return entry_bytes + key.size() + value.size();
  }
  void put(const std::string& key, const std::string& value) SOTTO_REQUIRES(mutex_) {
    const auto found = values_.find(key);
    const std::uint64_t others = bytes_ - (found == values_.end() ? 0 : bytes_of(key, found->second));
    if (others + bytes_of(key, value) > most_bytes_) {
      throw CommError(fmt::format("the ranks' store is full: it holds at most {} bytes", most_bytes_));
    }
    values_.insert_or_assign(key, value);
    bytes_ = others + bytes_of(key, value);
  }

  static constexpr std::uint64_t entry_bytes = 128;  // that an entry takes besides key and value, about
  const std::uint64_t most_bytes_;
  Mutex mutex_;
  std::map<std::string, std::string> values_ SOTTO_GUARDED_BY(mutex_);
  std::uint64_t bytes_ SOTTO_GUARDED_BY(mutex_) = 0;
};

constexpr std::size_t most_shown = 4000;

struct Character {
  std::size_t bytes = 0;  // 0: the text does not begin with UTF-8
  char32_t code = 0;
};

Character first_character(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {1, lead};
  const std::size_t bytes = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < bytes) return {};
  char32_t code = lead & (0x7FU >> bytes);
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return {};
    code = code << 6 | (byte(i) & 0x3FU);
  }
  constexpr std::array<char32_t, 5> least{0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code >= 0xD800 && code <= 0xDFFF;
  if (code < least[bytes] || surrogate || code > 0x10FFFF) return {};
  return {bytes, code};
}

struct CodeRange {
  char32_t first, last;
};
// Control characters, and characters that show nothing: marks of direction, joiners, separators of lines, tags.
constexpr std::array<CodeRange, 11> hidden{{{0, 0x1F},
                                            {0x7F, 0x9F},
                                            {0xAD, 0xAD},
                                            {0x61C, 0x61C},
                                            {0x180E, 0x180E},
                                            {0x200B, 0x200F},
                                            {0x2028, 0x202E},
                                            {0x2060, 0x206F},
                                            {0xFEFF, 0xFEFF},
                                            {0xFFF9, 0xFFFB},
                                            {0xE0000, 0xE0FFF}}};

}  // namespace

void Store::await(const std::string& key, Clock::time_point until, const Stop& stop) {
  for (Patience patience(std::chrono::milliseconds(100)); !check(key); patience.pause(until)) {
    throw_if_stopped(stop);
    if (const auto why = why_no_progress()) throw MissingKey(*why);
    if (Clock::now() >= until) throw MissingKey("timed out");
  }
}

StorePtr part_of(StorePtr store, const std::string& prefix) {
  return std::make_shared<PartOfStore>(std::move(store), prefix);
}

StorePtr make_memory_store(std::uint64_t most_bytes) { return std::make_shared<MemoryStore>(most_bytes); }

StoreServer::StoreServer(const StoreService& service, const std::string& host, std::uint16_t port)
    : served_(service.serve(host, port, std::chrono::seconds(10), {})) {}

// One request. A get() would wait if somebody removed the key after a check().
std::optional<std::string> StoreServer::find(const std::string& key) {
  static const std::string nothing = "nothing is there\n";
  const std::string value = served_.store->compare_set(key, nothing, nothing);
  if (value == nothing) return std::nullopt;
  return visible(value);
}

std::string visible(std::string_view text) {
  std::string shown;
  const std::string_view cut = text.substr(0, most_shown);
  for (std::size_t at = 0; at < cut.size();) {
    const Character character = first_character(cut.substr(at));
    const bool is_hidden = character.bytes == 0 || std::ranges::any_of(hidden, [&](const CodeRange& range) {
                             return character.code >= range.first && character.code <= range.last;
                           });
    const std::string_view bytes = cut.substr(at, std::max<std::size_t>(1, character.bytes));
    at += bytes.size();
    if (!is_hidden) {
      shown += bytes;
    } else if (bytes == "\n" || bytes == "\t") {
      shown += bytes == "\n" ? "\\n" : "\\t";
    } else {
      for (const char c : bytes) {
        fmt::format_to(std::back_inserter(shown), "\\x{:02x}", static_cast<unsigned char>(c));
      }
    }
  }
  return text.size() > most_shown ? shown + " ..." : shown;
}

}  // namespace sotto
