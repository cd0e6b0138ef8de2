// The notes that averaging pairs send to each other, and what each rank learns of the others from them.
#include "sotto/algorithm/ad_psgd/pair_note.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "sotto/algorithm/ad_psgd/pairs.h"
#include "sotto/algorithm/ad_psgd/roll.h"
#include "sotto/core/error.h"
#include "sotto/topology/table.h"
#include "tests/support/specs.h"

namespace sotto {
namespace {

using Kind = PairNote::Kind;

PairNote sample() {
  PairNote note;
  note.kind = Kind::news;
  note.generation = 0x0203;
  note.number = 0x04050607;
  note.meeting = 8;
  note.end = 9;
  note.steps = {10, 11, 12};
  return note;
}

std::vector<std::byte> written(const PairNote& note) {
  std::vector<std::byte> bytes(PairNote::bytes(static_cast<int>(note.steps.size())));
  write_note(note, bytes);
  return bytes;
}

TEST(PairNotes, AreLittleEndian) {
  const auto bytes = written(sample());
  std::vector<std::byte> wanted(48);
  for (const auto& [at, value] : {std::pair{0, 2},
                                  {2, 3},
                                  {3, 2},
                                  {4, 7},
                                  {5, 6},
                                  {6, 5},
                                  {7, 4},
                                  {8, 8},
                                  {16, 9},
                                  {24, 10},
                                  {32, 11},
                                  {40, 12}}) {
    wanted[static_cast<std::size_t>(at)] = static_cast<std::byte>(value);
  }
  EXPECT_EQ(bytes, wanted);
  PairNote note;
  EXPECT_TRUE(read_note(bytes, 3, note).empty());
  EXPECT_EQ(written(note), bytes);
}

TEST(PairNotes, MarkRanksInTheHighestBit) {
  PairNote note = sample();
  note.marked = {true, false, true};
  for (const Kind kind : {Kind::met, Kind::ends}) {
    note.kind = kind;
    const auto bytes = written(note);
    EXPECT_EQ(bytes[31], std::byte{0x80});
    EXPECT_EQ(bytes[39], std::byte{0});
    PairNote read;
    EXPECT_TRUE(read_note(bytes, 3, read).empty());
    EXPECT_EQ(read.marked, note.marked);
    EXPECT_EQ(read.steps, note.steps);
  }
  note.kind = Kind::news;  // has no marks
  EXPECT_EQ(written(note), written(sample()));
}

TEST(PairNotes, RefuseWhatIsNone) {
  const auto good = written(sample());
  PairNote note;
  for (std::size_t length = 0; length < good.size(); ++length) {
    EXPECT_THROW(read_note(std::span(good).first(length), 3, note), WireError) << length;
  }
  EXPECT_THROW(read_note(good, 2, note), WireError);  // 8 bytes too many
  EXPECT_THROW(read_note(good, 4, note), WireError);
  for (const std::size_t at : {0U, 1U, 15U, 23U, 31U, 47U}) {  // kind, zero, and counts beyond 2^40
    auto bad = good;
    bad[at] = std::byte{6};
    EXPECT_THROW(read_note(bad, 3, note), WireError) << at;
  }
}

TEST(Rolls, KeepTheLargestNumbers) {
  Roll roll(1, 3);
  const auto now = Clock::now();
  roll.count_step();
  PairNote note = sample();
  note.steps = {5, 1, 7};
  note.meeting = note.end = 0;
  roll.hear(0, note, now);
  EXPECT_EQ(roll.total_steps(), 13U);
  EXPECT_EQ(roll.heard(0), now);
  EXPECT_EQ(roll.moved(2), now);
  note.steps = {4, 1, 9};
  roll.hear(2, note, now + std::chrono::seconds(1));
  EXPECT_EQ(roll.total_steps(), 15U);
  EXPECT_EQ(roll.moved(0), now);
  note.steps = {4, 2, 9};
  roll.hear(0, note, now);  // no other rank knows more about this one
  PairNote own;
  roll.write_to(own);
  EXPECT_EQ(own.steps, (std::vector<std::uint64_t>{5, 1, 9}));
}

TEST(Rolls, KnowWhoIsWaitedFor) {
  Roll roll(0, 3);
  PairNote note = sample();
  note.steps = {0, 0, 0};
  note.meeting = note.end = note.number = 0;
  EXPECT_TRUE(roll.all_have(Roll::Await::meeting));
  roll.come_to_meeting();
  note.meeting = 1;
  roll.hear(2, note, {});
  EXPECT_TRUE(roll.lacks(1, Roll::Await::meeting));
  EXPECT_FALSE(roll.lacks(2, Roll::Await::meeting));
  EXPECT_FALSE(roll.somebody_ends());
  note.end = 6;
  EXPECT_THROW(roll.hear(2, note, {}), WireError) << "of a rank that has made no step";
  EXPECT_FALSE(roll.somebody_ends());
  note.steps[2] = 5;
  roll.hear(2, note, {});
  EXPECT_TRUE(roll.somebody_ends());
  EXPECT_FALSE(roll.all_have(Roll::Await::end));
  roll.leave(1);
  EXPECT_TRUE(roll.all_have(Roll::Await::end) && roll.all_have(Roll::Await::meeting));
  EXPECT_EQ(roll.common_end(), 6U);
}

TEST(Rolls, TakeTheStepsOfAMeetingOnlyFromARankThatIsThere) {
  Roll roll(0, 3);
  roll.come_to_meeting();
  PairNote note = sample();
  note.end = 0;
  note.meeting = 1;
  note.steps = {0, 0, 6};
  note.number = 1;  // it has gone on
  roll.hear(2, note, {});
  EXPECT_TRUE(roll.lacks(2, Roll::Await::meeting));
  note.kind = Kind::met;
  note.steps = {0, 3, 5};
  note.marked = {true, false, true};
  roll.hear(1, note, {});
  EXPECT_FALSE(roll.lacks(2, Roll::Await::meeting));
  EXPECT_TRUE(roll.lacks(1, Roll::Await::meeting));
  EXPECT_EQ(roll.steps_at_meeting(), (std::vector<std::uint64_t>{0, 3, 5}));
  EXPECT_EQ(roll.all_steps(), (std::vector<std::uint64_t>{0, 3, 6}));
}

// Ranks that take steps and meet, whose letters arrive in any order.
class Crowd {
 public:
  explicit Crowd(int ranks, std::uint64_t seed) : random_(seed) {
    for (int rank = 0; rank < ranks; ++rank) members_.push_back({Roll(rank, ranks), RollTree(rank, ranks)});
  }
  Roll& roll(int rank) { return members_[static_cast<std::size_t>(rank)].roll; }
  // Puts what is due now on its way.
  void post(int rank) {
    Member& member = members_[static_cast<std::size_t>(rank)];
    for (const auto& letter : member.tree.due(member.roll)) {
      PairNote note;
      note.kind = letter.kind;
      member.roll.write_to(note, letter.meeting);
      mail_.push_back({rank, letter.peer, note});
      ++member.sent;
    }
  }
  // Hands out one letter. Returns who got it; -1: none is on its way.
  int deliver() {
    if (mail_.empty()) return -1;
    std::swap(mail_[random_() % mail_.size()], mail_.back());
    const Sent letter = mail_.back();
    mail_.pop_back();
    roll(letter.to).hear(letter.from, letter.note, {});
    post(letter.to);
    return letter.to;
  }
  std::size_t most_sent() const { return std::ranges::max(members_, {}, &Member::sent).sent; }
  std::uint64_t random() { return random_(); }

