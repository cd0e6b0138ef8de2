#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace sotto {

struct HttpAnswer {
  int status = 200;
  std::string type = "text/plain; charset=utf-8";
  std::string body;
};
// Makes the answer for a path, such as "/metrics". An Error that it throws becomes an answer of status 500.
using HttpHandler = std::function<HttpAnswer(const std::string& path)>;

// The reply to a request, as it goes to the client. `request` ends with the empty line after the headers. Only GET and
// HEAD are known; anything else gets a reply that says so. `local`: the server is for this machine alone, and requests
// must address it by a name of this machine. Otherwise any web page could have its own name resolved to 127.0.0.1 and
// read the answers.
std::string http_reply(std::string_view request, bool local, const HttpHandler& handler);

// A reply without a handler: the request is too long.
std::string http_too_long();

}  // namespace sotto
