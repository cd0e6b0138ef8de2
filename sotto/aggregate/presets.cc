#include "sotto/aggregate/presets.h"

#include <fmt/format.h>

#include <array>

namespace sotto {
namespace {

constexpr std::array entries{
    Preset{"none", "", "f32", "auto", "auto", "", "no compression: the baseline", ""},
    Preset{"signsgd", "", "signs", "vote", "signum(momentum=0)", "Bernstein et al., ICML 2018",
           "one bit a value each way: the majority of the ranks' signs",
           "every coordinate moves by the learning rate, however small its gradient: wants a rate near Adam's and a "
           "schedule that lets it fall; what is biased towards one sign on most ranks need not converge. The codec "
           "`signs` alone is gathered, without the vote, in front of sgd and its momentum",
           1, 1.4},
    Preset{
        "efsignsgd", "ef", "sign(block=128)", "auto", "auto", "Karimireddy et al., ICML 2019",
        "one bit a value with error feedback",
        "a weak contraction: wants a smaller learning rate (LeNet: .02 where dense takes .05); one scale for a whole "
        "segment, as published, diverges sooner",
        0.5, 4.4},
    Preset{"signum", "", "signs", "vote", "signum", "Bernstein et al., ICML 2018; ICLR 2019",
           "the majority of the signs of the ranks' momenta, one bit a value each way",
           "as signsgd; each rank's momentum is its own, so a resume wants the same ranks", 1, 1.8},
    Preset{"topk-ef", "ef", "topk(0.01, dense=all)", "auto", "auto", "Stich et al., NeurIPS 2018",
           "the largest 1 % of each segment, with error feedback",
           "messages of different ranks hit different elements, so what a rank receives grows with the number of "
           "ranks; in its first hundred steps Adam loses much by a hundredth, and little by a quarter "
           "(docs/results/codecs.md)",
           1, 8.4},
    Preset{"dgc", "momentum", "sampled_topk(0.1%, dense=all)", "auto", "dgc",
           "Deep Gradient Compression: Lin et al., ICLR 2018",
           "the largest 0.1 % of each segment of a momentum, which each rank makes of its gradients",
           "wants a warm-up of the ratio, and a clip where gradients explode; its momentum is the memory's, so the "
           "optimiser has none; with Adam use `ef | sampled_topk`",
           1, 6.8},
    Preset{"memsgd-randomk", "memsgd", "randomk(0.01, dense=all)", "auto", "sgd(momentum=0)",
           "Mem-SGD: Stich, Cordonnier, Jaggi, NeurIPS 2018",
           "1 % of the elements of each segment, drawn by all ranks alike; what was held back keeps the learning rate "
           "of its step",
           "each element waits a hundred steps for its turn: with momentum after it that diverges, so there is none, "
           "and a larger rate and many steps are wanted; its theorem is about a mean of iterates, `average-iterates` "
           "of 100",
           4, 5.1},
    Preset{"masking", "ef", "threshold(drop=99%, dense=all)", "auto", "auto", "Strom, Interspeech 2015",
           "the smallest 99 % of each tensor by magnitude are held back, and sent later",
           "without `ef` what is dropped is lost: accuracy falls off a cliff where fewer than some 0.3 % are sent", 1,
           8.3},
    Preset{"demo-dct", "demo", "dct2(64) | topk(count=32, scope=chunk, dense=0)", "gather_held", "sign",
           "DeMo: Peng, Quesnelle, Kingma, 2024",
           "the 32 largest cosine coefficients of each tile of each rank's decoupled momentum; steps of one size",
           "every coordinate moves by the learning rate: wants a rate near Adam's; what is slow and small stays local, "
           "so replicas' momenta differ, and a resume wants the same ranks",
           2, 0.8},
    Preset{
        "sketchml", "", "threshold(0, dense=0) | quantile | minmax_sketch", "auto", "auto",
        "SketchML: Jiang et al., SIGMOD 2018",
        "bins of equally many non-zero values, and for each value its bin or one nearer to zero",
        "three values of four shrink, which is a bias that nothing sends later: `ef` in front of it would give all of "
        "that back at once, and loses more where the learning rate is high (docs/results/presets.md)"},
    Preset{"lss", "ef", "threshold(0, dense=0) | clusters", "auto", "auto",
           "none known; LSS-SGD, in a fork of ATOMO's code",
           "each non-zero value becomes the mean of the values in one bucket of its cluster",
           "clusters are found again every ten steps; without `ef` values of one bucket stay mixed up, but with it all "
           "that "
           "ever had a gradient is sent: leave it out where gradients are sparse; its authors let 500 steps be dense "
           "first: a `codec-start-after` of 500"},
    Preset{
        "atomo-svd", "velocity", "svd | atomo(s=3, dense=all)", "auto", "dgc", "ATOMO: Wang et al., NeurIPS 2018",
        "three singular triplets of each tensor on average, drawn for the least variance, unbiased",
        "decomposing takes longer than computing on small models; the momentum is the memory's, so the optimiser has "
        "none; the published codec is without `velocity`, and its noise, which momentum then adds up, loses much "
        "(docs/results/presets.md)"},
    Preset{"atomo-entry", "velocity", "atomo(s=5%, dense=all)", "auto", "dgc", "ATOMO: Wang et al., NeurIPS 2018",
           "5 % of the elements of each tensor, drawn for the least variance, unbiased",
           "as atomo-svd; s=1% has five times as much noise"},
    Preset{
        "atomo-fourier", "velocity", "dct(64) | atomo(s=5%, dense=all)", "auto", "dgc",
        "ATOMO: Wang et al., NeurIPS 2018; its future work",
        "5 % of the cosine coefficients of chunks of 64, drawn for the least variance, unbiased",
        "as atomo-svd; pays only where the coefficients are sparser than the elements: `sotto codec advise-basis` says "
        "where"},
    Preset{"powersgd", "ef", "power(4)", "auto", "auto", "Vogels, Karimireddy, Jaggi, NeurIPS 2019",
           "rank-4 factors of each matrix, summed on the way",
           "small or one-dimensional tensors go dense; two all-reduces in a row: latency counts twice; ranks 1 and 2 "
           "send less, and lose much in short trainings (docs/results/presets.md); large trainings begin dense, for a "
           "thousand steps: a `codec-start-after` of 1000"},
    Preset{"fetchsgd", "", "fetch(0.3%) | count_sketch(rows=5, columns=10%, keep=100%)", "auto", "sgd(momentum=0)",
           "FetchSGD: Rothchild et al., ICML 2020",
           "sums of sketches, in which momentum and error are kept; a step is the 0.3 % of the elements with the "
           "largest estimates",
           "estimates are off by the whole vector's size over the root of the columns: with a larger ratio, or fewer "
           "columns, what is taken is mostly noise, and training ends; it saves half, and wants a smaller rate (LeNet: "
           ".02 where dense takes .05)",
           0.5, 8.7},
    Preset{
        "onebit-adam", "ef", "sign(block=128)", "scatter_reduce", "onebit-adam", "Tang et al., ICML 2021",
        "Adam whose variance is frozen after a dense warm-up; then one bit a value of the momentum, with error "
        "feedback on both sides",
        "the warm-up is dense (`codec-start-after`, or 100 steps), and too short a one leaves a variance that does not "
        "fit: 15 to 20 % of all steps; "
        "coordinates without a gradient until then never move. One bit gives small momenta the size of large ones: "
        "hence an eps of 1e-4, where Adam has 1e-8",
        2, 0.4},
    Preset{"lossless", "", "f32 | blosc(shuffle, codec=zstd)", "auto", "auto", "none; of Blosc and Zstandard",
           "nothing is lost, and little is saved: gradients are noise",
           "most of a float's mantissa cannot be compressed; on anything faster than 100 Mbit/s dense is quicker"},
};
constexpr Table<Preset> table("preset", entries);

}  // namespace

const Table<Preset>& preset_table() { return table; }

double rate_with(std::string_view preset) {
  const Preset* found = table.find(preset);
  return found == nullptr ? 1 : found->rate;
}

std::string warning_about_default_rate(std::string_view option, std::string_view preset) {
  constexpr double much = 2;
  const Preset* found = table.find(preset);
  if (found == nullptr || found->lost <= much) return "";
  return fmt::format(
      "{}: at its default rate it lost {:.1f} points against dense training, on average over small jobs of a hundred "
      "steps; docs/results/presets.md has longer ones, and other rates",
      named(option, preset), found->lost);
}

std::string text_of(const Preset& preset) {
  std::string expression(preset.memory);
  if (!expression.empty()) expression += " | ";
  return expression += preset.codec;
}

}  // namespace sotto
