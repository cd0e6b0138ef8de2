#include "app/http/server.h"

#include <fmt/format.h>

#include <array>
#include <asio/buffer.hpp>
#include <asio/error.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/read_until.hpp>
#include <asio/steady_timer.hpp>
#include <asio/write.hpp>
#include <chrono>
#include <list>
#include <thread>
#include <utility>

#include "sotto/core/error.h"
#include "sotto/core/thread.h"

namespace sotto {
namespace {

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
