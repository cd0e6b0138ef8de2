#pragma once

#include <span>
#include <string>

namespace sotto {

// The actions of `sotto codec`. Each takes the arguments after its name and returns the exit status.
int list_codecs(std::span<const std::string> arguments);
int describe_codec(std::span<const std::string> arguments);
int measure_codecs(std::span<const std::string> arguments);
int sweep_codec(std::span<const std::string> arguments);
int advise_on_basis(std::span<const std::string> arguments);

}  // namespace sotto
