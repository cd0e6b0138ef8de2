#include "sotto/codec/stages.h"

#include <fmt/format.h>

#include "sotto/codec/chain.h"
#include "sotto/codec/code/elias.h"
#include "sotto/codec/code/huffman.h"
#include "sotto/codec/code/library_codes.h"
#include "sotto/codec/code/rans.h"
#include "sotto/codec/quantise/cast.h"
#include "sotto/codec/quantise/clusters.h"
#include "sotto/codec/quantise/fitted_levels.h"
#include "sotto/codec/quantise/fixed_levels.h"
#include "sotto/codec/quantise/minmax_sketch.h"
#include "sotto/codec/quantise/qsgd.h"
#include "sotto/codec/quantise/quantile.h"
#include "sotto/codec/quantise/short_floats.h"
#include "sotto/codec/quantise/sign.h"
#include "sotto/codec/quantise/terngrad.h"
#include "sotto/codec/select/atomo.h"
#include "sotto/codec/select/block.h"
#include "sotto/codec/select/randomk.h"
#include "sotto/codec/select/threshold.h"
#include "sotto/codec/select/topk.h"
#include "sotto/codec/transform/dct.h"
#include "sotto/codec/transform/dct2.h"
#include "sotto/codec/transform/fft.h"
#include "sotto/codec/transform/hadamard.h"
#include "sotto/codec/transform/sketch.h"
#include "sotto/codec/transform/svd.h"

