#include "sotto/comm/tcp/tls.h"

#include <openssl/err.h>
#include <openssl/hmac.h>
#include <openssl/ssl.h>

#include <algorithm>
#include <asio/error.hpp>
#include <cerrno>

#include "sotto/comm/interfaces.h"
#include "sotto/core/error.h"

namespace sotto {
namespace {

constexpr std::string_view identity = "sotto";
constexpr std::size_t record = 16 << 10;    // data of a TLS record
constexpr std::size_t at_once = 256 << 10;  // bytes of one call, so that one peer does not hold up the others

class Category final : public std::error_category {
 public:
  const char* name() const noexcept override { return "TLS"; }
  std::string message(int code) const override {
    const char* const reason = ERR_reason_error_string(static_cast<unsigned long>(code));
    return std::string("TLS: ") + (reason != nullptr ? reason : "it failed");
  }
};

const Category& category() {
  static const Category the_one;
  return the_one;
}

std::error_code tls_error(unsigned long code) { return {static_cast<int>(code == 0 ? 1 : code), category()}; }

const Secret& secret_of(const SSL* ssl) {
  return *static_cast<const Secret*>(SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl)));
}

// Null if there is no memory for it.
SSL_SESSION* session_of(SSL* ssl) {
  const Secret& secret = secret_of(ssl);
  const std::array<unsigned char, 2> aes_128_gcm{0x13, 0x01};
  SSL_SESSION* const session = SSL_SESSION_new();
  if (session == nullptr) return nullptr;
  const auto* const key = reinterpret_cast<const unsigned char*>(secret.data());
  if (SSL_SESSION_set1_master_key(session, key, secret.size()) == 1 &&
      SSL_SESSION_set_cipher(session, SSL_CIPHER_find(ssl, aes_128_gcm.data())) == 1 &&
      SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) == 1) {
    return session;
  }
  SSL_SESSION_free(session);
  return nullptr;
}

int offer(SSL* ssl, const EVP_MD* /*digest*/, const unsigned char** id, std::size_t* length, SSL_SESSION** session) {
  *id = reinterpret_cast<const unsigned char*>(identity.data());
  *length = identity.size();
  *session = session_of(ssl);
  return *session != nullptr ? 1 : 0;
}

int find(SSL* ssl, const unsigned char* id, std::size_t length, SSL_SESSION** session) {
  const bool ours = std::string_view(reinterpret_cast<const char*>(id), length) == identity;
  *session = ours ? session_of(ssl) : nullptr;
  return 1;
}

}  // namespace

bool is_tls_error(const std::error_code& error) { return error.category() == category(); }

bool is_other_secret(const std::error_code& error) {
  if (!is_tls_error(error)) return false;
  const int reason = ERR_GET_REASON(static_cast<unsigned long>(error.value()));
  return reason == SSL_R_BINDER_DOES_NOT_VERIFY || reason == SSL_R_SSLV3_ALERT_ILLEGAL_PARAMETER;
}

struct Tls::Impl {
  Impl(const Secret& known, std::uint64_t bytes)
      : secret(known), bytes_of_a_key(bytes), context(SSL_CTX_new(TLS_method())) {
    if (context == nullptr || SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) != 1 ||
        SSL_CTX_set_ciphersuites(context, "TLS_AES_128_GCM_SHA256") != 1 || SSL_CTX_set_num_tickets(context, 0) != 1) {
      SSL_CTX_free(context);
      throw CommError("OpenSSL cannot make connections with TLS 1.3");
    }
    ignore_broken_pipes();
    SSL_CTX_set_app_data(context, &secret);
    SSL_CTX_set_psk_use_session_callback(context, offer);
    SSL_CTX_set_psk_find_session_callback(context, find);
    // A repeated call of write() may have copied the same bytes elsewhere.
    SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    // Frames say their length, so an end in the middle of one is noticed without TLS.
    SSL_CTX_set_options(context, SSL_OP_IGNORE_UNEXPECTED_EOF);
    SSL_CTX_set_read_ahead(context, 1);
    SSL_CTX_set_default_read_buffer_len(context, 4 * record);
  }
  ~Impl() {
    SSL_CTX_free(context);
    secret.fill(std::byte{});
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  Secret secret;
  std::uint64_t bytes_of_a_key;
  SSL_CTX* context;
};

Tls::Tls(const Secret& secret, std::uint64_t bytes_of_a_key) : impl_(std::make_unique<Impl>(secret, bytes_of_a_key)) {}
Tls::~Tls() = default;

