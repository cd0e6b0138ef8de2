#include "app/http/server.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <asio/buffer.hpp>
#include <asio/error.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/address.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/read_until.hpp>
#include <asio/steady_timer.hpp>
#include <asio/write.hpp>
#include <chrono>
#include <exception>
#include <list>
#include <thread>
#include <utility>

#include "sotto/core/error.h"
#include "sotto/core/text.h"
#include "sotto/core/thread.h"

namespace sotto {
namespace {

std::string_view reason_of(int status) {
  switch (status) {
    case 200: return "OK";
    case 400: return "Bad Request";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 421: return "Misdirected Request";
    case 431: return "Request Header Fields Too Large";
    case 505: return "HTTP Version Not Supported";
    default: return "Internal Server Error";
  }
}

std::string text_of(const HttpAnswer& answer, bool with_body) {
  std::string text = fmt::format(
      "HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\nCache-Control: no-store\r\n"
      "X-Content-Type-Options: nosniff\r\n{}\r\n",
      answer.status, reason_of(answer.status), answer.type, answer.body.size(),
      answer.status == 405 ? "Allow: GET, HEAD\r\n" : "");
  if (with_body) text += answer.body;
  return text;
}

std::string refusal(int status, std::string_view why) {
  return text_of({.status = status, .body = fmt::format("{}\n", why)}, true);
}

std::string_view take_until(std::string_view& rest, std::string_view end) {
  const std::size_t at = rest.find(end);
  const std::string_view part = rest.substr(0, at);
  rest.remove_prefix(at == std::string_view::npos ? rest.size() : at + end.size());
  return part;
}

bool is_token(std::string_view text) {
  constexpr std::string_view others = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  return !text.empty() && text.find_first_not_of(others) == std::string_view::npos;
}

// "localhost:8080", "127.0.0.1", "[::1]:8080"
bool names_this_machine(std::string_view host) {
  const bool bracketed = host.starts_with('[');
  const std::string_view name =
      bracketed ? host.substr(1, host.find(']') - 1) : host.substr(0, std::min(host.find(':'), host.size()));
  asio::error_code no_address;
  const auto address = asio::ip::make_address(std::string(name), no_address);
  return name == "localhost" || (!no_address && address.is_loopback());
}

using Tcp = asio::ip::tcp;

constexpr std::size_t most_request = 8192, most_clients = 64;
constexpr std::chrono::seconds patience(10), parting(2);
constexpr std::chrono::milliseconds pause(20);

// One connection. It lives as long as something is on its way, or until it is closed.
struct Client {
  Client(asio::io_context& io, Tcp::socket accepted) : socket(std::move(accepted)), timer(io) {}
  void close() {
    asio::error_code ignored;
    socket.close(ignored);
    timer.cancel();
  }