namespace sotto {
namespace {

// The abstract class of a stage, one for each kind.
template <class S>
using KindOf =
    std::conditional_t<std::is_base_of_v<Transform, S>, Transform,
                       std::conditional_t<std::is_base_of_v<Select, S>, Select,
                                          std::conditional_t<std::is_base_of_v<Quantise, S>, Quantise, Code>>>;

template <class S>
constexpr StageKind kind_of() {
  if (std::is_same_v<KindOf<S>, Transform>) return StageKind::transform;
  if (std::is_same_v<KindOf<S>, Select>) return StageKind::select;
  return std::is_same_v<KindOf<S>, Quantise> ? StageKind::quantise : StageKind::code;
}

template <class S>
constexpr StageEntry entry(std::string_view name, std::string_view summary, std::string_view paper,
                           std::string_view bytes, std::string_view example = "") {
  return {.name = name,
          .kind = kind_of<S>(),
          .summary = summary,
          .paper = paper,
          .bytes = bytes,
          .options = [] { return AnyOptions(typename S::Options{}); },
          .make = [](const AnyOptions& options) -> AnyStage {
            return std::unique_ptr<KindOf<S>>(std::make_unique<S>(options.as<typename S::Options>()));
          },
          .example = example};
}

constexpr std::array entries{
    entry<Svd>("svd", "singular triplets of each tensor as a matrix", "Wang et al., NeurIPS 2018; Halko et al., 2011",
               "rows + columns values a triplet"),
    entry<Dct>("dct", "cosine coefficients of chunks", "Ahmed et al., 1974", "as many values as before"),
    entry<Dct2>("dct2", "cosine coefficients of tiles of each tensor as a matrix",
                "Ahmed et al., 1974; Peng, Quesnelle, Kingma, 2024", "as many values as before"),
    entry<Fft>("fft", "Fourier coefficients of chunks", "Cooley, Tukey, 1965", "2 values a coefficient"),
    entry<Hadamard>("hadamard", "Hadamard coefficients of chunks, after fixed random signs", "Suresh et al., ICML 2017",
                    "as many values as before"),
    entry<CountSketch>("count_sketch", "sums of elements with signs by a hash, and the largest by their median",
                       "Charikar et al., ICALP 2002; Rothchild et al., ICML 2020", "rows x columns values"),
    entry<CountMin>("count_min", "sums of positive and of negative elements, and the largest by the least of them",
                    "Cormode, Muthukrishnan, J. Algorithms 2005", "2 x rows x columns values"),
    entry<Atomo>("atomo", "atoms drawn at random, the likelier the larger: unbiased, of least variance",
                 "Wang et al., NeurIPS 2018",
                 "s values on average, or s rows of them, and indices of about a byte each at 1 %", "atomo(s=5%)"),
    entry<TopK>("topk", "the largest elements, by magnitude", "Aji, Heafield, EMNLP 2017; Lin et al., ICLR 2018",
                "ceil(ratio n) values, and indices of about a byte each at 1 %, n/8 bytes at most"),
    entry<SampledTopK>("sampled_topk", "the largest elements, about as many: by a threshold from a sample",
                       "Lin et al., ICLR 2018", "0.8 to 1.3 times ceil(ratio n) values, and indices as topk"),
    entry<Threshold>("threshold",
                     "the elements that reach a magnitude: given, relative, fitted, or that a share reaches",
                     "Strom, Interspeech 2015; Abdelmoniem et al., MLSys 2021",
                     "as many values as reach it, and their indices, n/8 bytes at most"),
    entry<RandomK>("randomk", "elements at random, the same ones on all ranks or not",
                   "Stich et al., NeurIPS 2018; Wangni et al., NeurIPS 2018",
                   "ceil(ratio n) values and 8 bytes; with shared=false their indices as topk"),
    entry<Block>("block", "blocks of neighbours, the largest or at random", "Stich et al., NeurIPS 2018",
                 "ceil(ratio n / size) blocks of `size` values, and indices of blocks or, with pick=shared, 8 bytes"),
    entry<F32>("f32", "floats as they are", "", "4 bytes a value"),
    entry<F16>("f16", "half precision, with a power of two every 4096 values where the range needs one", "IEEE 754",
               "2 bytes a value, 4 every 4096; summed by all_reduce it goes without the powers of two: 3e-8 .. 65504"),
    entry<BF16>("bf16", "the upper half of a float", "Kalamkar et al., 2019", "2 bytes a value"),
    entry<Fp8>("fp8", "8-bit floats, with a power of two every block",
               "OCP 8-bit Floating Point, 2023; Micikevicius et al., 2022", "1 byte a value, 4 bytes a block"),
    entry<Natural>("natural", "stochastic rounding to the powers of two, unbiased", "Horvath et al., 2019",
                   "1 byte a value, 4 every 4096"),
    entry<Qsgd>("qsgd", "stochastic rounding to 2^bits - 1 levels, unbiased", "Alistarh et al., NeurIPS 2017",
                "bits + 1 bits a value, 4 bytes a bucket"),
    entry<Sign>("sign", "one bit a value, and the mean magnitude",
                "Bernstein et al., ICML 2018; Karimireddy et al., ICML 2019", "1 bit a value, 4 bytes a block"),
    entry<Signs>("signs", "one bit a value: the sign alone, to be voted on", "Bernstein et al., ICML 2018",
                 "1 bit a value"),
    entry<Int8>("int8", "linear and symmetric, to the nearest of 255 levels", "Dettmers, ICLR 2016",
                "1 byte a value, 4 bytes a block"),
    entry<UInt8>("uint8", "linear from the least to the largest value, to the nearest of 256 levels",
                 "none; near Gan et al., PVLDB 15(4), 2021", "1 byte a value, 8 bytes a block"),
    entry<Int4>("int4", "linear and symmetric, to the nearest of 15 levels", "none; as int8, with fewer levels",
                "half a byte a value, 4 bytes a block"),
    entry<Nf4>("nf4", "to the nearest of 16 quantiles of a normal distribution", "Dettmers et al., NeurIPS 2023",
               "half a byte a value, 4 bytes a block"),
    entry<TernGrad>("terngrad", "minus one, zero or one times a scale, or a few levels", "Wen et al., NeurIPS 2017",
                    "bits + 1 bits a value, 4 bytes a segment; with pack=trits 1.6 bits a value"),
    entry<Adaptive>("adaptive", "as qsgd, with as many bits for each segment as an error budget wants",
                    "Alimohammadi et al., MLSys 2024; Yan et al., 2021",
                    "2 to bits + 1 bits a value, 4 bytes a bucket and 4 a segment"),
    entry<Alq>("alq", "as qsgd, with levels that coordinate descent fits to each segment",
               "Faghri et al., NeurIPS 2020", "bits + 1 bits a value, 4 bytes a bucket and 4 (2^bits - 2) a segment"),
    entry<ZipMl>("zipml", "as qsgd, with the levels of least variance for each segment",
                 "Zhang et al., ICML 2017; Ben Basat et al., 2024",
                 "bits + 1 bits a value, 4 bytes a bucket and 4 (2^bits - 2) a segment"),
    entry<ClusterQuantiser>("clusters", "the mean of a bucket of the value's cluster, or the cluster's centre",
                            "none known; LSS-SGD, in a fork of ATOMO's code; Arthur, Vassilvitskii, SODA 2007",
                            "ceil(log2 2c) bits a value, and 4 buckets + 4 c bytes a segment, or 8 c with centres"),
    entry<Quantile>("quantile", "bins of equally many values, each of which decodes to its middle; no sign changes",
                    "Jiang et al., SIGMOD 2018", "log2 bins bits a value, 4 bytes a bin in each segment"),
    entry<MinMaxSketch>(
        "minmax_sketch", "the bins of the quantiser before it, or bins nearer to zero, in fewer bits: no sign changes",
        "Jiang et al., SIGMOD 2018", "log2 groups bits a value and rows x columns cells of log2 (bins / groups) bits",
        "quantile | minmax_sketch"),
    entry<Rans>("rans", "range coding of symbols: as many bits as their frequencies call for",
                "Duda, 2013; Giesen, 2014", "the entropy of the symbols and about 1 %, or as before"),
    entry<Huffman>("huffman", "canonical Huffman code of symbols", "Huffman, 1952; Larmore, Hirschberg, 1990",
                   "the entropy of the symbols and up to a bit a symbol, or as before"),
    entry<Elias>("elias", "Elias's gamma code of symbols, zeros counted, for levels that are mostly 0",
                 "Elias, 1975; Alistarh et al., NeurIPS 2017", "2 floor(log2 symbol) + 1 bits, or as before"),
    entry<Lz4>("lz4", "LZ4 over the whole body", "Collet, 2011", "fewer than before, or as before"),
    entry<Blosc>("blosc", "bits or bytes of like weight put together, then LZ4 or Zstandard", "Alted, 2010",
                 "fewer than before, or as before"),
    entry<Zstd>("zstd", "Zstandard over the whole body", "RFC 8878", "fewer than before, or as before"),
};

constexpr Table<StageEntry> table("codec stage", entries);

// Assembles the stages of a codec in order, and refuses a stage that cannot follow the earlier ones.
class Assembly {
 public:
  void add(const StageSpec& spec) {
    const StageKind kind = spec.entry->kind;
    // If rows are products of two factors, a second selection can choose among their floats.
    const bool within = kind == StageKind::select && made_.select && !made_.within && made_.transform != nullptr &&
                        made_.transform->traits().factors;
    AnyStage stage = spec.entry->make(spec.options);
    BinSketch* const sketch =
        kind == StageKind::quantise ? dynamic_cast<BinSketch*>(std::get<2>(stage).get()) : nullptr;
    const bool after_bins = sketch != nullptr && dynamic_cast<Bins*>(made_.quantise.get()) != nullptr;
    check_order(spec, within || after_bins);
    if (sketch != nullptr && !after_bins) {
      fail_at(spec.place,
              fmt::format("{0} sketches bins: put it after a quantiser that makes bins, as in quantile | {0}",
                          spec.entry->name));
    }
    switch (kind) {
      case StageKind::transform: made_.transform = std::get<0>(std::move(stage)); break;
      case StageKind::select: add_selection(spec, std::get<1>(std::move(stage)), within); break;
      case StageKind::quantise:
        if (sketch != nullptr) sketch->use_bins(std::move(made_.quantise));
        made_.quantise = std::get<2>(std::move(stage));
        check_alone(spec);
        break;
      case StageKind::code: made_.code = std::get<3>(std::move(stage)); break;
    }
    last_ = &spec;
  }
  Stages take() { return std::move(made_); }