Tls::Fingerprint Tls::fingerprint(std::span<const std::byte> of) const {
  std::array<unsigned char, EVP_MAX_MD_SIZE> hash{};
  unsigned length = 0;
  const Secret& key = impl_->secret;
  if (HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), reinterpret_cast<const unsigned char*>(of.data()),
           of.size(), hash.data(), &length) == nullptr) {
    throw CommError("OpenSSL has no HMAC-SHA256");
  }
  Fingerprint print;
  std::ranges::copy(std::as_bytes(std::span(hash)).first<sizeof(print)>(), print.begin());
  return print;
}

struct TlsLine::Impl {
  explicit Impl(const Tls::Impl& tls) : bytes_of_a_key(tls.bytes_of_a_key), ssl(SSL_new(tls.context)) {}
  ~Impl() { SSL_free(ssl); }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  std::uint64_t bytes_of_a_key;
  SSL* ssl;
  std::uint64_t written = 0;  // bytes with the present key
  std::array<std::byte, record> joined{};
};

TlsLine::TlsLine(const Tls& tls, int socket, Side side) : impl_(std::make_unique<Impl>(*tls.impl_)) {
  if (impl_->ssl == nullptr || SSL_set_fd(impl_->ssl, socket) != 1) throw CommError("no memory for TLS");
  if (side == Side::client) {
    // A listener without the secret could offer a certificate instead. None is trusted.
    SSL_set_verify(impl_->ssl, SSL_VERIFY_PEER, nullptr);
    SSL_set_connect_state(impl_->ssl);
  } else {
    SSL_set_accept_state(impl_->ssl);
  }
}

TlsLine::~TlsLine() = default;

// What a call of OpenSSL that returned `result`, which is not positive, waits for, or why it failed.
TlsLine::Progress TlsLine::progress(int result) {
  const int number = errno;
  switch (SSL_get_error(impl_->ssl, result)) {
    case SSL_ERROR_WANT_READ: return {.wants = Wants::read};
    case SSL_ERROR_WANT_WRITE: return {.wants = Wants::write};
    case SSL_ERROR_ZERO_RETURN: return {.error = asio::error::eof};
    case SSL_ERROR_SYSCALL:
      if (number == 0) return {.error = asio::error::eof};
      return {.error = {number, asio::error::get_system_category()}};
    default: return {.error = tls_error(ERR_peek_error())};
  }
}

TlsLine::Progress TlsLine::handshake() {
  ERR_clear_error();
  errno = 0;
  const int result = SSL_do_handshake(impl_->ssl);
  if (result != 1) return progress(result);
  return SSL_session_reused(impl_->ssl) == 1 ? Progress{} : Progress{.error = tls_error(0)};
}

TlsLine::Progress TlsLine::read(std::array<std::span<std::byte>, 2> rooms) {
  std::size_t total = 0;
  for (std::span<std::byte> room : rooms) {
    while (!room.empty() && total < at_once) {
      std::size_t count = 0;
      ERR_clear_error();
      errno = 0;
      const int result = SSL_read_ex(impl_->ssl, room.data(), room.size(), &count);
      if (result != 1) return total > 0 ? Progress{.bytes = total} : progress(result);
      total += count;
      room = room.subspan(count);
    }
  }
  return {.bytes = total};
}

// A short first part and the beginning of the second leave as one record.
TlsLine::Progress TlsLine::write(std::array<std::span<const std::byte>, 2> parts) {
  auto& [head, data] = parts;
  std::size_t total = 0;
  while (total < at_once && !(head.empty() && data.empty())) {
    std::span<const std::byte> next = head.empty() ? data : head;
    if (!head.empty() && head.size() < record) {
      const auto more = data.first(std::min(data.size(), record - head.size()));
      std::ranges::copy(more, std::ranges::copy(head, impl_->joined.begin()).out);
      next = std::span(impl_->joined).first(head.size() + more.size());
    }
    std::size_t count = 0;
    ERR_clear_error();
    errno = 0;
    const int result = SSL_write_ex(impl_->ssl, next.data(), next.size(), &count);
    if (result != 1) return total > 0 ? Progress{.bytes = total} : progress(result);
    total += count;
    const std::size_t of_head = std::min(count, head.size());
    head = head.subspan(of_head);
    data = data.subspan(count - of_head);
    impl_->written += count;
    if (impl_->written >= impl_->bytes_of_a_key) {
      if (SSL_key_update(impl_->ssl, SSL_KEY_UPDATE_NOT_REQUESTED) != 1) return {.error = tls_error(ERR_peek_error())};
      impl_->written = 0;
    }
  }
  return {.bytes = total};
}

}  // namespace sotto