  Tcp::socket socket;
  asio::steady_timer timer;
  std::string request, reply;
  std::array<char, 4096> rest{};
};
using ClientPtr = std::shared_ptr<Client>;

void close_after(const ClientPtr& client, std::chrono::seconds time) {
  client->timer.expires_after(time);
  client->timer.async_wait([client](const asio::error_code& stopped) {
    if (!stopped) client->close();
  });
}

}  // namespace

std::string http_reply(std::string_view request, bool local, const HttpHandler& handler) {
  std::string_view line = take_until(request, "\r\n");
  const std::string_view method = take_until(line, " "), target = take_until(line, " "), version = line;
  if (!is_token(method) || target.empty() || !version.starts_with("HTTP/")) {
    return refusal(400, "this is no HTTP request");
  }
  if (version != "HTTP/1.1" && version != "HTTP/1.0") return refusal(505, "the versions 1.0 and 1.1 are known");
  std::string_view host;
  int hosts = 0;
  while (true) {
    std::string_view value = take_until(request, "\r\n");
    if (value.empty()) break;
    const std::size_t colon = value.find(':');
    if (colon == std::string_view::npos || !is_token(value.substr(0, colon))) {
      return refusal(400, "a line of the headers is no NAME: VALUE");
    }
    const std::string_view name = take_until(value, ":");
    constexpr std::string_view wanted = "host";
    const auto same = [](char a, char b) { return (a | 0x20) == b; };
    if (!std::equal(name.begin(), name.end(), wanted.begin(), wanted.end(), same)) continue;
    host = trimmed(value, " \t");
    ++hosts;
  }
  if (hosts > 1 || (hosts == 0 && version == "HTTP/1.1")) return refusal(400, "there must be one Host");
  if (local && hosts == 1 && !names_this_machine(host)) {
    return refusal(421, "this server is for this machine alone: ask for localhost or 127.0.0.1");
  }
  if (method != "GET" && method != "HEAD") return refusal(405, "GET and HEAD are known");
  if (!target.starts_with('/')) return refusal(400, "the target must begin with /");
  HttpAnswer answer;
  try {
    answer = handler(std::string(target.substr(0, target.find('?'))));
  } catch (const std::exception& error) {  // the next request may do better, and this one is told
    answer = {.status = 500, .body = fmt::format("{}\n", error.what())};
  }
  return text_of(answer, method == "GET");
}

std::string http_too_long() { return refusal(431, "the request is too long"); }

class HttpServer::Impl {
 public:
  Impl(std::string_view option, const std::string& host, std::uint16_t port, HttpHandler handler)
      : handler_(std::move(handler)), acceptor_(io_), again_(io_) {
    try {
      const Tcp::endpoint endpoint = Tcp::resolver(io_).resolve(host, std::to_string(port)).begin()->endpoint();
      acceptor_.open(endpoint.protocol());
      acceptor_.set_option(Tcp::acceptor::reuse_address(true));  // a server that has just ended holds no port
      acceptor_.bind(endpoint);
      acceptor_.listen();
    } catch (const std::system_error& error) {
      throw ConfigError(fmt::format("{}: cannot listen at {}:{}: {}; choose another port", named(option), host, port,
                                    error.code().message()));
    }
    local_ = acceptor_.local_endpoint().address().is_loopback();
    accept();
    thread_ = start_thread("a server of web pages", [this] { io_.run(); });
  }
  ~Impl() {
    io_.stop();
    thread_.join();
  }

  std::string address() const {
    const Tcp::endpoint endpoint = acceptor_.local_endpoint();
    const std::string host = endpoint.address().to_string();
    return fmt::format("http://{}:{}/", endpoint.address().is_v6() ? "[" + host + "]" : host, endpoint.port());
  }

 private:
  void accept() {
    acceptor_.async_accept([this](const asio::error_code& error, Tcp::socket socket) {
      if (error) {  // such as too many open files
        again_.expires_after(pause);
        again_.async_wait([this](const asio::error_code&) { accept(); });
        return;
      }
      if (clients_.size() == most_clients) clients_.front()->close();  // its handler takes it off the list
      clients_.push_back(std::make_shared<Client>(io_, std::move(socket)));
      hear(clients_.back());
      accept();
    });
  }

  void hear(const ClientPtr& client) {
    close_after(client, patience);
    asio::async_read_until(client->socket, asio::dynamic_buffer(client->request, most_request), "\r\n\r\n",
                           [this, client](const asio::error_code& error, std::size_t length) {
                             if (error == asio::error::not_found) return answer(client, http_too_long());
                             if (error) return end(client);
                             client->request.resize(length);
                             answer(client, http_reply(client->request, local_, handler_));
                           });
  }

  void answer(const ClientPtr& client, std::string reply) {
    client->reply = std::move(reply);
    close_after(client, patience);
    asio::async_write(client->socket, asio::buffer(client->reply),
                      [this, client](const asio::error_code& error, std::size_t) {
                        if (error) return end(client);
                        asio::error_code ignored;
                        client->socket.shutdown(Tcp::socket::shutdown_send, ignored);
                        close_after(client, parting);
                        read_rest(client);
                      });
  }

  // Reads what is left of a request: closing a socket with unread bytes would discard the answer before its client has
  // it.
  void read_rest(const ClientPtr& client) {
    client->socket.async_read_some(asio::buffer(client->rest),
                                   [this, client](const asio::error_code& error, std::size_t) {
                                     if (error) return end(client);
                                     read_rest(client);
                                   });
  }

  void end(const ClientPtr& client) {
    client->close();
    std::erase(clients_, client);
  }

  HttpHandler handler_;
  asio::io_context io_;
  Tcp::acceptor acceptor_;
  asio::steady_timer again_;
  std::list<ClientPtr> clients_;  // the oldest first
  bool local_ = true;
  std::thread thread_;
};

HttpServer::HttpServer(std::string_view option, const std::string& host, std::uint16_t port, HttpHandler handler)
    : impl_(std::make_unique<Impl>(option, host, port, std::move(handler))) {}
HttpServer::~HttpServer() = default;
std::string HttpServer::address() const { return impl_->address(); }

}  // namespace sotto
