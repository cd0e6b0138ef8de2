#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <system_error>

#include "sotto/comm/secret.h"

namespace sotto {

// Makes connections private among those that know a secret: TLS 1.3 with the secret as pre-shared key (RFC 8446), and a
// fresh Diffie-Hellman exchange for each connection, so that whoever learns the secret later cannot read a recorded
// connection. Both sides prove that they know the secret. There are no certificates. SIGPIPE is ignored from then on
// (broken_pipes.h).
class Tls {
 public:
  // A side changes its key after so many bytes. AES-GCM is safe for 2^24.5 records of 16 KiB under one key (RFC 8446,
  // section 5.5), which is more than the default. CommError if OpenSSL has no TLS 1.3.
  explicit Tls(const Secret& secret, std::uint64_t bytes_of_a_key = std::uint64_t{1} << 36);
  ~Tls();
  Tls(const Tls&) = delete;
  Tls& operator=(const Tls&) = delete;

  // Shows members before they connect whether their secrets differ. It is the beginning of a keyed hash (HMAC-SHA256)
  // of bytes that are new for each listener, and tells nothing else.
  using Fingerprint = std::array<std::byte, 4>;
  Fingerprint fingerprint(std::span<const std::byte> of) const;

 private:
  friend class TlsLine;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Whether a handshake failed as it does if the other side has another secret. Neither side can tell this from a
// handshake that was changed on the way.
bool is_other_secret(const std::error_code& error);
bool is_tls_error(const std::error_code& error);  // the other side did not say what TLS says

// TLS over one socket, which must not block, and must outlive this object; `tls` need not outlive it. No function
// blocks: each does what it can at once, and says what it waits for. Failures are in Progress::error. CommError from
// the constructor: there is no memory.
class TlsLine {
 public:
  enum class Side { client, server };
  enum class Wants { nothing, read, write };
  struct Progress {
    std::size_t bytes = 0;  // if it is not 0, the other two are not set
    Wants wants = Wants::nothing;
    std::error_code error{};
  };

  TlsLine(const Tls& tls, int socket, Side side);
  ~TlsLine();
  TlsLine(const TlsLine&) = delete;
  TlsLine& operator=(const TlsLine&) = delete;

  Progress handshake();  // done if it wants nothing and there is no error
  // Reads into the first room, then into the second. After the handshake.
  Progress read(std::array<std::span<std::byte>, 2> rooms);
  // Writes the first part, then the second. What was not written must come first in the next call.
  Progress write(std::array<std::span<const std::byte>, 2> parts);

 private:
  struct Impl;
  Progress progress(int result);

  std::unique_ptr<Impl> impl_;
};

}  // namespace sotto
