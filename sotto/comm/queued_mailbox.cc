#include "sotto/comm/queued_mailbox.h"

#include <fmt/format.h>

#include "sotto/comm/group/meeting.h"
#include "sotto/core/bytes.h"

namespace sotto {
namespace {

constexpr unsigned kind_shift = 56;

}  // namespace

void write_frame(const Frame& frame, std::span<std::byte> room) {
  ByteWriter writer(room);
  writer.put(std::uint64_t{frame.length} | std::uint64_t{static_cast<std::uint8_t>(frame.kind)} << kind_shift);
}

Frame read_frame(std::span<const std::byte> data, std::size_t max_bytes) {
  ByteReader reader(data);
  const auto word = reader.get<std::uint64_t>("frame");
  const auto kind = static_cast<Frame::Kind>(word >> kind_shift);
  const std::uint64_t length = word & ((std::uint64_t{1} << kind_shift) - 1);
  if (kind != Frame::Kind::mail && (length != 0 || (kind != Frame::Kind::goodbye && kind != Frame::Kind::thanks))) {
    throw WireError(fmt::format("{:#x} is no frame of a mailbox", word));
  }
  if (length > max_bytes) {
    throw WireError(fmt::format("a message of {} bytes is announced, and {} may come at most", length, max_bytes));
  }
  return {kind, static_cast<std::size_t>(length)};
}

QueuedMailbox::QueuedMailbox(int rank, int size, std::size_t max_bytes, Deadline deadline, bool framed,
                             std::shared_ptr<Meeting> meeting)
    : Mailbox(rank, size, max_bytes, std::move(deadline)),
      inbox_(size),
      framed_(framed),
      meeting_(std::move(meeting)),
      peers_(static_cast<std::size_t>(size)) {}

void QueuedMailbox::close() {
  const auto until = Clock::now() + deadline();
  inbox_.close();
  made_room();
  Lock lock(mutex_);
  for (int peer = 0; peer < size(); ++peer) {
    if (peer == rank() || of(peer).said_goodbye || inbox_.gone(peer)) continue;
    of(peer).said_goodbye = true;
    post(peer, Frame::Kind::goodbye, {}, {});
  }
  for (int peer = 0; peer < size(); ++peer) {
    if (peer == rank()) continue;
    const auto told = [&]() SOTTO_REQUIRES(mutex_) {
      const bool heard = of(peer).thanked || inbox_.gone(peer);
      return heard && (of(peer).outgoing.empty() || of(peer).broken);
    };
    if (!of(peer).changed.wait_until(lock, until, told)) throw CommError(failure(peer, not_polled()));
  }
  in_peace_ = true;
}

bool QueuedMailbox::do_send(int to, std::span<const std::byte> data, Clock::time_point not_before) {
  const auto until = Clock::now() + deadline();
  if (to == rank()) return send_to_self(data, not_before, until);
  Lock lock(mutex_);
  const auto room = [&]() SOTTO_REQUIRES(mutex_) { return inbox_.gone(to) || of(to).outgoing.size() < depth; };
  if (!of(to).changed.wait_until(lock, until, room)) throw CommError(failure(to, not_polled()));
  if (const auto why = inbox_.gone(to)) {
    lock.unlock();
    if (!why->empty()) fail_because(to, *why);
    return false;
  }
  post(to, Frame::Kind::mail, data, not_before);
  return true;
}

bool QueuedMailbox::send_to_self(std::span<const std::byte> data, Clock::time_point not_before,
                                 Clock::time_point until) {
  Mail mail{rank(), inbox_.buffer(data.size()), std::max(Clock::now(), not_before)};
  std::ranges::copy(data, mail.data.begin());
  const auto put = inbox_.put(std::move(mail), until);
  if (put == Inbox::Put::full) throw CommError(failure(rank(), not_polled()));
  return put == Inbox::Put::taken;
}

std::optional<Mail> QueuedMailbox::do_poll(Clock::time_point until) {
  std::pair<int, std::string> lost;
  auto mail = inbox_.poll(until, lost);
  if (!mail && !lost.second.empty()) fail_because(lost.first, lost.second);
  if (mail) made_room();
  return mail;
}

void QueuedMailbox::post(int to, Frame::Kind kind, std::span<const std::byte> data, Clock::time_point not_before) {
  Peer& peer = of(to);
  std::vector<std::byte> bytes;
  if (!peer.spare.empty()) {
    bytes = std::move(peer.spare.back());
    peer.spare.pop_back();
  }
  bytes.resize(header_bytes() + data.size());
  if (framed_) write_frame({kind, data.size()}, bytes);
  std::ranges::copy(data, bytes.end() - static_cast<std::ptrdiff_t>(data.size()));
  peer.outgoing.push_back({kind, std::move(bytes), not_before});
  peer.changed.notify_all();
  posted(to);
}

void QueuedMailbox::pop(int to) {
  Peer& peer = of(to);
  if (peer.spare.size() < depth) peer.spare.push_back(std::move(peer.outgoing.front().bytes));
  peer.outgoing.pop_front();
  peer.changed.notify_all();
}

void QueuedMailbox::heard(Frame::Kind kind, int from) {
  if (kind == Frame::Kind::goodbye) return answer_goodbye(from);
  of(from).thanked = true;
  of(from).changed.notify_all();
}

// From now on the peer reads nothing but an answer, and only one.
void QueuedMailbox::answer_goodbye(int from) {
  Peer& peer = of(from);
  inbox_.leave(from);
  if (peer.outgoing.size() > 1) peer.outgoing.erase(peer.outgoing.begin() + 1, peer.outgoing.end());
  const bool mail_before = !peer.outgoing.empty() && peer.outgoing.front().kind == Frame::Kind::mail;
  if (!peer.said_goodbye || mail_before) post(from, Frame::Kind::thanks, {}, {});
  peer.changed.notify_all();
}

void QueuedMailbox::lose(int peer, const std::string& reason) {
  const Lock lock(mutex_);
  if (!ending_) inbox_.lose(peer, reason);
  of(peer).broken = true;
  of(peer).changed.notify_all();
}

// A peer may have ended because of another one; the first thread that asks finds the cause.
void QueuedMailbox::fail_because(int peer, const std::string& reason) {
  if (!meeting_) throw CommError(failure(peer, reason));
  const Lock lock(asking_);
  if (!cause_) cause_ = meeting_->report(peer, failure(peer, reason));
  throw CommError(failure(peer, reason_with(reason, *cause_)));
}

}  // namespace sotto
