#pragma once

#include <chrono>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "sotto/comm/deadline.h"
#include "sotto/core/error.h"
#include "sotto/core/timer.h"

namespace sotto {

// Nobody has written a key in time, or nobody ever will.
class MissingKey final : public Error {
 public:
  using Error::Error;
};

// The server of a store is gone.
class StoreClosed final : public CommError {
 public:
  using CommError::CommError;
};

class PortInUse final : public CommError {
 public:
  using CommError::CommError;
};

// Where the ranks of a job leave words for each other. Values are bytes; whoever reaches the server may have written
// them. A request to a server that is stopped may block forever: BoundedStore bounds it. StoreClosed if the server is
// gone.
class Store {
 public:
  Store() = default;
  virtual ~Store() = default;
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  virtual void set(const std::string& key, const std::string& value) = 0;
  // Waits until somebody has written the key. MissingKey if nobody does.
  virtual std::string get(const std::string& key) = 0;
  virtual bool check(const std::string& key) = 0;  // whether somebody has written it
  // Adds to a number in decimal digits, which is 0 at first; returns the sum.
  virtual std::int64_t add(const std::string& key, std::int64_t number) = 0;
  // Writes `desired` if the value is `expected`, or if nobody has written the key and `expected` is empty. Returns the
  // value that the key then has.
  virtual std::string compare_set(const std::string& key, const std::string& expected, const std::string& desired) = 0;
  virtual void remove(const std::string& key) = 0;
  // Why nobody should wait for keys of this store any more; nothing while ranks may.
  virtual std::optional<std::string> why_no_progress() { return std::nullopt; }
  // Asks again and again until somebody has written the key. MissingKey at `until`, or if there is no progress; Stopped
  // if `stop` says so.
  void await(const std::string& key, Clock::time_point until, const Stop& stop = {});
};

using StorePtr = std::shared_ptr<Store>;

// The keys of `store` that begin with "PREFIX/".
StorePtr part_of(StorePtr store, const std::string& prefix);

// A store in this process: get() does not wait for a key. What would take more than `most_bytes` bytes is refused with
// CommError.
StorePtr make_memory_store(std::uint64_t most_bytes = std::numeric_limits<std::uint64_t>::max());

struct ServedStore {
  StorePtr store;  // for this process; the server ends with it
  std::uint16_t port = 0;
};

// How the store of a job is served and reached. Its functions may be called on several threads at a time.
class StoreService {
 public:
  virtual ~StoreService() = default;
  // Port 0 means any free one. It listens on the loopback alone if `host` is the loopback, otherwise on all interfaces,
  // since a machine's name may resolve to another address here than on other machines. PortInUse if the port is taken;
  // CommError if it cannot be served otherwise, as when `host` is another machine; Stopped if `stop` says so;
  // ConfigError if the host is unknown.
  virtual ServedStore serve(const std::string& host, std::uint16_t port, std::chrono::milliseconds deadline,
                            const Stop& stop) const = 0;
  // Connects to a store that is served there, within the deadline, or until `stop` says so. CommError if nobody serves
  // one, or it does not answer; ConfigError at once if the host is unknown. `server` is who should serve it, for
  // errors.
  virtual StorePtr join(const std::string& host, std::uint16_t port, std::chrono::milliseconds deadline,
                        const Stop& stop, std::string_view server = "rank 0 or the launcher") const = 0;
};

// Serves a store until it is destroyed; for the launcher, which outlives its ranks. What find() returns is visible(),
// so it may be printed.
class StoreServer {
 public:
  // CommError if the port is in use.
  StoreServer(const StoreService& service, const std::string& host, std::uint16_t port = 0);
  std::uint16_t port() const { return served_.port; }
  void set(const std::string& key, const std::string& value) { served_.store->set(key, value); }
  std::optional<std::string> find(const std::string& key);  // nothing if nobody has set it

 private:
  ServedStore served_;
};

// Makes text from others safe for a terminal and for a log of one line: control characters, characters that change the
// order or the look of those around them, and bytes that are no UTF-8 become \n, \t or \xNN. A backslash stays. The
// text is cut after 4000 bytes. Whoever reaches a store may write to it, so texts from a store pass through this
// function before they are used.
std::string visible(std::string_view text);

}  // namespace sotto
