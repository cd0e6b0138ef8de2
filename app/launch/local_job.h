#pragma once

#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "app/launch/elastic_group.h"
#include "app/launch/host_message.h"
#include "app/launch/job.h"
#include "app/launch/spawn.h"
#include "sotto/comm/group/generations.h"
#include "sotto/comm/world.h"

namespace sotto {

// In the environment of a rank: the descriptor at which it hands over the reason of its end, a
// Reason and a text.
inline constexpr const char* report_variable = "SOTTO_REPORT";

// The ranks of this machine: all of the job, or its share of a job of several machines.
class LocalJob final : public Job, private RankStarter {
 public:
  LocalJob(const LaunchSpec& spec, Console& console, OnProgress on_progress);  // starts the ranks
  ~LocalJob() override;

  bool running() const override;
  void add_to(std::vector<pollfd>& polled) const override;
  std::optional<Clock::time_point> next_step() const override;
  void pass_on(int signal) override;
  void look_after() override;
  LaunchResult result() override;

 private:
  struct Rank {
    Process process;
    bool lost = false;         // the others train without it: it is lost, or has not joined yet
    bool hung = false;         // we killed it because it did not answer
    std::string out, err;      // lines that are not complete yet
    std::string report;        // what it handed over as the reason of its end
    std::optional<int> ended;  // the status of waitpid
    bool by_us = false;        // it ended because we ended it
  };

  void choose_meeting_place();
  void begin();
  void begin_empty();
  void start(std::size_t rank, std::uint64_t generation);
  std::vector<std::string> environment(std::size_t rank, std::uint64_t generation) const;
  void read_all();
  void read_lines(Descriptor& from, std::string& pending, std::size_t rank, std::FILE* to);
  void show_line(std::size_t rank, std::FILE* to, std::string_view line);
  bool hears_launcher();
  void follow_orders();
  void reap();
  void escalate();
  // For jobs whose ranks may be lost, in elastic_job.cc:
  bool can_start(int id) override;
  void start_rank(int id, std::uint64_t generation) override;
  void give_up_rank(int id) override;
  bool goes_on_without(std::size_t rank);
  void look_after_group();
  void dismiss_all();
  void follow_group_order(const HostMessage& order);
  // For jobs whose group changes as planned, also there:
  void begin_plan();
  void follow_plan();
  void dismiss(std::size_t rank);
  void kill_all(int number);
  void kill_and_wait();
  LaunchResult decide() const;
  Ending ending(const Rank& rank) const;
  bool is_done(const Rank& rank) const;
  bool is_stop(const Rank& rank) const;
  bool is_planned() const { return !spec_.groups.empty(); }
  bool is_ordered() const { return is_elastic() && spec_.share != nullptr; }  // its launcher says which ranks it starts
  std::size_t number(std::size_t rank) const;                                 // in the whole job
  std::size_t place_of(int id) const;                                         // in ranks_
  std::int64_t all_ranks() const;
  std::string explain(std::size_t rank) const;

  Clock::time_point heard_ = Clock::now();  // when the launcher of a share gave its last sign of life
  std::vector<Rank> ranks_;
  std::vector<std::string> warnings_;  // of the lines that are not shown, without the number of the rank
  std::vector<std::size_t> order_;     // in which ranks ended
  int killing_ = 0;
  Generations plan_;  // of a job whose group changes as planned; the id of a rank is its index in ranks_
};

}  // namespace sotto
