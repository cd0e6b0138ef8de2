#include "app/train/folder/file_work.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <exception>
#include <string>
#include <vector>

#include "sotto/core/error.h"
#include "sotto/core/thread.h"
#include "sotto/core/timer.h"

namespace sotto {
namespace {

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

}  // namespace sotto
