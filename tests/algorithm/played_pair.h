#pragma once

#include <chrono>
#include <functional>
#include <latch>
#include <memory>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "sotto/algorithm/ad_psgd/pair_note.h"
#include "sotto/algorithm/ad_psgd/pairs.h"
#include "sotto/comm/communicator.h"
#include "sotto/comm/mailbox.h"
#include "sotto/core/error.h"

namespace sotto::test {

inline Layout layout() {
  Layout layout;
  layout.append("first", {16});
  layout.append("second", {2, 8});
  return layout;
}

// Two buckets, of one segment each.
inline PairedModel model(const char* codec = "none") { return {read_recipe(codec), plan_buckets(layout(), 64)}; }
inline std::vector<float> all(float value) { return std::vector<float>(layout().size(), value); }

inline auto adds(float value) {
  return [value](std::span<float> x) {
    for (float& element : x) element += value;
  };
}

inline void wait_until(const std::function<bool()>& condition) {
  const auto until = Clock::now() + std::chrono::seconds(20);
  while (!condition()) {
    if (Clock::now() > until) throw CommError("waited in vain");
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

// Tells at the end of a block, however that ends.
class Telling {
 public:
  explicit Telling(std::latch& latch) : latch_(latch) {}
  ~Telling() { latch_.count_down(); }

 private:
  std::latch& latch_;
};

// A rank whose messages the test writes.
class Played {
 public:
  explicit Played(Communicator& communicator)
      : ranks_(communicator.size()), mailbox_(communicator.open_mailbox(PairNote::bytes(ranks_) + model_.max_bytes())) {
    note.steps.resize(static_cast<std::size_t>(ranks_));
  }
  ~Played() { mailbox_->close(); }

  // A letter with this rank's `note`, and a model whose elements are all `value`.
  std::vector<std::byte> letter(PairNote::Kind kind, float value) {
    note.kind = kind;
    std::vector<std::byte> bytes(PairNote::bytes(ranks_));
    write_note(note, bytes);
    if (kind != PairNote::Kind::model) return bytes;
    auto x = all(value);
    const auto rank = static_cast<std::uint16_t>(mailbox_->rank());
    const auto steps = static_cast<std::uint32_t>(note.steps[rank]);
    model_.offer(x, {1, rank, 0, steps}, bytes);
    return bytes;
  }
  void send(int to, PairNote::Kind kind, float value = 0) { mailbox_->send(to, letter(kind, value)); }
  void send(int to, std::span<const std::byte> bytes) { mailbox_->send(to, bytes); }
  // The note of the next letter of this kind, and the first element of its model.
  std::pair<PairNote, float> next(PairNote::Kind kind) {
    PairNote got;
    while (const auto mail = mailbox_->poll(std::chrono::seconds(20))) {
      const auto bytes = read_note(mail->data, ranks_, got);
      if (got.kind != kind) continue;
      if (bytes.empty()) return {got, 0};
      PairedModel theirs = model();
      auto x = all(0);
      std::vector<std::byte> own;
      theirs.offer(x, {}, own);
      const Header header = MessageView::parse(bytes).header();
      theirs.open(bytes, {.generation = header.generation, .origin = header.origin, .step = header.step});
      theirs.move(x, own);
      return {got, 2 * x[0]};
    }
    throw CommError("nothing came");
  }
  // Answers each question of `asker` with news, until `done`.
  void answer_questions_of(int asker, const std::function<bool()>& done) {
    PairNote got;
    while (!done()) {
      const auto mail = mailbox_->poll(std::chrono::milliseconds(20));
      if (!mail) continue;
      read_note(mail->data, ranks_, got);
      if (got.kind == PairNote::Kind::question) send(asker, PairNote::Kind::news);
    }
  }
  PairNote note;

 private:
  PairedModel model_ = model();
  int ranks_;
  std::unique_ptr<Mailbox> mailbox_;
};

}  // namespace sotto::test
