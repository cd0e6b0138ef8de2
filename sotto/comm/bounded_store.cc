#include "sotto/comm/bounded_store.h"

#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <algorithm>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <utility>

#include "sotto/comm/bounded.h"
#include "sotto/comm/patience.h"
#include "sotto/core/error.h"

namespace sotto {
namespace {

c10::intrusive_ptr<BoundedStore> outer_of(c10::intrusive_ptr<c10d::Store> store) {
  if (auto* part = dynamic_cast<c10d::PrefixStore*>(store.get())) store = part->getUnderlyingNonPrefixStore();
  auto* outer = dynamic_cast<BoundedStore*>(store.get());
  if (outer == nullptr) return {};
  return c10::intrusive_ptr<BoundedStore>::reclaim_copy(outer);
}

}  // namespace

BoundedStore::BoundedStore(c10::intrusive_ptr<c10d::Store> store, std::string place, std::chrono::milliseconds limit)
    : Store(limit), inner_(std::make_shared<Inner>()), limit_(limit) {
  inner_->outer = outer_of(store);
  inner_->store = std::move(store);
  inner_->place = std::move(place);
}

BoundedStore::BoundedStore(std::shared_ptr<Inner> inner, std::chrono::milliseconds limit, Clock::time_point end,
                           Stop stop)
    : Store(limit), inner_(std::move(inner)), limit_(limit), end_(end), stop_(std::move(stop)) {}

c10::intrusive_ptr<BoundedStore> BoundedStore::until(Clock::time_point end, Stop stop) const {
  auto store =
      c10::intrusive_ptr<BoundedStore>::unsafe_steal_from_new(new BoundedStore(inner_, limit_, end, std::move(stop)));
  store->why_in_vain_ = why_in_vain_;
  return store;
}

c10::intrusive_ptr<BoundedStore> BoundedStore::unless(WhyInVain why) const {
  auto store = until(end_, stop_);
  store->why_in_vain_ = std::move(why);
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
  } catch (const c10::DistNetworkError&) {
    throw CommError(
        fmt::format("{} closed the connection: it ended or was killed; its own output says why", inner_->place));
  }
  throw_if_stopped(stop_);
  inner_->silent = true;
  throw CommError(fmt::format("{} does not answer, for {:.3g} s", inner_->place,
                              std::chrono::duration<double>(Clock::now() - begin).count()));
}

std::optional<std::string> BoundedStore::why_in_vain() {
  std::optional<std::string> why;
  if (why_in_vain_) why = why_in_vain_(*this);
  if (!why && inner_->outer) why = ask([outer = inner_->outer](c10d::Store&) { return outer->why_in_vain(); });
  return why;
}

c10::intrusive_ptr<c10d::Store> BoundedStore::clone() { return until(end_, stop_); }

void BoundedStore::set(const std::string& key, const std::vector<std::uint8_t>& value) {
  ask([key, value](c10d::Store& store) {
    store.set(key, value);
    return true;
  });
}

std::vector<std::uint8_t> BoundedStore::compareSet(const std::string& key, const std::vector<std::uint8_t>& expected,
                                                   const std::vector<std::uint8_t>& desired) {
  return ask([key, expected, desired](c10d::Store& store) { return store.compareSet(key, expected, desired); });
}

std::vector<std::uint8_t> BoundedStore::get(const std::string& key) {
  wait({key});  // otherwise the store would wait for the key within one request
  return ask([key](c10d::Store& store) { return store.get(key); });
}

std::int64_t BoundedStore::add(const std::string& key, std::int64_t value) {
  return ask([key, value](c10d::Store& store) { return store.add(key, value); });
}

bool BoundedStore::deleteKey(const std::string& key) {
  return ask([key](c10d::Store& store) { return store.deleteKey(key); });
}

bool BoundedStore::check(const std::vector<std::string>& keys) {
  return ask([keys](c10d::Store& store) { return store.check(keys); });
}

std::int64_t BoundedStore::getNumKeys() {
  return ask([](c10d::Store& store) { return store.getNumKeys(); });
}

void BoundedStore::wait(const std::vector<std::string>& keys) { wait(keys, timeout_); }

void BoundedStore::wait(const std::vector<std::string>& keys, const std::chrono::milliseconds& timeout) {
  const auto until = std::min(Clock::now() + timeout, end_);
  for (Patience patience(std::chrono::milliseconds(100)); !check(keys); patience.pause(until)) {
    throw_if_stopped(stop_);
    if (const auto why = why_in_vain()) C10_THROW_ERROR(DistStoreError, *why);
    if (Clock::now() >= until) C10_THROW_ERROR(DistStoreError, "timed out");
  }
}

}  // namespace sotto
