#include <fmt/format.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <thread>

#include "adapters/c10d/transports.h"
#include "app/cli/commands.h"
#include "app/cli/flags.h"
#include "app/report/text_table.h"
#include "sotto/comm/interfaces.h"
#include "sotto/comm/transport.h"
#include "sotto/comm/world.h"
#include "sotto/core/error.h"
#include "sotto/core/text.h"

namespace sotto {
namespace {

constexpr std::string_view examples = R"text(
Each line is ok, warn or fail, with the reason and what to do about it. Exit status 1 when anything would fail.

Example:
  sotto doctor --interface eth0)text";

enum class Verdict { ok, warn, fail };

class Report {
 public:
  void say(Verdict verdict, std::string_view topic, std::string_view what) {
    constexpr std::array<std::string_view, 3> words{"ok", "warn", "fail"};
    fmt::print("{:<4}  {:<10}  {}\n", words[static_cast<std::size_t>(verdict)], topic, what);
    flush_output();
    failed_ = failed_ || verdict == Verdict::fail;
  }
  // Runs a check; an error that it throws is a finding, too.
  template <class Check>
  void try_to(std::string_view topic, std::string_view advice, Check check) {
    try {
      check();
    } catch (const ConfigError& error) {
      say(Verdict::fail, topic, fmt::format("{}; {}", error.text(flag_spelling), advice));
    } catch (const Error& error) {
      say(Verdict::fail, topic, fmt::format("{}; {}", error.what(), advice));
    }
  }
  bool failed() const { return failed_; }

 private:
  bool failed_ = false;
};

void check_interfaces(Report& report, const std::string& wanted) {
  const auto found = interfaces();
  for (const auto& [name, interface] : found) {
    const bool matters = wanted.empty() || name == wanted;
    const Verdict bad = !matters ? Verdict::ok : wanted.empty() ? Verdict::warn : Verdict::fail;
    if (interface.addresses.empty()) {
      report.say(interface.up || !wanted.empty() ? bad : Verdict::ok, "interface",
                 fmt::format("{}: no address{}", name, interface.up ? "" : ", down"));
    } else {
      report.say(interface.up ? Verdict::ok : bad, "interface",
                 fmt::format("{}: {}{}", name, fmt::join(interface.addresses, ", "),
                             interface.up ? "" : "; it is down: `ip link set " + name + " up`"));
    }
  }
  if (!wanted.empty() && !found.contains(wanted)) {
    report.say(Verdict::fail, "interface", fmt::format("--interface {}: there is none of this name", wanted));
  }
}

void check_threads(Report& report) {
  const unsigned cores = std::max(1U, std::thread::hardware_concurrency());
  report.say(Verdict::ok, "cores", fmt::format("{} usable", cores));
  const auto value = [](const char* name) {
    const char* text = std::getenv(name);
    return text == nullptr ? fmt::format("{} is not set", name) : fmt::format("{}={}", name, text);
  };
  report.say(Verdict::ok, "threads", value("OMP_NUM_THREADS") + "; `sotto train --ranks N` gives each rank cores / N");
  const char* policy = std::getenv("OMP_WAIT_POLICY");
  const bool spins = policy != nullptr && strcasecmp(policy, "passive") != 0;
  report.say(spins ? Verdict::warn : Verdict::ok, "threads",
             value("OMP_WAIT_POLICY") + "; where another launcher starts several ranks a machine, set it to passive");
}

void check_launch(Report& report, const std::string& master) {
  const World world = find_world(master);
  if (world.starter == "single") {
    report.say(Verdict::ok, "launch", "no launcher's variables: `sotto train --ranks N` starts the ranks itself");
  } else {
    report.say(Verdict::ok, "launch",
               fmt::format("started by {}: rank {} of {}, meeting at {}:{}", world.starter, world.rank, world.size,
                           world.host, world.port));
  }
}

void check_master(Report& report, const std::string& master) {
  if (master.empty()) return;
  report.try_to("master", "ranks would not meet there", [&] {
    const MeetingPlace place = read_meeting_place(named("master", master), master);
    const auto found = resolve(place.host, place.port);
    report.say(Verdict::ok, "master",
               fmt::format("{} has {} address{}", place.host, found.size(), found.size() == 1 ? "" : "es"));
  });
}

void check_transport(Report& report, const Transport& transport, const std::string& interface) {
  report.try_to(transport.name, "training on several ranks is going to fail like this", [&] {
    std::string found = transport.check(interface);
    if (found.empty()) {
      found = fmt::format("this program was built without, so there is no --backend {}", transport.name);
    } else if (!transport.needs.empty()) {
      found += fmt::format("; --backend {} wants {}", transport.name, transport.needs);
    }
    report.say(Verdict::ok, transport.name, found);
  });
}

void check_space(Report& report) {
  constexpr double wanted_memory = 1e9, wanted_disk = 1e9;
  const double memory = static_cast<double>(sysconf(_SC_AVPHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
  report.say(memory < wanted_memory ? Verdict::warn : Verdict::ok, "memory",
             bytes_text(memory) + " free, without caches");
  std::error_code error;
  const auto space = std::filesystem::space(".", error);
  const auto available = static_cast<double>(space.available);
  const bool writable = access(".", W_OK) == 0;
  report.say(error || !writable        ? Verdict::fail
             : available < wanted_disk ? Verdict::warn
                                       : Verdict::ok,
             "disk",
             error       ? error.message()
             : !writable ? "this folder cannot be written to: choose another one with --train-dir"
                         : bytes_text(available) + " free in this folder, where runs/ is made");
}

}  // namespace

int run_doctor(std::span<const std::string> arguments) {
  std::string interface, master;
  Flags flags("doctor", "Checks what training needs of this machine.", examples);
  const Flags::Visit visit = [&](OptionVisitor& v) {
    v.option("interface", interface, "network interface that training will use");
    v.option("master", master, "host:port where ranks will meet");
  };
  if (!flags.read(arguments, visit)) return 0;

  Report report;
  report.say(Verdict::ok, "version", version_text());
  report.try_to("launch", "unset them, or start with torchrun, mpirun or srun again",
                [&] { check_launch(report, master); });
  check_master(report, master);
  check_threads(report);
  report.try_to("interface", "without any, only the loopback can be used",
                [&] { check_interfaces(report, interface); });
  for (const Transport& transport : transport_table()) check_transport(report, transport, interface);
  check_space(report);
  return report.failed() ? 1 : 0;
}

}  // namespace sotto
