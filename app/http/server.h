#pragma once

#include <cstdint>
#include <functional>
#include <memory>
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

// Answers requests of browsers and of programs that watch a run, on its own thread: one request a connection. A request
// has at most 8 KiB, and a client 10 s to send it and 10 s to take the answer. When there are more than 64 connections,
// the oldest is closed. There is no encryption and no password.
class HttpServer {
 public:
  // Listens at this port of `host`, an address or name of this machine; port 0: any free one. ConfigError, which names
  // `option`, if that is not possible. The handler is called on the server's thread, until the destructor.
  HttpServer(std::string_view option, const std::string& host, std::uint16_t port, HttpHandler handler);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  std::string address() const;  // "http://127.0.0.1:8080/"

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sotto
