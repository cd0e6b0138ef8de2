#include "adapters/c10d/store.h"

#include <c10/util/Exception.h>
#include <c10/util/Logging.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <stdexcept>
#include <string>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <utility>
#include <vector>

#include "adapters/c10d/transports.h"
#include "sotto/comm/deadline.h"
#include "sotto/comm/group/bounded_store.h"
#include "sotto/comm/group/store.h"
#include "sotto/comm/interfaces.h"
#include "sotto/core/error.h"
#include "sotto/core/open_file.h"
#include "sotto/core/timer.h"

namespace sotto {
namespace {

using Bytes = std::vector<std::uint8_t>;

Bytes bytes(const std::string& text) { return {text.begin(), text.end()}; }
std::string text(const Bytes& bytes) { return {bytes.begin(), bytes.end()}; }

class AsC10d final : public c10d::Store {
 public:
  AsC10d(StorePtr store, std::chrono::milliseconds timeout) : Store(timeout), store_(std::move(store)) {}

  std::optional<std::string> why_no_progress() const { return store_->why_no_progress(); }

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
    try {
      for (const std::string& key : keys) store_->await(key, until);
    } catch (const MissingKey& missing) {
      C10_THROW_ERROR(DistStoreError, missing.what());
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
  std::optional<std::string> why_no_progress() override {
    return ours_ != nullptr ? ours_->why_no_progress() : std::nullopt;
  }

 private:
  // Throws errors of c10d's store as our exceptions.
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
  const AsC10d* ours_ = nullptr;  // `store_` is a part of it, and keeps it
};

using namespace std::chrono_literals;

double seconds(Clock::duration time) { return std::chrono::duration<double>(time).count(); }

c10::intrusive_ptr<c10d::TCPStore> make_store(const std::string& host, const c10d::TCPStoreOptions& options) {
  FLAGS_caffe2_log_level = c10::GLOG_FATAL;  // c10d would print stack traces of errors that we report in one line
  return c10::make_intrusive<c10d::TCPStore>(host, options);
}

// Whether somebody accepts connections there. Takes up to five seconds, since a lost first packet is sent again.
bool accepts(const SocketAddress& address, Clock::time_point until, const Stop& stop) {
  const Descriptor socket(::socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const auto end = std::min(until, Clock::now() + 5s);
  bool connected = ::connect(socket.get(), address.get(), address.length()) == 0;
  while (!connected && errno == EINPROGRESS && Clock::now() < end && !(stop && stop() != 0)) {
    pollfd polled{socket.get(), POLLOUT, 0};
    if (::poll(&polled, 1, 20) > 0) {
      int error = 0;
      socklen_t length = sizeof(error);
      ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &length);
      connected = error == 0;
      break;
    }
    errno = EINPROGRESS;
  }
  return connected;
}

StorePtr join_store(const std::string& host, std::uint16_t port, std::chrono::milliseconds deadline, const Stop& stop,
                    std::string_view server) {
  const auto begin = Clock::now(), until = begin + deadline;
  const auto addresses = bounded(until, stop, [host, port] { return resolve(host, port); });
  throw_if_stopped(stop);
  if (!addresses) {
    throw CommError(fmt::format("nobody says where the host `{}` is, for {:g} s", host, seconds(deadline)));
  }
  // c10d's client does not report a server that accepts and stays silent, and keeps retrying even if it cannot succeed.
  const auto anybody = [&](const SocketAddress& address) { return accepts(address, until, stop); };
  for (Patience patience(200ms); !std::ranges::any_of(*addresses, anybody); patience.pause(until)) {
    throw_if_stopped(stop);
    if (Clock::now() < until) continue;
    throw CommError(fmt::format("nobody serves the ranks' meeting place at {}:{}, for {:g} s; is {} running there?",
                                host, port, seconds(deadline), server));
  }
  c10d::TCPStoreOptions options;
  options.waitWorkers = false;
  options.timeout = std::max(1ms, std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()));
  options.port = port;
  std::string why = "does not answer";
  try {
    const auto store = bounded(until, stop, [host, options] { return make_store(host, options); });
    if (store) return from_c10d(*store);
  } catch (const c10::DistNetworkError&) {
    why = "closes them at once";
  } catch (const c10::Error&) {
    why = "answers something else";
  }
  throw_if_stopped(stop);
  throw CommError(
      fmt::format("what accepts connections at {}:{} is no meeting place of ranks: it {}, for {:.3g} s; is it another "
                  "program, or stopped?",
                  host, port, why, seconds(Clock::now() - begin)));
}

class C10dStores final : public StoreService {
 public:
  ServedStore serve(const std::string&, std::uint16_t, std::chrono::milliseconds, const Stop&) const override {
    throw std::logic_error("stores of c10d are served by others");
  }
  StorePtr join(const std::string& host, std::uint16_t port, std::chrono::milliseconds deadline, const Stop& stop,
                std::string_view server) const override {
    return join_store(host, port, deadline, stop, server);
  }
};

}  // namespace

StorePtr from_c10d(c10::intrusive_ptr<c10d::Store> store) { return std::make_shared<FromC10d>(std::move(store)); }

c10::intrusive_ptr<c10d::Store> as_c10d(StorePtr store, std::chrono::milliseconds timeout) {
  return c10::make_intrusive<AsC10d>(std::move(store), timeout);
}

const StoreService& c10d_stores() {
  static const C10dStores stores;
  return stores;
}

}  // namespace sotto
