#pragma once

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "sotto/comm/secret.h"
#include "sotto/launch/job.h"
#include "sotto/launch/remote.h"

namespace sotto {

// Where the ranks of a job run, if not on this machine, and what they must agree on.
struct JobHosts {
  std::vector<JobHost> list;
  Ssh ssh;
  std::string version;           // of this program; every host must have the same
  std::optional<Secret> secret;  // of the job; the ranks get it over ssh, and no file holds it
};

// A job whose ranks run on several hosts. On each of them ssh starts one share (share.h), which starts the ranks. They
// get LaunchSpec::arguments, and this process's folder. When all hosts have answered with the same version, the first
// one serves the store where the ranks meet: at LaunchSpec::master, or at the address by which ssh reached it. The
// first failure ends the job within a few seconds; so does the end of this process, whatever its cause.
class HostsJob final : public Job {
 public:
  HostsJob(const LaunchSpec& spec, Console& console, OnProgress on_progress);

  bool running() const override;
  void add_to(std::vector<pollfd>& polled) const override;
  std::optional<Clock::time_point> next_step() const override;
  void pass_on(int signal) override;
  void look_after() override;
  LaunchResult result() override;

 private:
  // The ranks of one host.
  struct Part {
    Part(const Ssh& ssh, const JobHost& on, std::int64_t first)
        : host(on), first_rank(first), remote(ssh, on, share_command(ssh)) {}
    const JobHost& host;
    std::int64_t first_rank;
    Remote remote;
    bool answered = false;  // it has greeted
    bool begun = false;     // it knows the job
    bool ended = false;
    bool by_us = false;  // it ended because we wanted it to
    std::string report;  // what it handed over as the reason of its end
  };

  void listen(Part& part);
  void hear(Part& part, const HostMessage& message);
  void begin(Part& part);
  void begin_when_all_answered();
  void give_up(std::string why, int status);
  void end_all();
  void escalate();
  bool is_stop(const Part& part) const;
  bool begun() const;
  Ending ending(const Part& part) const;
  std::string explain(const Part& part) const;

  const LaunchSpec& spec_;
  const JobHosts& hosts_;
  Console& console_;
  OnProgress on_progress_;
  std::deque<Part> parts_;
  std::vector<const Part*> order_;  // in which they ended
  std::string master_;              // where the ranks meet; empty until the first host has said so
  std::deque<std::string> held_;    // lines that are shown only if the job fails
  const Clock::time_point start_ = Clock::now();
  Clock::time_point signed_ = Clock::now();  // when the hosts got our last sign of life
  std::optional<Clock::time_point> failed_, ending_;
  int stop_ = 0;  // the signal that we were stopped by
  std::string given_up_;
  int given_up_status_ = 0;
};

}  // namespace sotto
