#include "sotto/comm/meeting.h"

#include <c10/util/Logging.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <future>
#include <memory>
#include <mutex>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "sotto/core/error.h"
#include "sotto/core/timer.h"

namespace sotto {
namespace {

using namespace std::chrono_literals;

double seconds(std::chrono::milliseconds time) { return std::chrono::duration<double>(time).count(); }

c10::intrusive_ptr<c10d::TCPStore> open_store(const std::string& host, std::uint16_t port, bool serve,
                                              std::chrono::milliseconds deadline) {
  FLAGS_caffe2_log_level = c10::GLOG_FATAL;  // c10d prints stack traces of what is told here in one line
  c10d::TCPStoreOptions options;
  options.port = port;
  options.isServer = serve;
  options.waitWorkers = false;
  options.timeout = deadline;
  try {
    return c10::make_intrusive<c10d::TCPStore>(host, options);
  } catch (const std::exception& error) {
    const std::string_view what = error.what();
    if (what.find("EADDRINUSE") != what.npos || what.find("in use") != what.npos) {
      throw CommError(
          fmt::format("port {} is in use by another program; choose another with --master {}:PORT", port, host));
    }
    if (serve) {
      throw CommError(fmt::format("cannot serve the ranks' meeting place at {}:{}: {}", host, port,
                                  what.substr(0, what.find('\n'))));
    }
    throw CommError(fmt::format(
        "nobody serves the ranks' meeting place at {}:{}, for {:g} s; is rank 0 or the launcher running there?", host,
        port, seconds(deadline)));
  }
}

std::string key(std::string_view what, int rank) { return fmt::format("{}/{}", what, rank); }

// "here/0", "here/1", ...
std::vector<std::string> keys_of_all(std::string_view what, int size) {
  std::vector<std::string> keys(static_cast<std::size_t>(size));
  for (int rank = 0; rank < size; ++rank) keys[static_cast<std::size_t>(rank)] = key(what, rank);
  return keys;
}

std::vector<std::uint8_t> bytes(std::string_view text) { return {text.begin(), text.end()}; }
std::string text_of(const std::vector<std::uint8_t>& bytes) { return {bytes.begin(), bytes.end()}; }

// "PEER ERROR", as a rank that failed leaves it.
std::pair<int, std::string> read_report(const std::string& text) {
  return {std::stoi(text), text.substr(text.find(' ') + 1)};
}

// Talking to a store whose server is stopped or unreachable can block for ever: such work gets a thread of its own,
// which is left alone when it takes longer than `limit`.
template <class Work>
void at_most(std::chrono::milliseconds limit, Work work) {
  std::packaged_task<void()> task([work = std::move(work)]() mutable {
    try {
      work();
    } catch (const std::exception&) {  // the store is gone: as good as no answer
    }
  });
  auto done = task.get_future();
  std::thread(std::move(task)).detach();
  done.wait_for(limit);
}

bool appears(c10d::Store& store, const std::vector<std::string>& keys, Clock::time_point until) {
  while (!store.check(keys)) {
    if (Clock::now() >= until) return false;
    std::this_thread::sleep_for(5ms);
  }
  return true;
}

}  // namespace

Meeting::Meeting(const World& world, std::chrono::milliseconds deadline)
    : rank_(world.rank),
      size_(world.size),
      owned_(world.size > 1),
      serves_(world.host_store && world.size > 1),
      place_(fmt::format("{}:{}", world.host, world.port)) {
  if (size_ == 1) {
    store_ = c10::make_intrusive<c10d::HashStore>();
    return;
  }
  const auto until = Clock::now() + deadline;
  auto store = open_store(world.host, world.port, serves_, deadline);
  store_ = c10::make_intrusive<c10d::PrefixStore>(world.prefix, std::move(store));
  wait_until(until, deadline);
}

Meeting::Meeting(c10::intrusive_ptr<c10d::Store> store, int rank, int size)
    : rank_(rank),
      size_(size),
      owned_(false),
      serves_(false),
      place_("the process group's store"),
      store_(c10::make_intrusive<c10d::PrefixStore>("sotto", std::move(store))) {
  try {
    store_ = section(next_name("meeting"));
  } catch (const std::exception&) {
    throw CommError(fmt::format("rank {}: {} does not answer; has the rank that serves it ended?", rank_, place_));
  }
}

void Meeting::wait_until(Clock::time_point until, std::chrono::milliseconds deadline) {
  const auto keys = keys_of_all("here", size_);
  try {
    store_->set(keys[static_cast<std::size_t>(rank_)], bytes("1"));
    for (;; std::this_thread::sleep_for(5ms)) {
      if (store_->check({"failed"})) {
        const std::string who = text_of(store_->get("failed"));
        const std::string error = read_report(text_of(store_->get("failed/" + who))).second;
        throw CommError(fmt::format("rank {}: rank {} gave up: {}", rank_, who, error));
      }
      if (store_->check(keys)) return;
      if (Clock::now() >= until) break;
    }
    std::vector<int> missing;
    for (int rank = 0; rank < size_; ++rank) {
      if (!store_->check({key("here", rank)})) missing.push_back(rank);
    }
    const std::string error =
        fmt::format("rank {}: {} {} did not come within {:g} s at {}", rank_, missing.size() == 1 ? "rank" : "ranks",
                    fmt::join(missing, ", "), seconds(deadline), place_);
    give_up(error);  // who comes yet need not wait
    throw CommError(error);
  } catch (const CommError&) {
    throw;
  } catch (const std::exception&) {
    throw CommError(fmt::format("rank {}: the ranks' meeting place at {} was closed while they met", rank_, place_));
  }
}

Meeting::~Meeting() {
  if (!owned_) return;
  at_most(2500ms, [store = store_, rank = rank_, size = size_, serves = serves_] {
    store->set(key("bye", rank), bytes("1"));
    if (!serves) return;
    appears(*store, keys_of_all("bye", size), Clock::now() + 2s);
  });
}

c10::intrusive_ptr<c10d::Store> Meeting::section(const std::string& name) const {
  return c10::make_intrusive<c10d::PrefixStore>(name, store_);
}

std::string Meeting::next_name(const std::string& name) {
  return fmt::format("{}.{}", name, store_->add(key(name, rank_), 1) - 1);
}

std::string Meeting::report(int peer, const std::string& error) {
  struct Answer {
    std::mutex mutex;
    std::string cause;
  };
  const auto answer = std::make_shared<Answer>();
  at_most(3s, [store = store_, rank = rank_, size = size_, peer, error, answer]() mutable {
    if (peer < 0) {
      peer = appears(*store, {"failed"}, Clock::now() + 500ms) ? std::stoi(text_of(store->get("failed"))) : rank;
    }
    store->set(key("failed", rank), bytes(fmt::format("{} {}", peer, error)));
    store->set("failed", bytes(std::to_string(rank)));
    int next = peer;
    for (int hop = 0; hop < size && next != rank; ++hop) {
      if (!appears(*store, {key("failed", next)}, Clock::now() + 500ms)) return;
      std::string said;
      std::tie(next, said) = read_report(text_of(store->get(key("failed", next))));
      const std::lock_guard lock(answer->mutex);
      answer->cause = said;
    }
  });
  const std::lock_guard lock(answer->mutex);
  return answer->cause;
}

class StoreServer::Impl {
 public:
  Impl(const std::string& host, std::uint16_t port) : store_(open_store(host, port, true, 10s)) {}
  std::uint16_t port() const { return store_->getPort(); }

 private:
  c10::intrusive_ptr<c10d::TCPStore> store_;
};

StoreServer::StoreServer(const std::string& host, std::uint16_t port) : impl_(std::make_unique<Impl>(host, port)) {}
StoreServer::~StoreServer() = default;
std::uint16_t StoreServer::port() const { return impl_->port(); }

}  // namespace sotto
