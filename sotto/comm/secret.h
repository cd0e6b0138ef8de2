#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace sotto {

// The secret of a job, which all its ranks know and nobody else does: the pre-shared key of their connections (tls.h).
using Secret = std::array<std::byte, 32>;

Secret new_secret();  // from the system's random numbers; CommError if the system gives none

std::string secret_text(const Secret& secret);  // the text of its file: 64 hexadecimal digits and a newline
std::optional<Secret> read_secret_text(std::string_view text);  // nothing if it is another text

// Writes secret_text() to a new file that only its owner may read. ConfigError if there is such a file
// already, or it cannot be written.
void write_secret(const Secret& secret, const std::string& path);

// Reads what write_secret() wrote. ConfigError if the file holds something else, or if anybody but its owner may read
// or change it.
Secret read_secret(const std::string& path);

// What a rank sends when it asks the coordinator of a job for a place: which secret it has, and where it runs. The rank
// shows that it has the secret without sending it. A pair of keys (Ed25519) is derived from the secret, and with the
// private key the rank signs the job's name, its id and `from`. A coordinator sees whether two ranks have the same
// secret, even if it has none itself. Nobody can use another rank's application for a different id.
struct Application {
  std::string key;   // the public key of its secret, in hexadecimal digits; empty: it has none
  std::string from;  // "node1 (process 42)"
};

std::string new_job_name();  // a random one
std::string public_key_of(const Secret& secret);

// `from` is one line. CommError if OpenSSL refuses.
std::string application_text(const std::optional<Secret>& secret, std::string_view job, int id, std::string_view from);
// Nothing if the text is no application, or was not signed for that job and id.
std::optional<Application> read_application(std::string_view text, std::string_view job, int id);

}  // namespace sotto
