#include "sotto/comm/mailbox.h"

#include <fmt/format.h>

namespace sotto {

Mailbox::Mailbox(int rank, int size, std::size_t max_bytes, Deadline deadline)
    : rank_(rank), size_(size), max_bytes_(max_bytes), deadlines_(std::move(deadline)) {}

bool Mailbox::send(int to, std::span<const std::byte> data, Clock::time_point not_before) {
  if (to < 0 || to >= size_) throw std::logic_error(fmt::format("mailbox of {} ranks: no rank {}", size_, to));
  if (data.size() > max_bytes_) {
    throw std::logic_error(fmt::format("mailbox for {} bytes at most: a message of {}", max_bytes_, data.size()));
  }
  const Timer timer;
  const bool sent = do_send(to, data, not_before);
  const Lock lock(mutex_);
  traffic_.seconds += timer.seconds();
  if (sent && to != rank_) {
    traffic_.bytes_sent += header_bytes() + data.size();
    ++traffic_.messages_sent;
  }
  return sent;
}

std::optional<Mail> Mailbox::poll(std::chrono::milliseconds wait) {
  const Timer timer;
  auto mail = do_poll(Clock::now() + std::min<std::chrono::milliseconds>(wait, std::chrono::hours(24 * 365)));
  const Lock lock(mutex_);
  traffic_.seconds += timer.seconds();
  if (mail && mail->sender != rank_) traffic_.bytes_received += header_bytes() + mail->data.size();
  return mail;
}

Traffic Mailbox::traffic() const {
  const Lock lock(mutex_);
  return traffic_;
}

std::string Mailbox::failure(int peer, std::string_view reason) const {
  return fmt::format("rank {}: mailbox with rank {}: {}", rank_, peer, reason);
}

std::string Mailbox::not_polled() const {
  return fmt::format("{} messages were not polled for {:g} s", depth,
                     std::chrono::duration<double>(deadline()).count());
}

}  // namespace sotto
