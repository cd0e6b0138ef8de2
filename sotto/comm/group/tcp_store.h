#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "sotto/comm/group/store.h"
#include "sotto/comm/interfaces.h"
#include "sotto/comm/secret.h"

namespace sotto {

class Tls;

// What a server allows, so that no stranger exhausts it.
struct StoreLimits {
  // How long a connection may take until it has said that it is a member, from then on until it has sent a request
  // that it began, and until it has taken the answer.
  std::chrono::milliseconds silence{60000};
  std::size_t guests = 256;           // connections that have not said so; the oldest gives way to a new one
  std::size_t of_an_address = 2048;   // connections
  std::size_t request = 16 << 20;     // bytes of keys and values in one request
  std::uint64_t stored = 1 << 30;     // bytes of all keys and values, with what the map takes
  std::uint64_t under_way = 1 << 30;  // bytes of all requests that have not arrived, and of answers that nobody took
};

// Stores of our own, over TCP. With a secret every connection is private (TLS), and only those that know the secret are
// let in; otherwise everybody who reaches the port may read and write. A store is a map in the memory of the process
// that serves it; that process uses it without a connection.
class TcpStores final : public StoreService {
 public:
  enum class Plain : bool { never, accepted };
  // With Plain::accepted, join() also takes a server without a secret, such as a coordinator that has none.
  explicit TcpStores(const std::optional<Secret>& secret = std::nullopt, Plain plain = Plain::never,
                     const StoreLimits& limits = {});
  ServedStore serve(const std::string& host, std::uint16_t port, std::chrono::milliseconds deadline,
                    const Stop& stop) const override;
  // As StoreService says; ConfigError if the secret is another one, or only one side has a secret. A request to the
  // store that is not answered within the deadline and a second more ends with CommError, and so do all later ones.
  StorePtr join(const std::string& host, std::uint16_t port, std::chrono::milliseconds deadline, const Stop& stop,
                std::string_view server = "rank 0 or the launcher") const override;

 private:
  std::shared_ptr<const Tls> tls_;  // null: there is no secret
  Plain plain_;
  StoreLimits limits_;
};

const StoreService& plain_stores();  // without a secret

// What a client says to a server: 32 bytes, little-endian, then the key, the value and the expected value. The first
// request of a connection is `hello`, which has none of them.
struct StoreRequest {
  enum class Kind : std::uint8_t { hello = 1, set, get, check, add, compare_set, remove };

  std::uint32_t word = 0x71747373;  // "sstq"
  Kind kind = Kind::hello;
  std::uint8_t version = 1;
  std::uint16_t zero = 0;
  std::int64_t number = 0;  // to add
  std::uint32_t key_bytes = 0, value_bytes = 0, expected_bytes = 0, reserved = 0;
};
static_assert(sizeof(StoreRequest) == 32);

// The answer: 24 bytes, little-endian, then a value, or why the request is refused.
struct StoreReply {
  enum class Kind : std::uint8_t { done = 1, missing, denied, wants_secret };

  std::uint32_t word = 0x72747373;  // "sstr"
  Kind kind = Kind::done;
  std::uint8_t version = 1;
  std::uint16_t zero = 0;
  std::int64_t number = 0;  // the sum, or 1 if a key is there
  std::uint32_t value_bytes = 0, reserved = 0;
};
static_assert(sizeof(StoreReply) == 24);

// Serves a store at an address of this machine, or at all of them if it is nothing, on its own thread, until
// nobody has the store any more. Connections that say something else than requests are closed, with at most a line a
// second in the log. std::system_error if it cannot listen there.
ServedStore serve_store(const std::optional<SocketAddress>& address, std::uint16_t port, std::shared_ptr<const Tls> tls,
                        const StoreLimits& limits);

}  // namespace sotto
