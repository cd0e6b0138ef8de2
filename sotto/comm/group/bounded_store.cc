#include "sotto/comm/group/bounded_store.h"

#include <fmt/format.h>

namespace sotto {

BoundedStore::BoundedStore(StorePtr store, std::string place, std::chrono::milliseconds limit)
    : inner_(std::make_shared<Inner>()), limit_(limit) {
  inner_->store = std::move(store);
  inner_->place = std::move(place);
}

BoundedStore::BoundedStore(std::shared_ptr<Inner> inner, std::chrono::milliseconds limit, Clock::time_point end,
                           Stop stop)
    : inner_(std::move(inner)), limit_(limit), end_(end), stop_(std::move(stop)) {}

std::shared_ptr<BoundedStore> BoundedStore::until(Clock::time_point end, Stop stop) const {
  std::shared_ptr<BoundedStore> store(new BoundedStore(inner_, limit_, end, std::move(stop)));
  store->why_no_progress_ = why_no_progress_;
  return store;
}

std::shared_ptr<BoundedStore> BoundedStore::unless(WhyNoProgress why) const {
  auto store = until(end_, stop_);
  store->why_no_progress_ = std::move(why);
  return store;
}

template <class Request>
auto BoundedStore::ask(Request request) {
  if (inner_->silent) throw CommError(fmt::format("{} did not answer before", inner_->place));
  const auto begin = Clock::now();
  try {
    auto answer = bounded(std::min(begin + limit_, end_), stop_,
                          [inner = inner_, request = std::move(request)] { return request(*inner->store); });
    if (answer) return *std::move(answer);
  } catch (const StoreClosed&) {
    throw CommError(
        fmt::format("{} closed the connection: it ended or was killed; its own output says why", inner_->place));
  }
  throw_if_stopped(stop_);
  inner_->silent = true;
  throw CommError(fmt::format("{} does not answer, for {:.3g} s", inner_->place,
                              std::chrono::duration<double>(Clock::now() - begin).count()));
}

std::optional<std::string> BoundedStore::why_no_progress() {
  std::optional<std::string> why;
  if (why_no_progress_) why = why_no_progress_(*this);
  if (!why) why = ask([](Store& store) { return store.why_no_progress(); });
  return why;
}

void BoundedStore::set(const std::string& key, const std::string& value) {
  ask([key, value](Store& store) {
    store.set(key, value);
    return true;
  });
}

std::string BoundedStore::get(const std::string& key) {
  // Without this, the store would wait for the key within one request, which could block for long.
  await(key, std::min(Clock::now() + limit_, end_), stop_);
  return ask([key](Store& store) { return store.get(key); });
}

bool BoundedStore::check(const std::string& key) {
  return ask([key](Store& store) { return store.check(key); });
}

std::int64_t BoundedStore::add(const std::string& key, std::int64_t number) {
  return ask([key, number](Store& store) { return store.add(key, number); });
}

std::string BoundedStore::compare_set(const std::string& key, const std::string& expected, const std::string& desired) {
  return ask([key, expected, desired](Store& store) { return store.compare_set(key, expected, desired); });
}

void BoundedStore::remove(const std::string& key) {
  ask([key](Store& store) {
    store.remove(key);
    return true;
  });
}

}  // namespace sotto
