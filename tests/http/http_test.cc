// The replies of the server of web pages, and its connections. tests/cli/test_watch.py asks it as a browser does.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "app/http/server.h"
#include "sotto/core/error.h"

namespace sotto {
namespace {

HttpAnswer echo(const std::string& path) {
  if (path == "/gone") throw std::runtime_error("no error of ours");
  if (path == "/broken") throw FileError("steps.csv: it is gone");
  return {.body = "you asked for " + path};
}

std::string reply_to(const std::string& request, bool local = true) { return http_reply(request, local, echo); }
int status_of(const std::string& reply) { return std::stoi(reply.substr(9, 3)); }

TEST(HttpReply, AnswersGetAndHead) {
  const std::string got = reply_to("GET /page?x=1 HTTP/1.1\r\nHost: localhost:80\r\nAccept: */*\r\n\r\n");
  EXPECT_EQ(status_of(got), 200);
  EXPECT_TRUE(got.ends_with("\r\n\r\nyou asked for /page"));
  EXPECT_NE(got.find("Content-Length: 19\r\n"), got.npos);
  const std::string head = reply_to("HEAD /page HTTP/1.1\r\nhOST: 127.0.0.1\r\n\r\n");
  EXPECT_TRUE(head.ends_with("\r\n\r\n"));
  EXPECT_NE(head.find("Content-Length: 19\r\n"), got.npos);
  EXPECT_EQ(status_of(reply_to("GET / HTTP/1.0\r\n\r\n")), 200);
}

TEST(HttpReply, RefusesWhatItDoesNotKnow) {
  const std::string host = "Host: localhost\r\n\r\n";
  for (const auto& [request, status] :
       std::vector<std::pair<std::string, int>>{{"\r\n\r\n", 400},
                                                {"GET\r\n\r\n", 400},
                                                {"GET /\r\n" + host, 400},
                                                {"GET  HTTP/1.1\r\n" + host, 400},
                                                {"G\x01T / HTTP/1.1\r\n" + host, 400},
                                                {"GET / SPDY/3\r\n" + host, 400},
                                                {"GET x HTTP/1.1\r\n" + host, 400},
                                                {"GET / HTTP/1.1\r\n\r\n", 400},
                                                {"GET / HTTP/1.1\r\nHost\r\n" + host, 400},
                                                {"GET / HTTP/1.1\r\na b: c\r\n" + host, 400},
                                                {"GET / HTTP/1.1\r\n" + ("Host: localhost\r\n" + host), 400},
                                                {"GET / HTTP/2.0\r\n" + host, 505},
                                                {"POST / HTTP/1.1\r\n" + host, 405},
                                                {"GET /broken HTTP/1.1\r\n" + host, 500},
                                                {"GET /gone HTTP/1.1\r\n" + host, 500}}) {
    EXPECT_EQ(status_of(reply_to(request)), status) << request;
  }
  EXPECT_TRUE(reply_to("GET /broken HTTP/1.1\r\n" + host).ends_with("steps.csv: it is gone\n"));
  EXPECT_EQ(status_of(http_too_long()), 431);
}

// A page of the web may not have its own name resolved to this machine.
TEST(HttpReply, IsForThisMachineAlone) {
  for (const std::string host : {"localhost", "localhost:80", "127.0.0.1", "127.1.2.3:80", "[::1]:80"}) {
    EXPECT_EQ(status_of(reply_to("GET / HTTP/1.1\r\nHost: " + host + "\r\n\r\n")), 200) << host;
  }
  for (const std::string host :
       {"evil.example", "127.evil.example", "localhost.evil.example:80", "10.0.0.1", "[", ""}) {
    EXPECT_EQ(status_of(reply_to("GET / HTTP/1.1\r\nHost: " + host + "\r\n\r\n")), 421) << host;
    EXPECT_EQ(status_of(reply_to("GET / HTTP/1.1\r\nHost: " + host + "\r\n\r\n", false)), 200) << host;
  }
}

// A connection to the server.
class Visitor {
 public:
  explicit Visitor(const HttpServer& server) {
    const std::string address = server.address();
    sockaddr_in there{};
    there.sin_family = AF_INET;
    there.sin_port = htons(static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
    there.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socket_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (::connect(socket_, reinterpret_cast<const sockaddr*>(&there), sizeof(there)) != 0) {
      throw std::runtime_error("nobody listens");
    }
  }
  ~Visitor() { ::close(socket_); }
  Visitor(const Visitor&) = delete;
  Visitor& operator=(const Visitor&) = delete;

  void send(const std::string& text) { ::send(socket_, text.data(), text.size(), MSG_NOSIGNAL); }
  // All that comes until the server closes its side.
  std::string read() {
    std::string text(1 << 16, 0);
    std::size_t size = 0;
    for (ssize_t n = 0; (n = ::recv(socket_, text.data() + size, text.size() - size, 0)) > 0;) {
      size += static_cast<std::size_t>(n);
    }
    return text.substr(0, size);
  }

 private:
  int socket_ = -1;
};

TEST(HttpServer, AnswersManyAtOnceAndOneByteAtATime) {
  const HttpServer server("serve", "127.0.0.1", 0, echo);
  Visitor silent(server), slow(server), quick(server);
  for (const char c : std::string("GET /slow HTTP/1.1\r\nHost: localhost\r\n\r")) slow.send(std::string(1, c));
  quick.send("GET /quick HTTP/1.0\r\n\r\n");
  EXPECT_TRUE(quick.read().ends_with("you asked for /quick"));
  slow.send("\n");
  EXPECT_TRUE(slow.read().ends_with("you asked for /slow"));
}

TEST(HttpServer, SaysThatARequestIsTooLong) {
  const HttpServer server("serve", "127.0.0.1", 0, echo);
  Visitor visitor(server);
  visitor.send("GET / HTTP/1.1\r\nHost: localhost\r\nCookie: " + std::string(60000, 'x') + "\r\n\r\n");
  EXPECT_EQ(status_of(visitor.read()), 431);
}

TEST(HttpServer, ClosesTheOldestOfTooManyConnections) {
  const HttpServer server("serve", "127.0.0.1", 0, echo);
  Visitor oldest(server);
  std::vector<std::unique_ptr<Visitor>> others;
  for (int i = 0; i < 64; ++i) others.push_back(std::make_unique<Visitor>(server));
  EXPECT_EQ(oldest.read(), "");  // closed, although its time is not over
  others.back()->send("GET / HTTP/1.0\r\n\r\n");
  EXPECT_TRUE(others.back()->read().ends_with("you asked for /"));
}

TEST(HttpServer, NamesTheOptionWhenThePortIsTaken) {
  const HttpServer server("serve", "127.0.0.1", 0, echo);
  const auto port = static_cast<std::uint16_t>(std::stoi(server.address().substr(server.address().rfind(':') + 1)));
  try {
    const HttpServer other("metrics-port", "127.0.0.1", port, echo);
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find("metrics-port: cannot listen at 127.0.0.1:"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("Address already in use"), std::string::npos);
  }
  EXPECT_THROW(HttpServer("serve", "nosuch.invalid", 1, echo), ConfigError);
}

}  // namespace
}  // namespace sotto
