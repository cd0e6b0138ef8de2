#include "app/train/folder/run_folder.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cctype>
#include <cstring>
#include <exception>
#include <random>

#include "app/train/record/recorder.h"
#include "app/train/stop_signal.h"

namespace sotto {
namespace fs = std::filesystem;
using namespace std::chrono_literals;
namespace {

// The options for a replay of this run: the same, in its own folder.
TrainOptions replayable(TrainOptions options) {
  options.train_dir.clear();
  options.resume = false;
  options.master.clear();
  for (std::string* path : {&options.data.data_dir, &options.weights}) {
    if (!path->empty()) *path = fs::absolute(*path).string();
  }
  if (options.tensorboard) options.tensorboard = fs::absolute(*options.tensorboard).string();
  return options;
}

// The text by which rank 0 of a generation signs the lock.
std::string signature(const std::string& run, std::uint64_t generation) {
  return fmt::format("{} {}", run, generation);
}

// Whether `found` is the signature of a generation of this run before `generation`. Jobs whose group never changes have
// no generation.
bool is_earlier(const std::string& found, const std::string& run, std::uint64_t generation) {
  for (std::uint64_t earlier = 1; earlier < generation && !run.empty(); ++earlier) {
    if (found == signature(run, earlier)) return true;
  }
  return false;
}

void require_no_search(const fs::path& folder) {
  if (!path_exists(folder / "tune.json")) return;
  throw ConfigError(named("train-dir", folder.string()) + ": holds a search of `sotto tune`; choose another folder");
}

enum State : std::uint8_t { at_work, done, failed };

std::string words_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& exception) {
    return exception.what();
  } catch (...) {
    return "an unknown error";
  }
}

}  // namespace

void FileWork::run(std::string_view doing, const std::function<void()>& work) {
  if (communicator_.size() == 1) return work();
  const auto beat = std::clamp<Clock::duration>(communicator_.deadlines().least() / 4, std::chrono::milliseconds(10),
                                                std::chrono::seconds(5));
  const auto until = Clock::now() + limit_;
  std::vector<State> states(static_cast<std::size_t>(communicator_.size()));
  std::exception_ptr error;  // of this rank
  State mine = at_work;
  auto labour = begin_work([&work] { work(); });
  for (;;) {
    if (mine == at_work && labour.wait_for(beat) == std::future_status::ready) {
      try {
        labour.get();
        mine = done;
      } catch (...) {
        error = std::current_exception();
        mine = failed;
      }
    }
    communicator_.all_gather(std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(states)));
    const auto slow = std::ranges::find(states, at_work);
    if (slow == states.end()) break;
    if (Clock::now() > until) {
      throw CommError(fmt::format("rank {}: waited {:g} s for rank {} to {}; disk-deadline says how long",
                                  communicator_.rank(), std::chrono::duration<double>(limit_).count(),
                                  slow - states.begin(), doing));
    }
  }
  const auto first = std::ranges::find(states, failed);
  if (first == states.end()) return;
  const auto rank = static_cast<int>(first - states.begin());
  std::array<char, 1024> words{};
  if (communicator_.rank() == rank) {
    const std::string all = words_of(error);
    std::memcpy(words.data(), all.data(), std::min(all.size(), words.size() - 1));
  }
  communicator_.broadcast(std::as_writable_bytes(std::span(words)), rank);
  if (error) std::rethrow_exception(error);
  throw CommError(fmt::format("rank {} could not {}: {}", rank, doing, words.data()));
}

std::string plain_name(std::string_view text) {
  constexpr std::size_t longest = 60;
  std::string name;
  for (const char c : text) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.';
    if (plain) name += c;
    if (!plain && !name.empty() && name.back() != '-') name += '-';
  }
  name = name.substr(0, longest);
  while (name.ends_with('-')) name.pop_back();
  return name;
}

std::string new_run_folder(std::string_view name) {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  name.remove_prefix(name.rfind('/') + 1);  // of a path
  return fmt::format("runs/{}-{:%Y%m%d-%H%M%S}-{}", plain_name(name), fmt::localtime(now), ::getpid());
}

void require_unused(const fs::path& folder) {
  std::error_code missing;
  if (!fs::exists(folder / "steps.csv", missing) && checkpoint::find(folder).empty()) return;
  throw ConfigError(fmt::format("{}: already holds a run; {} continues it, or choose another folder",
                                named("train-dir", folder.string()), named("resume")));
}

