#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "sotto/aggregate/aggregator.h"
#include "sotto/codec/codec.h"
#include "sotto/codec/message.h"
#include "sotto/codec/scratch.h"
#include "sotto/comm/communicator.h"
#include "sotto/core/error.h"

namespace sotto {

// A codec, together with the numbers that all ranks must agree on before any of them encodes.
class Encoder {
 public:
  explicit Encoder(std::shared_ptr<Codec> codec) : codec_(std::move(codec)) {}
  // Makes one message for each part of a bucket that every rank encodes. Collective if the codec needs such numbers.
  void encode(const Bucket& bucket, const Key& key, std::span<const Range> parts, std::span<Message> out,
              Communicator& communicator, Timings& timings);
  // The same for a bucket that no other rank encodes.
  void encode_alone(const Bucket& bucket, const Key& key, std::span<const Range> parts, std::span<Message> out);

 private:
  std::span<float> proposed(const Bucket& bucket);  // the numbers of this rank

  std::shared_ptr<Codec> codec_;
  Scratch<float> agreed_;
};

// One round of messages: what this rank sends to which peers, and what arrives. Reused from step to step.
class Round {
 public:
  // Makes a message that stands for one that could not be encoded. It holds `reason`, cut to fit into `most_bytes`.
  // open() turns it into a NumericError on every rank that waits for the message. `header` belongs to the missing
  // message.
  static void decline(Message& message, Header header, std::size_t most_bytes, std::string_view reason);

  void clear();
  void send(int peer, const Message& message);
  void receive(int peer, std::size_t most_bytes);
  // Exchange bytes after the messages of this pair of ranks. Both sides must know their number.
  void send(int peer, std::span<const std::byte> bytes) { more_sent_.push_back({peer, bytes, {}}); }
  void receive(int peer, std::span<std::byte> bytes) { more_received_.push_back({peer, bytes}); }
  // Sends and receives everything, by one Communicator::all_to_all(). Does nothing if nothing is to be sent or
  // received.
  void exchange(Communicator& communicator);

  // Checks what arrived: each message must be whole, made by its sender in this step for this bucket, and pass
  // check(message). WireError names the sender. The origin of `expected` is filled in here.
  template <class Check>
  void open(const Communicator& communicator, Expected expected, Check&& check);

 private:
  static constexpr std::uint8_t declined = 0x80;  // in Header::flags
  [[noreturn]] static void tell(const Communicator& communicator, int peer, const MessageView& reason);
  [[noreturn]] static void refuse(const Communicator& communicator, int peer, std::uint32_t step,
                                  const WireError& error);

  std::vector<Send> sends_, more_sent_;
  std::vector<Recv> recvs_, more_received_;
  std::vector<std::size_t> rooms_;  // most bytes that each of recvs_ may have
  Scratch<std::byte> buffer_;
};

template <class Check>
void Round::open(const Communicator& communicator, Expected expected, Check&& check) {
  for (const Recv& recv : std::span(recvs_).first(rooms_.size())) {
    try {
      expected.origin = static_cast<std::uint16_t>(recv.peer);
      const MessageView message = MessageView::parse(recv.buffer);
      message.expect(expected);
      if (message.header().flags == declined) tell(communicator, recv.peer, message);
      check(message);
    } catch (const WireError& error) {
      refuse(communicator, recv.peer, expected.step, error);
    }
  }
}

// Messages of one codec that are open at the same time, by number. Each keeps its buffers from step to step.
class OpenedMessages {
 public:
  explicit OpenedMessages(std::shared_ptr<const Codec> codec) : codec_(std::move(codec)) {}

  MessageReader& operator[](std::size_t number) {
    while (opened_.size() <= number) opened_.push_back(codec_->make_opened());
    return *opened_[number];
  }
  // REQUIRES that at least `count` messages were made by operator[].
  std::span<const std::unique_ptr<MessageReader>> first(std::size_t count) const {
    return std::span(opened_).first(count);
  }

 private:
  std::shared_ptr<const Codec> codec_;
  std::vector<std::unique_ptr<MessageReader>> opened_;
};

}  // namespace sotto
