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
inline constexpr std::size_t large_scene = 3;  // for codes alone, some of which have another form there
inline constexpr std::size_t kinds_of_data = 4;

// A layout, and the part that messages are of.
struct Scene {
  Layout layout;
  Range part;
};

// A codec that has decoded a message before, so that it has all that it needs, and valid messages.
struct Subject {
  std::unique_ptr<Codec> codec;  // null: no such codec, or not with this layout
  std::unique_ptr<Opened> opened;
  std::array<std::unique_ptr<Message>, kinds_of_data> messages;
  // Bytes that decoding a message may allocate after the first one: the text of an error, and what the libraries behind
  // codes take, of a constant size and of the message's.
  std::size_t most_allocated = 0;
};

class Subjects {
 public:
  Subjects();
  const Scene& scene(const DecodeInput& input) const;
  // Without a codec where there is none.
  Subject& of(const DecodeInput& input);
  const Message& valid(Subject& subject, const DecodeInput& input);
  std::unique_ptr<Codec> codec(const DecodeInput& input) const;  // a new instance

 private:
  struct Place {
    std::string sentence;
    std::uint8_t scene;
    bool threads;
    auto operator<=>(const Place&) const = default;
  };

  std::array<Scene, scenes> scenes_;
  std::shared_ptr<ThreadPool> one_, two_;
  std::map<Place, Subject> subjects_;
};

// Bytes allocated so far by anybody. Counted from the first call on.
std::size_t allocated();

[[noreturn]] void fail(const DecodeInput& input, const std::string& what);

}  // namespace sotto::fuzzing
