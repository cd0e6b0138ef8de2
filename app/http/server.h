#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "app/http/reply.h"

namespace sotto {

// Answers requests of browsers and of programs that watch a run, on its own thread: one request a connection. A
// request has at most 8 KiB, and a client 10 s to send it and 10 s to take the answer. Of more than 64 connections the
// oldest is closed. There is no encryption and no password.
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
