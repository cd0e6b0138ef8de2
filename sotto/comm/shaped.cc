#include "sotto/comm/shaped.h"

#include <algorithm>
#include <numeric>
#include <thread>
#include <utility>
#include <vector>

#include "sotto/comm/link.h"
#include "sotto/comm/shaped_mailbox.h"

namespace sotto {
namespace {

class ShapedCommunicator final : public Communicator {
 public:
  ShapedCommunicator(std::unique_ptr<Communicator> inner, std::shared_ptr<Link> link)
      : Communicator(inner->rank(), inner->size(), inner->deadline()),
        inner_(std::move(inner)),
        link_(std::move(link)) {}

  std::string_view name() const override { return "shaped"; }
  bool goes_in_rounds() const override { return inner_->goes_in_rounds(); }

 private:
  void do_exchange(std::span<const Send> sends, std::span<Recv> recvs) override {
    const auto begin = Clock::now();
    delayed_.assign(sends.begin(), sends.end());
    for (Send& send : delayed_) {
      send.not_before = link_->send(send.peer, send.data.size(), std::max(begin, send.not_before));
    }
    inner_->at_step(step());
    inner_->exchange(delayed_, recvs);

    order_.resize(recvs.size());
    std::iota(order_.begin(), order_.end(), std::size_t{0});
    std::ranges::sort(order_, {}, [&](std::size_t i) { return std::pair(recvs[i].arrived, i); });
    for (const std::size_t i : order_) {
      recvs[i].arrived = link_->receive(recvs[i].peer, recvs[i].received(), recvs[i].arrived);
      if (recvs[i].arrived > begin + deadline()) {
        fail(operation(), recvs[i].peer, "the emulated link is too slow for the deadline");
      }
    }
    if (!order_.empty()) std::this_thread::sleep_until(recvs[order_.back()].arrived);
  }

  std::unique_ptr<Communicator> do_clone() override {
    return std::make_unique<ShapedCommunicator>(inner_->clone(), link_);
  }

  std::unique_ptr<Mailbox> do_open_mailbox(std::size_t max_bytes) override {
    return make_shaped_mailbox(inner_->open_mailbox(max_bytes), link_);
  }

  std::unique_ptr<Communicator> inner_;
  std::shared_ptr<Link> link_;
  // Kept from call to call, so that a step allocates nothing.
  std::vector<Send> delayed_;
  std::vector<std::size_t> order_;
};

}  // namespace

std::unique_ptr<Communicator> make_shaped(std::unique_ptr<Communicator> inner, const Links& links) {
  auto link = std::make_shared<Link>(links, inner->rank(), inner->size());
  return std::make_unique<ShapedCommunicator>(std::move(inner), std::move(link));
}

}  // namespace sotto
