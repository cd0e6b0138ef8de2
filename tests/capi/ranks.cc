#include "tests/capi/ranks.h"

#include <gtest/gtest.h>

#include <deque>
#include <thread>
#include <vector>

namespace sotto::test {

SharedStore::SharedStore()
    : words_([]() -> Words& {
        static Mutex mutex;
        static std::deque<Words> all;
        const Lock lock(mutex);
        return all.emplace_back();
      }()) {}

sotto_store SharedStore::calls() {
  return {.set =
              [](void* context, const char* key, const void* value, std::size_t bytes) {
                auto& self = *static_cast<Words*>(context);
                const Lock lock(self.mutex);
                self.values[key].assign(static_cast<const char*>(value), bytes);
                return self.closed ? 1 : 0;
              },
          .find =
              [](void* context, const char* key, const sotto_sink* sink) {
                auto& self = *static_cast<Words*>(context);
                Lock lock(self.mutex);
                const auto found = self.values.find(key);
                const bool is_there = found != self.values.end();
                const std::string value = is_there ? found->second : "";
                lock.unlock();
                if (is_there) sink->take(sink->context, value.data(), value.size());
                return self.closed ? 1 : 0;
              },
          .add =
              [](void* context, const char* key, std::int64_t number, std::int64_t* sum) {
                auto& self = *static_cast<Words*>(context);
                const Lock lock(self.mutex);
                std::string& value = self.values[key];
                *sum = (value.empty() ? 0 : std::stoll(value)) + number;
                value = std::to_string(*sum);
                return self.closed ? 1 : 0;
              },
          .set_first =
              [](void* context, const char* key, const void* desired, std::size_t bytes, const sotto_sink* sink) {
                auto& self = *static_cast<Words*>(context);
                Lock lock(self.mutex);
                const std::string wish(static_cast<const char*>(desired), bytes);
                const std::string value = self.values.emplace(key, wish).first->second;
                lock.unlock();
                sink->take(sink->context, value.data(), value.size());
                return self.closed ? 1 : 0;
              },
          .release = [](void* context) { ++static_cast<Words*>(context)->released; },
          .context = &words_};
}

void run_groups(int ranks, const std::function<void(sotto_group* group, int rank)>& work) {
  SharedStore store;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      const sotto_store calls = store.calls();
      sotto_group* group = nullptr;
      ASSERT_EQ(sotto_group_create(&calls, rank, ranks, nullptr, &group), SOTTO_OK) << sotto_last_error(0);
      work(group, rank);
      sotto_group_free(group);
    });
  }
  for (std::thread& thread : threads) thread.join();
  while (store.released() < ranks) std::this_thread::yield();
}

}  // namespace sotto::test
