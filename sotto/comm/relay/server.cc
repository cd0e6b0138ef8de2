#include "sotto/comm/relay/server.h"

#include <asio/io_context.hpp>
#include <chrono>

#include "sotto/comm/interfaces.h"
#include "sotto/comm/relay/relay.h"
#include "sotto/comm/tcp/socket.h"

namespace sotto {

int serve_relay(const MeetingPlace& place, const std::function<void(std::uint16_t port)>& listens, const Stop& stop) {
  constexpr std::chrono::milliseconds between_looks(50);
  asio::io_context io{1};
  const Relay relay(io, endpoint_of(resolve(place.host, place.port).front()));
  listens(relay.endpoint().port());
  while (stop() == 0) io.run_for(between_looks);
  return stop();
}

}  // namespace sotto