 private:
  struct Member {
    Roll roll;
    RollTree tree;
    std::size_t sent = 0;
  };
  struct Sent {
    int from, to;
    PairNote note;
  };
  std::vector<Member> members_;
  std::vector<Sent> mail_;
  std::mt19937_64 random_;
};

TEST(RollTrees, BringAllToEachMeetingWithFewLetters) {
  for (const int ranks : {1, 2, 3, 7, 33}) {
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      SCOPED_TRACE(fmt::format("{} ranks, seed {}", ranks, seed));
      Crowd crowd(ranks, seed);
      constexpr std::uint64_t meetings = 4;
      const int caller = static_cast<int>(seed) % ranks;
      std::vector<std::vector<std::uint64_t>> steps(meetings + 1);
      const auto advance = [&](int rank) {  // continues when all have come, takes steps, and meets when called
        Roll& roll = crowd.roll(rank);
        while (roll.all_have(Roll::Await::meeting)) {
          auto& met = steps[roll.meeting()];
          if (met.empty()) met = roll.steps_at_meeting();
          EXPECT_EQ(roll.steps_at_meeting(), met);
          if (roll.meeting() == meetings || (rank != caller && !roll.somebody_meets())) return;
          for (std::uint64_t step = crowd.random() % 4; step > 0; --step) roll.count_step();
          roll.come_to_meeting();
          crowd.post(rank);
        }
      };
      for (int rank = 0; rank < ranks; ++rank) advance(rank);
      for (int rank = crowd.deliver(); rank >= 0; rank = crowd.deliver()) advance(rank);
      for (int rank = 0; rank < ranks; ++rank) {
        EXPECT_EQ(crowd.roll(rank).meeting(), meetings);
        EXPECT_TRUE(crowd.roll(rank).all_have(Roll::Await::meeting));
      }
      EXPECT_LE(crowd.most_sent(), 6 * meetings);
    }
  }
}

TEST(RollTrees, AgreeOnTheEnd) {
  for (const int ranks : {2, 5, 16}) {
    Crowd crowd(ranks, 3);
    for (int rank = 0; rank < ranks; ++rank) {
      for (int step = 0; step <= rank; ++step) crowd.roll(rank).count_step();
    }
    const auto end = [&](int rank) {
      Roll& roll = crowd.roll(rank);
      if (roll.end() == 0) roll.end_behind(roll.steps());
      crowd.post(rank);
    };
    end(ranks / 2);
    for (int rank = crowd.deliver(); rank >= 0; rank = crowd.deliver()) end(rank);
    for (int rank = 0; rank < ranks; ++rank) {
      EXPECT_TRUE(crowd.roll(rank).all_have(Roll::Await::end)) << rank;
      EXPECT_EQ(crowd.roll(rank).common_end(), static_cast<std::uint64_t>(ranks)) << rank;
    }
    EXPECT_LE(crowd.most_sent(), 6U);
  }
}

TEST(PairPlans, AreThoseOfOneSide) {
  const auto peers = [](const char* topology, int ranks, int rank) {
    return pair_plan(make_topology(test::topology(topology), ranks), rank, 1).peers;
  };
  EXPECT_EQ(peers("1", 8, 1), (std::vector{2, 0, 4, 6}));  // as published: +1, -1, +3, .. of the active rank
  EXPECT_TRUE(peers("1", 8, 0).empty());
  EXPECT_EQ(peers("ring", 4, 3), (std::vector{0, 2}));
  EXPECT_EQ(peers("star", 7, 4), std::vector{0});
  EXPECT_TRUE(peers("star", 7, 0).empty());
  for (const char* topology : {"1", "3", "ring", "directed_linear", "hypercube", "torus(rows=2)", "star"}) {
    EXPECT_EQ(no_pairs(make_topology(test::topology(topology), 8)), "") << topology;
  }
  EXPECT_EQ(no_pairs(make_topology(test::topology("exponential"), 2)), "");
  EXPECT_EQ(no_pairs(make_topology(test::topology("complete"), 1)), "");
  for (const auto& [topology, ranks] : {std::pair{"exponential", 8}, {"ring", 7}, {"complete", 3}}) {
    EXPECT_NE(no_pairs(make_topology(test::topology(topology), ranks)).find("two such sides; take bipartite_exp"),
              std::string::npos)
        << topology;
  }
}

}  // namespace
}  // namespace sotto
