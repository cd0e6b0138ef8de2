#include <algorithm>
#include <iterator>
#include <map>

#include "sotto/codec/stages.h"
#include "tests/codec/fixture.h"
#include "tests/codec/generated.h"

namespace sotto::testing {

namespace {

// Adds the stages of this kind that no call in `calls` names, with default options.
std::vector<std::string> with_all(StageKind kind, std::vector<std::string> calls) {
  for (const StageEntry& stage : stage_table()) {
    const auto names_it = [&](const std::string& call) {
      if (call.empty()) return false;
      const Expression expression = parse_expression("test", call);
      return std::ranges::find(expression.calls, stage.name, &Call::name) != expression.calls.end();
    };
    if (stage.kind != kind || std::ranges::any_of(calls, names_it)) continue;
    calls.emplace_back(stage.example.empty() ? stage.name : stage.example);
  }
  return calls;
}

std::vector<std::string> all_listed_codecs() {
  const std::vector<std::string> selects{"",
                                         "topk(0.1)",
                                         "topk(0.3, scope=bucket, dense=0)",
                                         "threshold(0.7, dense=0)",
                                         "threshold(relative=0.5, dense=7)",
                                         "sampled_topk(0.2, dense=0)"};
  const std::vector<std::string> transforms =
      with_all(StageKind::transform, {"dct(8)", "dct2(5)", "fft(16)", "hadamard(4)", "count_sketch(3, 10%, 10%)",
                                      "count_sketch(columns=4, keep=3)", "count_min(3, 3, 5)", "svd",
                                      "svd(reshape=halves)", "svd(rank=1, exact=1)"});
  const std::vector<std::string> further =
      with_all(StageKind::select, {"atomo(3, dense=0)",
                                   "atomo(20%, p=truncate, dense=0)",
                                   "atomo(20%, p=uniform, dense=0)",
                                   "atomo(p=max, dense=0)",
                                   "atomo(p=l2, dense=0)",
                                   "atomo(9, scope=bucket, dense=0)",
                                   "atomo(9, scope=bucket, dense=7)",
                                   "atomo(20%, dense=7)",
                                   "atomo(2)",
                                   "topk(0.1, dense=0)",
                                   "topk(0.3, scope=bucket, dense=7)",
                                   "sampled_topk(0.1, sample=0.5)",
                                   "sampled_topk(0.2, scope=bucket, dense=0)",
                                   "sampled_topk(0.1, sample=0.5, scope=bucket, dense=7)",
                                   "threshold(relative=0.5, scope=bucket, dense=0)",
                                   "threshold(keep=0.1, dense=0)",
                                   "threshold(keep=0.2, scope=bucket)",
                                   "threshold(drop=0.7, dense=0)",
                                   "threshold(drop=0.9, scope=bucket, dense=7)",
                                   "threshold(drop=1)",
                                   "randomk(0.2, dense=0)",
                                   "randomk(0.2, unbiased=true, dense=7)",
                                   "randomk(0.2, scope=bucket, dense=0)",
                                   "randomk(0.2, unbiased=true, scope=bucket)",
                                   "randomk(0.3, shared=false)",
                                   "randomk(0.3, shared=false, unbiased=true, dense=0)",
                                   "randomk(0.3, shared=false, unbiased=true, scope=bucket, dense=7)",
                                   "block(4, 0.3, dense=0)",
                                   "block(4, 0.3, scope=bucket, dense=7)",
                                   "block(3, 0.3, random, unbiased=true)",
                                   "block(5, 0.2, shared, dense=0)",
                                   "block(5, 0.2, shared, scope=bucket)",
                                   "block(2, 0.3, shared, unbiased=true, scope=bucket, dense=0)"});
  const std::vector<std::string> quantises =
      with_all(StageKind::quantise, {"",
                                     "f32",
                                     "f16",
                                     "bf16",
                                     "qsgd",
                                     "qsgd(bits=1, bucket=5)",
                                     "qsgd(bits=8, bucket=16, norm=l2)",
                                     "sign",
                                     "sign(block=8)",
                                     "signs",
                                     "int8",
                                     "int8(block=32, stochastic=true)",
                                     "uint8",
                                     "uint8(block=20, stochastic=true)",
                                     "int4",
                                     "int4(block=7, stochastic=true)",
                                     "terngrad",
                                     "terngrad(clip=0)",
                                     "terngrad(clip=0, pack=trits)",
                                     "terngrad(bits=3)",
                                     "terngrad(clip=0, bits=2)",
                                     "fp8",
                                     "fp8(e5m2, block=20)",
                                     "natural",
                                     "adaptive",
                                     "adaptive(error=0.05, bits=5, bucket=20)",
                                     "alq",
                                     "alq(bits=1, bucket=20)",
                                     "alq(bits=3, bucket=7, rounds=2, sample=50)",
                                     "zipml",
                                     "zipml(bits=2, bucket=20, sample=50)",
                                     "zipml(bits=6, bucket=7, candidates=9)",
                                     "clusters(c=2, buckets=40, raw=5)",
                                     "clusters(c=5, buckets=60, least=2, percentile=85, raw=0, sizes=density)",
                                     "clusters(c=1, percentile=100, decode=centre, raw=0)",
                                     "clusters(c=3, decode=centre, raw=2)",
                                     "clusters(c=3, buckets=60, least=2, raw=10, scope=bucket)",
                                     "clusters(c=3, buckets=40, least=2, raw=5, tables=2/3/15)",
                                     "quantile",
                                     "quantile(bins=11)",
                                     "quantile | minmax_sketch",
                                     "quantile(bins=40) | minmax_sketch(groups=2, rows=3, columns=0.5)"});
  const std::vector<std::string> codes{"", "zstd", "zstd(level=3)"};
  // Each stage with some stages of each other kind; all combinations would be thousands.
  std::vector<std::string> expressions;
  for (const std::string& code :
       with_all(StageKind::code, {"rans", "rans(segment)", "rans(adaptive)", "huffman", "huffman(segment)", "elias",
                                  "elias(gaps=false)", "lz4", "blosc", "blosc(shuffle, codec=zstd)"})) {
    for (const char* rest : {"f32", "f16", "qsgd", "qsgd(bits=8, bucket=16, norm=l2)", "sign(block=8)", "int8",
                             "terngrad", "quantile(bins=40) | minmax_sketch(groups=2)", "adaptive(error=0.1)",
                             "topk(0.1) | int8", "threshold(0.7) | qsgd(bits=2)", "dct(8) | qsgd",
                             "svd | atomo(s=3) | qsgd(bits=8)", "svd | topk(0.5) | topk(0.5) | bf16"}) {
      expressions.push_back(std::string(rest) + " | " + code);
    }
  }
  for (const std::string& transform : transforms) {
    expressions.push_back(transform);
    for (const char* rest :
         {"f16", "bf16", "topk(0.3)", "randomk(0.4)", "block(2, 0.4)", "block(2, 0.4, shared, dense=0) | f16",
          "randomk(0.4, scope=bucket, dense=0)", "atomo(2)", "qsgd(bits=8)", "atomo(s=3) | qsgd(bits=8)",
          "int8(block=32)", "topk(0.5) | f16 | zstd", "threshold(relative=0.5) | sign(block=8)"}) {
      expressions.push_back(transform + " | " + rest);
    }
  }
  for (const char* joint :
       {"svd | atomo(s=3) | atomo(s=40%)", "svd | topk(0.5) | topk(0.5) | bf16",
        "svd | atomo(s=2) | atomo(p=max) | qsgd(bits=4) | zstd",
        "svd | randomk(0.5) | randomk(0.4, unbiased=true) | bf16",
        "svd(rank=2, exact=1) | atomo(s=2) | atomo(s=60%) | qsgd(bits=8)",
        "dct2(4) | topk(count=3, scope=chunk, dense=0)", "dct2(7) | topk(0.3, scope=chunk) | qsgd",
        "dct(8) | topk(0.2, scope=chunk, dense=7) | int8", "fft(16) | topk(count=2, scope=chunk)"}) {
    expressions.emplace_back(joint);
  }
  for (const std::string& select : further) {
    for (const char* rest : {"", " | qsgd", " | f16", " | int8(block=32)", " | zstd"}) {
      expressions.push_back(select + rest);
    }
  }
  for (const std::string& select : selects) {
    for (const std::string& quantise : quantises) {
      for (const std::string& code : codes) {
        std::string expression;
        for (const std::string& stage : {select, quantise, code}) {
          if (!expression.empty() && !stage.empty()) expression += " | ";
          expression += stage;
        }
        if (!expression.empty()) expressions.push_back(expression);
      }
    }
  }
  // Ranks agree on numbers of whole segments, so neither a transform nor a selection precedes these.
  for (const char* quantise :
       {"terngrad(shared=true)", "terngrad(clip=0, shared=true, pack=trits)",
        "clusters(c=3, buckets=40, raw=5, least=3, shared=true)", "clusters(c=2, decode=centre, raw=2, shared=true)",
        "clusters(c=2, buckets=40, raw=5, shared=true, tables=10/10)",
        "clusters(c=5, buckets=70, least=2, raw=2, shared=true, scope=bucket)"}) {
    for (const char* code : {"", " | zstd"}) expressions.push_back(std::string(quantise) + code);
  }
  return expressions;
}

// Codecs such that each call, as it is written, occurs in four of them, or in all where fewer have it.
std::vector<std::string> sample(const std::vector<std::string>& expressions) {
  constexpr int enough = 4;
  std::map<std::string, int> kept;
  std::vector<std::string> some;
  for (const std::string& text : expressions) {
    const Expression expression = parse_expression("test", text);
    std::vector<std::string> calls;
    for (const Call& call : expression.calls) calls.emplace_back(text_of(expression, call));
    if (std::ranges::all_of(calls, [&](const std::string& call) { return kept[call] >= enough; })) continue;
    for (const std::string& call : calls) ++kept[call];
    some.push_back(text);
  }
  return some;
}

}  // namespace

const bool is_sample = SOTTO_TEST_SAMPLE || !SOTTO_SANITIZED;

std::vector<std::string> listed_codecs() { return is_sample ? sample(all_listed_codecs()) : all_listed_codecs(); }

const std::vector<std::string>& all_codecs() {
  static const std::vector<std::string> expressions = [] {
    std::vector<std::string> all = listed_codecs();
    std::ranges::move(generated_codecs(is_sample ? 100 : 400), std::back_inserter(all));
    return all;
  }();
  return expressions;
}

}  // namespace sotto::testing
