#include "sotto/comm/group/store.h"

#include <map>
#include <utility>

#include "sotto/comm/visible_text.h"
#include "sotto/core/mutex.h"

namespace sotto {
namespace {

class PartOfStore final : public Store {
 public:
  PartOfStore(StorePtr store, const std::string& prefix) : store_(std::move(store)), prefix_(prefix + "/") {}

  void set(const std::string& key, const std::string& value) override { store_->set(prefix_ + key, value); }
  std::string get(const std::string& key) override { return store_->get(prefix_ + key); }
  bool check(const std::string& key) override { return store_->check(prefix_ + key); }
  std::int64_t add(const std::string& key, std::int64_t number) override { return store_->add(prefix_ + key, number); }
  std::string compare_set(const std::string& key, const std::string& expected, const std::string& desired) override {
    return store_->compare_set(prefix_ + key, expected, desired);
  }
  void remove(const std::string& key) override { store_->remove(prefix_ + key); }
  std::optional<std::string> why_in_vain() override { return store_->why_in_vain(); }

 private:
  StorePtr store_;
  std::string prefix_;
};

class MemoryStore final : public Store {
 public:
  void set(const std::string& key, const std::string& value) override {
    const Lock lock(mutex_);
    values_[key] = value;
  }
  std::string get(const std::string& key) override {
    const Lock lock(mutex_);
    const auto found = values_.find(key);
    if (found == values_.end()) throw MissingKey("nobody has written `" + key + "`");
    return found->second;
  }
  bool check(const std::string& key) override {
    const Lock lock(mutex_);
    return values_.contains(key);
  }
  std::int64_t add(const std::string& key, std::int64_t number) override {
    const Lock lock(mutex_);
    std::string& value = values_[key];
    const std::int64_t sum = (value.empty() ? 0 : std::stoll(value)) + number;
    value = std::to_string(sum);
    return sum;
  }
  std::string compare_set(const std::string& key, const std::string& expected, const std::string& desired) override {
    const Lock lock(mutex_);
    const auto found = values_.find(key);
    if (found == values_.end() && !expected.empty()) return expected;
    if (found == values_.end() || found->second == expected) values_[key] = desired;
    return values_[key];
  }
  void remove(const std::string& key) override {
    const Lock lock(mutex_);
    values_.erase(key);
  }

 private:
  Mutex mutex_;
  std::map<std::string, std::string> values_ SOTTO_GUARDED_BY(mutex_);
};

}  // namespace

StorePtr part_of(StorePtr store, const std::string& prefix) {
  return std::make_shared<PartOfStore>(std::move(store), prefix);
}

StorePtr make_memory_store() { return std::make_shared<MemoryStore>(); }

StoreServer::StoreServer(const StoreService& service, const std::string& host, std::uint16_t port)
    : served_(service.serve(host, port, std::chrono::seconds(10), {})) {}

// One request that is answered at once. A get() would wait if somebody took the key away after a check().
std::optional<std::string> StoreServer::find(const std::string& key) {
  static const std::string nothing = "nothing is there\n";
  const std::string value = served_.store->compare_set(key, nothing, nothing);
  if (value == nothing) return std::nullopt;
  return visible(value);
}

}  // namespace sotto