 private:
  void check_order(const StageSpec& spec, bool may_follow_its_kind) const {
    if (last_ == nullptr) return;
    const StageKind kind = spec.entry->kind, last = last_->entry->kind;
    if (kind == last && !may_follow_its_kind) {
      fail_at(
          spec.place,
          fmt::format(
              "a second {} stage, after `{}`; there can be one of each kind, and a second selection only "
              "within the rows that a first one selects of svd, and a sketch after the quantiser whose bins it holds",
              name_of(kind), last_->entry->name));
    }
    if (kind < last) {
      fail_at(spec.place, fmt::format("{} `{}` stands after {} `{}`; the order is transform | select | quantise | code",
                                      name_of(kind), spec.entry->name, name_of(last), last_->entry->name));
    }
  }

  void add_selection(const StageSpec& spec, std::unique_ptr<Select> select, bool within) {
    if (within && select->traits().pools) {
      fail_at(spec.place,
              "scope=bucket: a second selection selects from each factor by itself, so that products stay unbiased");
    }
    if (within && select->traits().block > 1) {
      fail_at(spec.place, "a second selection selects single floats: its blocks must have size=1");
    }
    if (select->traits().by_chunk && (within || !made_.transform || !made_.transform->traits().chunks)) {
      fail_at(spec.place, "scope=chunk: there are no chunks; put a transform that makes some before it, such as dct2");
    }
    (within ? made_.within : made_.select) = std::move(select);
  }

