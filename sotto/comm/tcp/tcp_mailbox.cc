#include <fmt/format.h>

#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>
#include <sstream>

#include "sotto/comm/queued_mailbox.h"

#include "sotto/comm/tcp/door.h"
#include "sotto/comm/tcp/peers.h"
#include "sotto/comm/tcp/tcp.h"

namespace sotto {
namespace {

TcpFrame::Kind frame_of(Frame::Kind kind) {
  switch (kind) {
    case Frame::Kind::goodbye: return TcpFrame::Kind::goodbye;
    case Frame::Kind::thanks: return TcpFrame::Kind::thanks;
    default: return TcpFrame::Kind::message;
  }
}

class TcpMailbox final : public QueuedMailbox, private TcpOwner {
 public:
  TcpMailbox(std::shared_ptr<Meeting> meeting, const std::string& section, const TcpSettings& settings, int rank,
             int size, std::size_t max_bytes)
      : QueuedMailbox(rank, size, max_bytes, settings.deadline, false, meeting),
        places_(std::move(meeting), section),
        connections_(make_tcp_peers(io_, rank, size, settings, *this)),
        states_(static_cast<std::size_t>(size)) {
    places_.leave(rank, connections_->place());
    if (size > 1) carrier_ = start_thread("a mailbox", [this] { io_.run(); });
  }

  ~TcpMailbox() override {
    inbox_.close();
    {
      const Lock lock(mutex_);
      ending_ = true;
    }
    io_.stop();
    if (carrier_.joinable()) carrier_.join();
  }
  TcpMailbox(const TcpMailbox&) = delete;
  TcpMailbox& operator=(const TcpMailbox&) = delete;

  std::size_t header_bytes() const override { return TcpFrame::bytes; }

 private:
  struct State {
    bool sending = false;
    std::optional<asio::steady_timer> due;  // when the next letter may leave
    Mail mail;                              // the message that is arriving
  };

  State& state_of(int peer) { return states_[static_cast<std::size_t>(peer)]; }

  void posted(int to) override SOTTO_REQUIRES(mutex_) {
    asio::post(io_, [this, to] { send_next(to); });
  }

  void made_room() override {
    if (!starved_.exchange(false)) return;
    asio::post(io_, [this] {
      for (const int peer : std::exchange(paused_, {})) connections_->resume(peer);
    });
  }

  void send_next(int to) {
    State& state = state_of(to);
    Lock lock(mutex_);
    if (state.sending || of(to).outgoing.empty() || of(to).broken) return;
    const Letter& letter = of(to).outgoing.front();
    if (letter.not_before > Clock::now()) return send_at(letter.not_before, to);
    state.sending = true;
    const auto data = std::span<const std::byte>(letter.bytes).subspan(TcpFrame::bytes);
    const TcpFrame::Kind kind = frame_of(letter.kind);
    lock.unlock();
    connections_->send(to, kind, data);
  }

  void send_at(Clock::time_point time, int to) {
    auto& due = state_of(to).due;
    if (!due) due.emplace(io_);
    due->expires_at(time);
    due->async_wait([this, to](const asio::error_code& cancelled) {
      if (!cancelled) send_next(to);
    });
  }

  void sent(int to) override {
    {
      const Lock lock(mutex_);
      pop(to);
    }
    state_of(to).sending = false;
    send_next(to);
  }

  std::optional<std::string> place_of(int peer) override { return places_.find(peer, Clock::now() + deadline()); }

  std::optional<std::span<std::byte>> room_for(int peer, const TcpFrame& frame) override {
    const bool mail = frame.kind == TcpFrame::Kind::message;
    if (!mail && (frame.length != 0 || frame.kind < TcpFrame::Kind::message)) {
      throw WireError(fmt::format("a frame of kind {} and {} bytes came, which no mailbox sends",
                                  static_cast<int>(frame.kind), frame.length));
    }
    if (frame.length > max_bytes()) {
      throw WireError(
          fmt::format("a message of {} bytes is announced, and {} may come at most", frame.length, max_bytes()));
    }
    if (!mail) return std::span<std::byte>();
    starved_ = true;  // before has_room(), so that no room is missed
    if (!inbox_.has_room(peer)) {
      paused_.push_back(peer);
      return std::nullopt;
    }
    starved_ = !paused_.empty();
    Mail& next = state_of(peer).mail;
    next = {peer, inbox_.buffer(static_cast<std::size_t>(frame.length))};
    return std::span(next.data);
  }

  bool received(int peer, const TcpFrame& frame) override {
    if (frame.kind == TcpFrame::Kind::message) {
      Mail& mail = state_of(peer).mail;
      mail.arrived = Clock::now();
      const auto now = mail.arrived;
      inbox_.put(std::move(mail), now);
      return true;
    }
    const Lock lock(mutex_);
    heard(frame.kind == TcpFrame::Kind::goodbye ? Frame::Kind::goodbye : Frame::Kind::thanks, peer);
    return false;
  }

  void lost(int peer, const std::string& reason) override { lose(peer, reason); }

  TcpPlaces places_;
  std::atomic<bool> starved_ = false;  // the carrier waits for room in the inbox
  asio::io_context io_{1};
  std::unique_ptr<TcpPeers> connections_;  // this and the following belong to the carrier
  std::vector<State> states_;
  std::vector<int> paused_;  // peers that are not read from, since there is no room
  std::thread carrier_;
};

constexpr std::size_t most_bytes = 64 << 10;  // a rank leaves a line of some 100 bytes for each connection to a peer

// Reads a rank's place from the store with care: whoever reaches the store may have written it.
std::string place_in(const std::string& value) {
  if (value.size() > most_bytes) {
    throw CommError(
        fmt::format("the ranks' meeting place has {} bytes where the address of a rank is due; something "
                    "that is no rank writes there",
                    value.size()));
  }
  std::istringstream lines(value);
  std::string place;
  for (std::string line; std::getline(lines, line);) place += (place.empty() ? "" : "\n") + visible(line);
  return place;
}

}  // namespace

std::unique_ptr<Mailbox> make_tcp_mailbox(std::shared_ptr<Meeting> meeting, const std::string& section,
                                          const TcpSettings& settings, int rank, int size, std::size_t max_bytes) {
  return std::make_unique<TcpMailbox>(std::move(meeting), section, settings, rank, size, max_bytes);
}

void TcpPlaces::leave(int rank, const std::string& place) { section_->set(std::to_string(rank), place); }

std::optional<std::string> TcpPlaces::find(int rank, Clock::time_point until) const {
  const auto answer =
      bounded(until, {}, [section = section_, key = std::to_string(rank)]() -> std::optional<std::string> {
        if (!section->check(key)) return std::nullopt;
        return place_in(section->get(key));
      });
  if (!answer) throw CommError("the ranks' meeting place does not say where it listens");
  if (*answer) return *answer;
  if (const auto why = meeting_->failure_of(rank, until)) throw CommError("it has ended: " + *why);
  return std::nullopt;
}

}  // namespace sotto
