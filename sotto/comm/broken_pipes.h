#pragma once

namespace sotto {

// Gloo and OpenSSL write to their sockets without MSG_NOSIGNAL, so a peer's death would kill this process, too. From
// now on SIGPIPE is ignored, unless the program handles it.
void ignore_broken_pipes();

}  // namespace sotto
