#include "sotto/train/file_work.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <exception>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "sotto/core/error.h"
#include "sotto/core/mutex.h"
#include "sotto/core/timer.h"

namespace sotto {
namespace {

enum State : std::uint8_t { at_work, done, failed };

// The working thread; the destructor always waits for it.
class Labour {
 public:
  explicit Labour(const std::function<void()>& work) {
    try {
      thread_ = std::thread([this, &work] { run(work); });
    } catch (const std::system_error&) {  // no thread is available: works here, without signs of life
      run(work);
    }
  }
  ~Labour() {
    if (thread_.joinable()) thread_.join();
  }
  Labour(const Labour&) = delete;
  Labour& operator=(const Labour&) = delete;

  State wait(Clock::duration most) {
    Lock lock(mutex_);
    changed_.wait_for(lock, most, [this]() SOTTO_REQUIRES(mutex_) { return state_ != at_work; });
    return state_;
  }
  // REQUIRES that the work has ended.
  std::exception_ptr error() const { return error_; }

 private:
  void run(const std::function<void()>& work) {
    try {
      work();
    } catch (...) {
      error_ = std::current_exception();
    }
    const Lock lock(mutex_);
    state_ = error_ ? failed : done;
    changed_.notify_all();
  }

  Mutex mutex_;
  Condition changed_;
  State state_ SOTTO_GUARDED_BY(mutex_) = at_work;
  std::exception_ptr error_;  // owned by the thread until `state_` says that it has ended
  std::thread thread_;
};

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
  const auto beat =
      std::clamp<Clock::duration>(communicator_.deadline() / 4, std::chrono::milliseconds(10), std::chrono::seconds(5));
  const auto until = Clock::now() + limit_;
  std::vector<State> states(static_cast<std::size_t>(communicator_.size()));
  Labour labour(work);
  for (;;) {
    const State mine = labour.wait(beat);
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
    const std::string all = words_of(labour.error());
    std::memcpy(words.data(), all.data(), std::min(all.size(), words.size() - 1));
  }
  communicator_.broadcast(std::as_writable_bytes(std::span(words)), rank);
  if (const auto error = labour.error()) std::rethrow_exception(error);
  throw CommError(fmt::format("rank {} could not {}: {}", rank, doing, words.data()));
}

}  // namespace sotto
