#include <array>

#include "app/cli/codec_actions.h"
#include "app/cli/commands.h"

namespace sotto {
namespace {

constexpr std::string_view help = R"text(Lists, describes and measures codecs, and advises on a basis.

Usage: sotto codec list [--what | --json]
       sotto codec describe NAME-OR-CODEC
       sotto codec measure --codec CODEC ... [--input FILE] [--csv | --json]
       sotto codec sweep --codec "CODEC WITH {}" --values VALUE ... [--plot FILE.svg] [--csv | --json]
       sotto codec advise-basis FILE [--chunk N] [--json]

Examples:
  sotto codec describe qsgd
  sotto codec describe "ef | topk(0.01) | f16"
  sotto codec measure --codec "topk(0.01)" "topk(0.01) | qsgd(4)" --elements 25000000
  sotto codec sweep --codec "qsgd(bits={})" --values 1..8 --plot qsgd.svg
  sotto train --capture every=100,dir=gradients && sotto codec advise-basis gradients/gradient-000100.safetensors
)text";

constexpr std::array<Command, 5> actions{{{"list", "", list_codecs},
                                          {"describe", "", describe_codec},
                                          {"measure", "", measure_codecs},
                                          {"sweep", "", sweep_codec},
                                          {"advise-basis", "", advise_on_basis}}};

}  // namespace

int run_codec(std::span<const std::string> arguments) { return run_action("codec", actions, help, arguments); }

}  // namespace sotto
