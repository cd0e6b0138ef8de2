#pragma once

#include <memory>

#include "sotto/codec/codec.h"

namespace sotto::test {

// A message that a codec opened in room of its own.
inline std::unique_ptr<MessageReader> opened(const Codec& codec, const MessageView& message, const Layout& layout,
                                             Range part) {
  auto opened = codec.make_opened();
  opened->open(message, layout, part);
  return opened;
}

}  // namespace sotto::test
