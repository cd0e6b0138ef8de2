#include "sotto/codec/presets.h"

#include <array>

namespace sotto {
namespace {

constexpr std::array table{
    Preset{"none", "", "f32", "auto", "auto", "", "no compression: the baseline", ""},
    Preset{"qsgd", "", "qsgd(bits=4)", "auto", "auto", "Alistarh et al., NeurIPS 2017",
           "stochastic rounding to 15 levels and a sign, unbiased",
           "4 bits of level and one of sign are 5 bits on the wire; on gradients `| rans` takes a seventh of that or more"},
    Preset{
        "signsgd", "ef", "sign(block=128)", "auto", "auto", "Karimireddy et al., ICML 2019",
        "one bit a value with error feedback",
        "a weak contraction: wants a smaller learning rate (LeNet: .02 where dense takes .05); one scale for a whole "
        "segment, as published, diverges sooner"},
    Preset{
        "topk", "ef", "topk(0.01)", "auto", "auto", "Stich et al., NeurIPS 2018",
        "the largest 1 % of each segment, with error feedback",
        "messages of different ranks hit different elements, so what a rank receives grows with the number of ranks"},
    Preset{"powersgd", "ef", "power(1)", "auto", "auto", "Vogels, Karimireddy, Jaggi, NeurIPS 2019",
           "rank-1 factors of each matrix, summed on the way",
           "small or one-dimensional tensors go dense; two all-reduces in a row: latency counts twice"},
};

}  // namespace

std::span<const Preset> preset_table() { return table; }

std::string sentence_of(const Preset& preset) {
  std::string sentence(preset.memory);
  if (!sentence.empty()) sentence += " | ";
  return sentence += preset.codec;
}

}  // namespace sotto
