#pragma once

#include <string>
#include <string_view>

#include "app/model/image_model.h"
#include "sotto/core/expression.h"

namespace sotto {

// A user's own networks, made by a shared library (own_network.h).

// Whether the text of a model is a path: `./mine.so`, `nets/mine.so(width=64)`.
bool names_library(std::string_view model);
// Like parse_expression(), but also takes a path.
Expression parse_model(std::string_view option, std::string_view model);
// The same text with an absolute path.
std::string with_absolute_path(std::string_view model);

// Reads the path and the options of a library, which is loaded later, when the model is made. ConfigError, with a
// caret, if there is no such file.
ImageModelSpec read_library(const Expression& expression);
// The SHA-256 of the library's file, in hexadecimal.
std::string fingerprint_of(const ImageModelSpec& spec);
// The entry that all libraries share. No table has it.
const ImageModelEntry& library_entry();

}  // namespace sotto
