#pragma once

#include <chrono>
#include <cstdint>
#include <list>
#include <optional>
#include <string>
#include <vector>

#include "app/launch/elastic_group.h"
#include "app/launch/hosts.h"
#include "app/launch/job.h"
#include "sotto/comm/secret.h"
#include "sotto/comm/world.h"
#include "sotto/core/error.h"

namespace sotto {

// Where the ranks of a job run, if not on this machine, and what they must agree on.
struct JobHosts {
  std::vector<JobHost> list;
  Ssh ssh;
  std::string version;                 // of this program; every host must have the same
  std::optional<Secret> secret;        // of the job; the ranks get it over ssh, and no file holds it
  std::chrono::seconds pause{5};       // until a host that is missing is tried again; longer each time
  Spelling spelling = plain_spelling;  // of options in lines that are printed
};

// A job whose ranks run on several hosts. On each of them ssh starts one share (share.h), which starts the ranks. They
// get LaunchSpec::arguments, and this process's folder. When all hosts have answered with the same version, the first
// one serves the store where the ranks meet: at LaunchSpec::master, or at the address by which ssh reached it. The
// first failure ends the job within a few seconds; so does the end of this process, whatever its cause.
//
// With LaunchSpec::least_ranks the job survives the loss of ranks or hosts, but not of the launcher, and begins without
// hosts that do not answer. This process then serves the store, at LaunchSpec::master, or at the address from which its
// ssh came to the first host. Missing hosts are tried again. If a host did not answer in the beginning, its ranks join
// the others when it does; if it was lost, they count as LaunchSpec::replacements.
class HostsJob final : public Job, private RankStarter {
 public:
  HostsJob(const LaunchSpec& spec, Console& console, OnProgress on_progress);
  ~HostsJob() override;

  bool running() const override;
  void add_to(std::vector<pollfd>& polled) const override;
  std::optional<Clock::time_point> next_step() const override;
  void pass_on(int signal) override;
  void look_after() override;
  LaunchResult result() override;

 private:
  // The ranks of one host, and the connection to it.
  struct Part {
    Part(const Ssh& ssh, const JobHost& on, std::int64_t first)
        : host(on), first_rank(first), remote(ssh, on, share_command(ssh)) {}
    const JobHost& host;
    std::int64_t first_rank;
    Remote remote;
    const Clock::time_point start = Clock::now();
    bool answered = false;                // it has greeted
    std::optional<std::string> launcher;  // this machine's address as the host sees it; nothing: not known yet
    bool begun = false;                   // it knows the job
    bool ended = false;
    bool by_us = false;  // it ended because we ended it
    std::string report;  // what it handed over as the reason of its end
    // If ranks may be lost:
    bool ready = false;                      // none of its ranks of a former connection runs; it follows orders
    bool missing = false;                    // the job continues without this host
    bool was_there = false;                  // its ranks were started over an earlier connection
    std::chrono::seconds pause{};            // until it is tried again
    std::optional<Clock::time_point> retry;  // then
  };

  void sign();
  void listen(Part& part);
  void hear(Part& part, const HostMessage& message);
  void begin(Part& part);
  void begin_when_all_answered();
  bool await_answer(Part& part);
  void give_up(std::string why, int status);
  void end_all();
  void escalate();
  bool is_stop(const Part& part) const;
  bool begun() const;
  bool follows(const Part& part) const;
  Ending ending(const Part& part) const;
  std::string explain(const Part& part) const;
  // If ranks may be lost, in elastic_hosts.cc:
  bool can_start(int id) override;
  void start_rank(int id, std::uint64_t generation) override;
  void give_up_rank(int id) override;
  Part& part_of(int id);
  std::vector<int> ids_of(const Part& part) const;
  void begin_group();
  std::string meeting_host() const;
  bool goes_on_without(Part& part);
  void miss(Part& part);
  void hear_of_group(Part& part, const HostMessage& message);
  void start_all(Part& part);
  void lose(const std::vector<int>& ids, const std::string& why);
  void look_after_group();
  void reach_missing();
  void dismiss();

  const JobHosts& hosts_;
  std::list<Part> parts_;                    // in the order of their ranks
  std::vector<const Part*> order_;           // in which they ended
  Clock::time_point signed_ = Clock::now();  // when the hosts got our last sign of life
  std::optional<Clock::time_point> ending_;
  std::string given_up_;
  int given_up_status_ = 0;
};

}  // namespace sotto
