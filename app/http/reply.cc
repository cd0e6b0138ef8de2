#include "app/http/reply.h"

#include <fmt/format.h>

#include <algorithm>
#include <asio/ip/address.hpp>
#include <exception>

#include "sotto/core/error.h"
#include "sotto/core/text.h"

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

}  // namespace sotto
