#include "adapters/c10d/store.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <string>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <utility>
#include <vector>

#include "sotto/comm/patience.h"
#include "sotto/core/timer.h"

namespace sotto {
namespace {

using Bytes = std::vector<std::uint8_t>;

Bytes bytes(const std::string& text) { return {text.begin(), text.end()}; }
std::string text(const Bytes& bytes) { return {bytes.begin(), bytes.end()}; }

class AsC10d final : public c10d::Store {
 public:
  AsC10d(StorePtr store, std::chrono::milliseconds timeout) : Store(timeout), store_(std::move(store)) {}

  std::optional<std::string> why_in_vain() const { return store_->why_in_vain(); }

  c10::intrusive_ptr<c10d::Store> clone() override { return c10::make_intrusive<AsC10d>(store_, timeout_); }
  void set(const std::string& key, const Bytes& value) override { store_->set(key, text(value)); }
  Bytes compareSet(const std::string& key, const Bytes& expected, const Bytes& desired) override {
    return bytes(store_->compare_set(key, text(expected), text(desired)));
  }
  Bytes get(const std::string& key) override {
    wait({key});
    return bytes(store_->get(key));
  }
  std::int64_t add(const std::string& key, std::int64_t value) override { return store_->add(key, value); }
  bool deleteKey(const std::string& key) override {
    const bool was_there = store_->check(key);
    store_->remove(key);
    return was_there;
  }
  bool check(const std::vector<std::string>& keys) override {
    return std::ranges::all_of(keys, [this](const std::string& key) { return store_->check(key); });
  }
  std::int64_t getNumKeys() override { C10_THROW_ERROR(NotImplementedError, "the keys of this store are not counted"); }
  void wait(const std::vector<std::string>& keys) override { wait(keys, timeout_); }
  void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds& timeout) override {
    const auto until = Clock::now() + timeout;
    for (Patience patience(std::chrono::milliseconds(100)); !check(keys); patience.pause(until)) {
      if (const auto why = store_->why_in_vain()) C10_THROW_ERROR(DistStoreError, *why);
      if (Clock::now() >= until) C10_THROW_ERROR(DistStoreError, "timed out");
    }
  }

 private:
  StorePtr store_;
};

class FromC10d final : public Store {
 public:
  explicit FromC10d(c10::intrusive_ptr<c10d::Store> store) : store_(std::move(store)) {
    c10::intrusive_ptr<c10d::Store> whole = store_;
    if (auto* part = dynamic_cast<c10d::PrefixStore*>(whole.get())) whole = part->getUnderlyingNonPrefixStore();
    ours_ = dynamic_cast<AsC10d*>(whole.get());
  }

  void set(const std::string& key, const std::string& value) override {
    told([&] { store_->set(key, bytes(value)); });
  }
  std::string get(const std::string& key) override {
    return told([&] { return text(store_->get(key)); });
  }
  bool check(const std::string& key) override {
    return told([&] { return store_->check({key}); });
  }
  std::int64_t add(const std::string& key, std::int64_t number) override {
    return told([&] { return store_->add(key, number); });
  }
  std::string compare_set(const std::string& key, const std::string& expected, const std::string& desired) override {
    return told([&] { return text(store_->compareSet(key, bytes(expected), bytes(desired))); });
  }
  void remove(const std::string& key) override {
    told([&] { store_->deleteKey(key); });
  }
  std::optional<std::string> why_in_vain() override { return ours_ != nullptr ? ours_->why_in_vain() : std::nullopt; }

 private:
  // Its errors as ours.
  template <class Request>
  auto told(Request request) -> decltype(request()) {
    try {
      return request();
    } catch (const c10::DistNetworkError& error) {
      throw StoreClosed(error.what_without_backtrace());
    } catch (const c10::DistStoreError& error) {
      throw MissingKey(error.what_without_backtrace());
    }
  }

  c10::intrusive_ptr<c10d::Store> store_;
  const AsC10d* ours_ = nullptr;  // of which `store_` is a part, and which it keeps
};

}  // namespace

StorePtr from_c10d(c10::intrusive_ptr<c10d::Store> store) { return std::make_shared<FromC10d>(std::move(store)); }

c10::intrusive_ptr<c10d::Store> as_c10d(StorePtr store, std::chrono::milliseconds timeout) {
  return c10::make_intrusive<AsC10d>(std::move(store), timeout);
}

}  // namespace sotto