void check_run_folder(const TrainOptions& options) {
  if (options.train_dir.empty()) return;
  require_no_search(options.train_dir);
  if (!options.resume) require_unused(options.train_dir);
}

RunFolder::RunFolder(const Choices& choices, Communicator& communicator, std::uint64_t generation,
                     const std::string& run)
    : choices_(choices),
      options_(choices.options),
      communicator_(communicator),
      generation_(generation),
      files_(communicator, std::chrono::seconds(options_.disk_deadline)),
      replicated_(choices.algorithm.entry->traits.replicated) {
  // Rank 0 decides for all, so that they agree even if clocks and folders differ.
  std::array<char, 4096> name{};
  on_first("prepare the run folder", [&] {
    choose(run);
    const std::string text = path_.string();
    if (text.size() >= name.size()) throw ConfigError(named("train-dir") + ": the path is longer than 4095 bytes");
    std::memcpy(name.data(), text.data(), text.size());
    std::random_device random;
    run_ = (std::uint64_t{random()} << 32) | random();
  });
  communicator.broadcast(std::as_writable_bytes(std::span(name)), 0);
  communicator.broadcast(std::as_writable_bytes(std::span(&run_, 1)), 0);
  path_ = name.data();
}

void RunFolder::on_first(std::string_view doing, const std::function<void()>& work) {
  files_.run(doing, [&] {
    if (communicator_.rank() == 0) work();
  });
}

void RunFolder::choose(const std::string& run) {
  path_ = options_.train_dir.empty() ? fs::path(new_run_folder(options_.model)) : fs::path(options_.train_dir);
  std::error_code missing;
  if (options_.resume && !fs::is_directory(path_, missing)) {
    throw ConfigError(named("resume") + ": there is no folder " + path_.string());
  }
  make_folder(path_);
  require_no_search(path_);
  take_lock(run);
  if (!options_.resume) require_unused(path_);
  checkpoint::remove_partial(path_);
  remove_temporaries(path_);
}

void RunFolder::take_lock(const std::string& run) {
  constexpr std::chrono::seconds lost_rank_lives(150);  // longer than ranks live without their launcher
  constexpr std::chrono::seconds respite(10);           // for a rank that is about to learn that it is lost
  const auto begun = Clock::now();
  const auto until =
      begun + (generation_ > 1 ? std::min(lost_rank_lives, std::chrono::seconds(options_.disk_deadline)) : 0s);
  for (lock_.emplace(path_); !lock_->held() && Clock::now() < until; lock_.emplace(path_)) {
    if (const int signal = StopSignal::caught(); signal != 0) {
      throw Stopped("stopped by a signal while another run was at work in " + path_.string(), signal);
    }
    if (Clock::now() - begun > respite && is_earlier(lock_->signature(), run, generation_)) {
      lock_->seize();
      break;
    }
    std::this_thread::sleep_for(100ms);
  }
  if (!lock_->held()) {
    throw ConfigError(named("train-dir", path_.string()) + ": another run is at work there; choose another folder");
  }
  if (!run.empty()) lock_->sign(signature(run, generation_));  // at once: an earlier holder may have signed the file
}

// On rank 0, before it changes files: another rank 0 may have taken the folder since.
void RunFolder::require_lock() const {
  if (lock_->lost()) throw FileError(path_.string() + ": the others have gone on without this rank, and write there");
}

std::string RunFolder::begin(std::span<const std::uint64_t> first_steps, const Evaluations& evaluations) {
  std::string rows;
  on_first("prepare the run folder", [&] {
    lock_->sign(signature(run(), generation_));
    recorded_bytes_ = Recorder::prepare(path_, first_steps);
    rows = evaluations.prepare(path_, start_step_);
  });
  return broadcast_text(std::move(rows), communicator_);
}

void RunFolder::write_options(bool trains) {
  on_first("write the options", [&] {
    if (!choices_.links.file.empty()) write_file_atomic(path_ / "link.toml", choices_.links.file);
    if (!trains && path_exists(path_ / "config.toml")) return;
    const ChosenOptimiser& optimiser = choices_.optimiser;
    write_file_atomic(path_ / "config.toml",
                      fmt::format("{}# With these: optimiser {}, lr {}\n", to_toml(replayable(options_)),
                                  optimiser.spec.text(), format_double(optimiser.lr)));
  });
}

}  // namespace sotto
