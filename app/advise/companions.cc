#include "app/advise/companions.h"

#include "app/advise/lone_rank.h"
#include "sotto/core/thread.h"

namespace sotto {

Companions::Companions(const Choices& choices, std::size_t count) {
  const int ranks = static_cast<int>(choices.options.ranks);
  for (std::size_t i = 0; i < count; ++i) {
    tasks_.push_back(make_task(choices, {static_cast<int>(i + 1) % ranks, ranks}));
  }
  for (const auto& task : tasks_) {
    threads_.push_back(start_thread("other rank", [this, &choices, &task] {
      LoneRank rank(choices, *task);
      try {
        while (!stop_) rank.step({});
      } catch (const NumericError&) {  // it diverged
      }
    }));
  }
}

Companions::~Companions() {
  stop_ = true;
  for (auto& thread : threads_) thread.join();
}

}  // namespace sotto
