#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sotto {

// A sentence that was made of another one, in which {} stands for a value.
struct SweptSentence {
  std::string sentence, value;
};

// Whether there is a {} in the sentence.
bool is_swept(std::string_view sentence);
// The sentence with each of the values in place of {}. A text is one value, or a range such as "1..8". ConfigError,
// about the flags codec and values: there is no {}, or only in the memory, which is not measured; a range is bad or too
// long.
std::vector<SweptSentence> sweep(const std::string& sentence, std::span<const std::string> texts);

}  // namespace sotto
