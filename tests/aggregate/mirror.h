#pragma once

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <stdexcept>

#include "sotto/codec/message.h"
#include "sotto/comm/communicator.h"

namespace sotto::test {

// The communicator of rank 0 in a group where every other rank sends the same message as rank 0. It needs no transport
// and allocates nothing. `tamper` may damage what arrives, or throw.
class Mirror final : public Communicator {
 public:
  using Tamper = std::function<void(std::span<std::byte>)>;
  explicit Mirror(int size, Tamper tamper = {})
      : Communicator(0, size, std::chrono::seconds(1)), tamper_(std::move(tamper)) {}
  std::string_view name() const override { return "mirror"; }

 protected:
  void do_exchange(std::span<const Send> sends, std::span<Recv> recvs) override {
    for (Recv& recv : recvs) {
      if (sends.empty()) throw std::logic_error("a mirror says what rank 0 says, which is nothing");
      if (recv.length == nullptr) {  // of a collective, no message
        if (sends.front().data.size() != recv.buffer.size()) throw std::logic_error("a mirror is in no ring");
        std::ranges::copy(sends.front().data, recv.buffer.begin());
        if (tamper_) tamper_(recv.buffer);
        continue;
      }
      const MessageView view = MessageView::parse(sends.front().data);
      const auto body = again_.begin(recv.buffer.size());  // buffers keep their size, messages vary
      if (!view.body().empty()) std::memcpy(body.data(), view.body().data(), view.body().size());
      Header header = view.header();
      header.origin = static_cast<std::uint16_t>(recv.peer);
      again_.finish(header, view.body().size());
      std::memcpy(recv.buffer.data(), again_.bytes().data(), again_.bytes().size());
      if (tamper_) tamper_(recv.buffer);
    }
  }
  std::unique_ptr<Communicator> do_clone() override { throw std::logic_error("a mirror has no clone"); }

 private:
  Tamper tamper_;
  Message again_;
};

}  // namespace sotto::test
