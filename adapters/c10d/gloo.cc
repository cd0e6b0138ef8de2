// Gloo as a transport: its devices, its mailbox, and what its errors mean.
#include <ATen/ops/from_blob.h>
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <utility>
#include <vector>

#include "adapters/c10d/c10d.h"
#include "adapters/c10d/transports.h"
#include "sotto/comm/group/meeting.h"
#include "sotto/comm/interfaces.h"
#include "sotto/comm/queued_mailbox.h"
#include "sotto/core/error.h"
#include "sotto/core/thread.h"

namespace sotto {
namespace {

constexpr std::size_t with_frame = 4096;          // bytes of a message that travel with its frame
constexpr std::chrono::hours for_ever(24 * 365);  // finite, as Gloo adds it to the time of day

class GlooMailbox final : public QueuedMailbox {
 public:
  GlooMailbox(c10::intrusive_ptr<c10d::Backend> group, std::shared_ptr<Meeting> meeting, std::size_t max_bytes,
              Deadline deadline)
      : QueuedMailbox(group->getRank(), group->getSize(), max_bytes, std::move(deadline), true, std::move(meeting)),
        group_(std::move(group)),
        lines_(static_cast<std::size_t>(size())) {
    try {
      for (int peer = 0; peer < size(); ++peer) {
        if (peer == rank()) continue;
        threads_.push_back(start_thread("a mailbox", [this, peer] { send_all(peer); }));
        threads_.push_back(start_thread("a mailbox", [this, peer] { receive_all(peer); }));
      }
    } catch (const Error&) {
      end();
      throw;
    }
  }

  ~GlooMailbox() override { end(); }

 private:
  struct Line {
    c10::intrusive_ptr<c10d::Work> sending, receiving;  // the messages that its threads wait for
  };

  void end() {
    inbox_.close();
    {
      const Lock lock(mutex_);
      ending_ = true;
      for (int peer = 0; peer < size(); ++peer) {
        if (line(peer).sending) line(peer).sending->abort();
        if (line(peer).receiving) line(peer).receiving->abort();
        of(peer).changed.notify_all();
      }
    }
    for (std::thread& thread : threads_) thread.join();
  }

  Line& line(int peer) SOTTO_REQUIRES(mutex_) { return lines_[static_cast<std::size_t>(peer)]; }

  void send_all(int to) {
    Lock lock(mutex_);
    Peer& peer = of(to);
    while (true) {
      peer.changed.wait(lock, [&]() SOTTO_REQUIRES(mutex_) { return ending_ || !peer.outgoing.empty(); });
      if (ending_) return;
      Letter& letter = peer.outgoing.front();
      if (peer.changed.wait_until(lock, letter.not_before, [this]() SOTTO_REQUIRES(mutex_) { return ending_; })) return;
      lock.unlock();
      const std::span<const std::byte> bytes(letter.bytes);
      const std::size_t first = std::min(bytes.size(), Frame::bytes + with_frame);
      const bool sent = transfer(to, &Line::sending, bytes.first(first)) &&
                        (first == bytes.size() || transfer(to, &Line::sending, bytes.subspan(first)));
      lock.lock();
      if (!sent) return;
      pop(to);
    }
  }

  void receive_all(int from) {
    std::vector<std::byte> begin(Frame::bytes + with_frame);
    while (transfer(from, &Line::receiving, begin)) {
      try {
        const Frame frame = read_frame(begin, max_bytes());
        if (frame.kind != Frame::Kind::mail) {
          const Lock lock(mutex_);
          return heard(frame.kind, from);
        }
        Mail mail{from, inbox_.buffer(frame.length)};
        const std::size_t first = std::min(frame.length, with_frame);
        std::copy_n(begin.begin() + Frame::bytes, first, mail.data.begin());
        const auto rest = std::span(mail.data).subspan(first);
        if (!rest.empty() && !transfer(from, &Line::receiving, rest)) return;
        mail.arrived = Clock::now();
        inbox_.put(std::move(mail), Clock::now() + for_ever);
      } catch (const Error& error) {
        return lose(from, plain_reason(error.what(), deadline()));
      }
    }
  }

  // Sends or receives these bytes. Returns false if that failed, or the mailbox is ending.
  bool transfer(int peer, c10::intrusive_ptr<c10d::Work> Line::*current, std::span<const std::byte> bytes) {
    try {
      // Gloo takes tensors; this one refers to our memory.
      std::vector<at::Tensor> tensor{
          at::from_blob(const_cast<std::byte*>(bytes.data()), {static_cast<std::int64_t>(bytes.size())}, at::kByte)};
      c10::intrusive_ptr<c10d::Work> work;
      {
        const Lock lock(mutex_);
        if (ending_) return false;
        work = current == &Line::sending ? group_->send(tensor, peer, 0) : group_->recv(tensor, peer, 0);
        line(peer).*current = work;
      }
      const bool done = work->wait(for_ever);
      const Lock lock(mutex_);
      (line(peer).*current).reset();
      return done;
    } catch (const std::exception& error) {
      lose(peer, plain_reason(error.what(), deadline()));
      const Lock lock(mutex_);
      (line(peer).*current).reset();
      return false;
    }
  }

  c10::intrusive_ptr<c10d::Backend> group_;
  std::vector<Line> lines_ SOTTO_GUARDED_BY(mutex_);
  std::vector<std::thread> threads_;
};

}  // namespace

std::unique_ptr<Communicator> connect_gloo(const World& world, const TransportOptions& options) {
  ignore_broken_pipes();
  auto settings = c10d::ProcessGroupGloo::Options::create(options.deadline);
  settings->threads = 1;  // only for collectives, which are not used
  const bool by_interface = !options.interface.empty();
  std::string place = by_interface ? options.interface : options.address;
  if (by_interface) require_interface(place);
  const bool chosen_here = place.empty();
  if (chosen_here) place = near_address(world, options.connect_deadline, options.stop);
  try {
    settings->devices.push_back(by_interface ? c10d::ProcessGroupGloo::createDeviceForInterface(place)
                                             : c10d::ProcessGroupGloo::createDeviceForHostname(place));
  } catch (const std::exception& error) {
    const std::string what = fmt::format("Gloo cannot use {} {}: {}", by_interface ? "interface" : "address", place,
                                         plain_reason(error.what(), options.deadline));
    if (chosen_here) throw CommError(what);  // nobody asked for it, so something else is missing, such as threads
    throw ConfigError(what);
  }
  auto meeting = std::make_shared<Meeting>(world, "gloo", options.connect_deadline, options.stop);
  return on_own_connections(std::move(meeting), std::move(settings), world.rank, world.size, options.deadline,
                            options.stop);
}

std::string plain_reason(std::string_view what, std::chrono::milliseconds deadline) {
  const auto says = [what](std::string_view part) { return what.find(part) != what.npos; };
  if (says("imed out")) return fmt::format("timed out after {:g} s", std::chrono::duration<double>(deadline).count());
  if (says("closed by peer") || says("reset by peer") || says("roken pipe")) {
    return peer_ended;
  }
  what = what.substr(0, what.find('\n'));
  if (what.starts_with('[')) what.remove_prefix(std::min(what.find(']') + 2, what.size()));  // "[file.cc:12] "
  return std::string(what.substr(0, 160));
}

std::unique_ptr<Mailbox> make_gloo_mailbox(c10::intrusive_ptr<c10d::Backend> group, std::shared_ptr<Meeting> meeting,
                                           std::size_t max_bytes, Deadline deadline) {
  return std::make_unique<GlooMailbox>(std::move(group), std::move(meeting), max_bytes, std::move(deadline));
}

}  // namespace sotto