  void check_alone(const StageSpec& spec) const {
    const auto* pooled = dynamic_cast<const PooledUnits*>(made_.quantise.get());
    if (pooled != nullptr && pooled->pools() && made_.transform) {
      fail_at(spec.place,
              fmt::format("{} takes the values of all segments together, so no transform can stand before it",
                          spec.text()));
    }
    const auto* agreed = dynamic_cast<const AgreedNumbers*>(made_.quantise.get());
    if (agreed == nullptr || agreed->agreed_count() == 0 || (!made_.transform && !made_.select)) return;
    fail_at(spec.place, fmt::format("{} wants all ranks to agree on numbers of whole segments, so no transform or "
                                    "selection can stand before it",
                                    spec.text()));
  }

  Stages made_;
  const StageSpec* last_ = nullptr;
};

bool has(const StageSpecs& stages, StageKind kind) {
  return std::ranges::any_of(stages, [kind](const StageSpec& spec) { return spec.entry->kind == kind; });
}

}  // namespace

const Table<StageEntry>& stage_table() { return table; }

std::string_view name_of(StageKind kind) {
  constexpr std::array<std::string_view, 4> names{"transform", "select", "quantise", "code"};
  return names[static_cast<std::size_t>(kind)];
}

StageSpecs read_stages(const Expression& expression, std::size_t first) {
  StageSpecs stages;
  for (std::size_t i = first; i < expression.calls.size(); ++i) {
    stages.push_back(table.read(expression, expression.calls[i]));
  }
  return make_codec(stages)->traits().stages;
}

StageSpecs read_stages(std::string_view text) { return read_stages(parse_expression("codec", text)); }

std::string text_of(const StageSpecs& stages) {
  std::string text;
  for (const StageSpec& stage : stages) text += (text.empty() ? "" : " | ") + stage.text();
  return text;
}

std::unique_ptr<Codec> make_codec(const StageSpecs& stages, std::shared_ptr<ThreadPool> pool) {
  StageSpecs all = stages;
  if (!has(all, StageKind::quantise)) {
    all.insert(std::ranges::find(all, StageKind::code, [](const StageSpec& spec) { return spec.entry->kind; }),
               table.choose("f32"));
  }
  Assembly assembly;
  for (const StageSpec& stage : all) assembly.add(stage);
  if (!pool) pool = std::make_shared<ThreadPool>(1);
  return std::make_unique<Chain>(std::move(all), assembly.take(), std::move(pool));
}

}  // namespace sotto
