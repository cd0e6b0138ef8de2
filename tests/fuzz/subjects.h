#pragma once

#include <array>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sotto/codec/codec.h"
#include "tests/fuzz/decode_input.h"

namespace sotto::fuzzing {

inline constexpr std::size_t scenes = 4;
inline constexpr std::size_t large_scene = 3;  // for codes alone; some have another form for large inputs
inline constexpr std::size_t kinds_of_data = 4;

// A layout, and the part of it that messages hold.
struct Scene {
  Layout layout;
  Range part;
};

// A codec that has decoded a message before, so that its buffers have their size, and valid messages.
struct Subject {
  std::unique_ptr<Codec> codec;  // null: no such codec, or not with this layout
  std::unique_ptr<MessageReader> opened;
  std::array<std::unique_ptr<Message>, kinds_of_data> messages;
  // The bytes that decoding a later message may allocate: the text of an error, and the memory of the libraries that
  // codes call, a constant and a share of the message's size.
  std::size_t most_allocated = 0;
};

class Subjects {
 public:
  Subjects();
  const Scene& scene(const DecodeInput& input) const;
  // `codec` is null where the text makes none.
  Subject& of(const DecodeInput& input);
  const Message& valid(Subject& subject, const DecodeInput& input);
  std::unique_ptr<Codec> codec(const DecodeInput& input) const;  // a new instance

 private:
  struct Place {
    std::string codec;
    std::uint8_t scene;
    bool threads;
    auto operator<=>(const Place&) const = default;
  };

  std::array<Scene, scenes> scenes_;
  std::shared_ptr<ThreadPool> one_, two_;
  std::map<Place, Subject> subjects_;
};

// All bytes that this process has allocated since the first call.
std::size_t allocated();

[[noreturn]] void fail(const DecodeInput& input, const std::string& what);

}  // namespace sotto::fuzzing
