#include "sotto/comm/shaped.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <mutex>
#include <numeric>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "sotto/core/error.h"

namespace sotto {
namespace {

struct Unit {
  std::string_view name;
  double factor;
  double LinkShape::*field;
};
constexpr std::array units{
    Unit{"bit", 1, &LinkShape::bits_per_second},
    Unit{"kbit", 1e3, &LinkShape::bits_per_second},
    Unit{"mbit", 1e6, &LinkShape::bits_per_second},
    Unit{"gbit", 1e9, &LinkShape::bits_per_second},
    Unit{"us", 1e-6, &LinkShape::latency},
    Unit{"ms", 1e-3, &LinkShape::latency},
    Unit{"s", 1, &LinkShape::latency},
};

std::string_view trim(std::string_view text) {
  const auto begin = text.find_first_not_of(' ');
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(' ') - begin + 1);
}

Clock::duration seconds(double value) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(value));
}

// Both directions of a rank's link, and until when each is taken.
class Link {
 public:
  explicit Link(LinkShape shape) : shape_(shape) {}
  const LinkShape& shape() const { return shape_; }

  // When a message that is handed in at `now` has arrived at the other end.
  Clock::time_point send(std::size_t bytes, Clock::time_point now) {
    const std::lock_guard lock(mutex_);
    sent_ = std::max(now, sent_) + duration(bytes);
    return sent_ + seconds(shape_.latency);
  }
  // When a message whose last byte arrived at `arrived` has come in. One that arrives alone has, since its bytes came
  // while they were sent; one that comes together with others waits for them.
  Clock::time_point receive(std::size_t bytes, Clock::time_point arrived) {
    const std::lock_guard lock(mutex_);
    received_ = std::max(arrived, received_ + duration(bytes));
    return received_;
  }

 private:
  Clock::duration duration(std::size_t bytes) const {
    return shape_.bits_per_second > 0 ? seconds(8.0 * static_cast<double>(bytes) / shape_.bits_per_second)
                                      : Clock::duration::zero();
  }

  const LinkShape shape_;
  std::mutex mutex_;
  Clock::time_point sent_{};
  Clock::time_point received_{};
};

class ShapedCommunicator final : public Communicator {
 public:
  ShapedCommunicator(std::unique_ptr<Communicator> inner, std::shared_ptr<Link> link)
      : Communicator(inner->rank(), inner->size(), inner->deadline()),
        inner_(std::move(inner)),
        link_(std::move(link)) {}

  std::string_view name() const override { return "shaped"; }

 private:
  void do_exchange(std::span<const Send> sends, std::span<Recv> recvs) override {
    const auto begin = Clock::now();
    delayed_.assign(sends.begin(), sends.end());
    for (Send& send : delayed_) send.not_before = link_->send(send.data.size(), std::max(begin, send.not_before));
    inner_->at_step(step());
    inner_->exchange(delayed_, recvs);

    order_.resize(recvs.size());
    std::iota(order_.begin(), order_.end(), std::size_t{0});
    std::ranges::sort(order_, {}, [&](std::size_t i) { return std::pair(recvs[i].arrived, i); });
    for (const std::size_t i : order_) {
      recvs[i].arrived = link_->receive(recvs[i].received(), recvs[i].arrived);
      if (recvs[i].arrived > begin + deadline()) {
        fail(operation(), recvs[i].peer, "the emulated link is too slow for the deadline");
      }
    }
    if (!order_.empty()) std::this_thread::sleep_until(recvs[order_.back()].arrived);
  }

  std::unique_ptr<Communicator> do_clone() override {
    return std::make_unique<ShapedCommunicator>(inner_->clone(), link_);
  }

  std::unique_ptr<Communicator> inner_;
  std::shared_ptr<Link> link_;
  // Kept from call to call, so that a step allocates nothing.
  std::vector<Send> delayed_;
  std::vector<std::size_t> order_;
};

}  // namespace

LinkShape parse_link(std::string_view where, std::string_view text) {
  const auto fail = [&](const std::string& what) {
    throw ConfigError(
        fmt::format("{} {}: {}; write a rate, a latency or both, as in 100mbit or 1gbit,5ms", where, text, what));
  };
  LinkShape shape;
  std::string_view rest = text;
  for (bool more = true; more;) {
    const auto comma = rest.find(',');
    more = comma != std::string_view::npos;
    const std::string_view part = trim(rest.substr(0, comma));
    if (more) rest = rest.substr(comma + 1);

    double value = 0;
    const auto [end, status] = std::from_chars(part.data(), part.data() + part.size(), value, std::chars_format::fixed);
    if (status != std::errc() || !(value > 0 && value < 1e15))
      fail(fmt::format("`{}` does not begin with a number above 0", part));
    const std::string_view name = trim(part.substr(static_cast<std::size_t>(end - part.data())));
    const auto* const unit = std::ranges::find(units, name, &Unit::name);
    if (unit == units.end()) fail(fmt::format("`{}` is no unit (bit, kbit, mbit, gbit; us, ms, s)", name));
    if (shape.*unit->field != 0)
      fail(fmt::format("`{}` is a second {}", part, unit->field == &LinkShape::latency ? "latency" : "rate"));
    shape.*unit->field = value * unit->factor;
  }
  return shape;
}

std::unique_ptr<Communicator> make_shaped(std::unique_ptr<Communicator> inner, LinkShape shape) {
  return std::make_unique<ShapedCommunicator>(std::move(inner), std::make_shared<Link>(shape));
}

}  // namespace sotto
