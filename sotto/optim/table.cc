#include "sotto/core/table.h"
#include "sotto/core/options.h"
#include "sotto/optim/adam.h"
#include "sotto/optim/dgc.h"
#include "sotto/optim/onebit_adam.h"
#include "sotto/optim/optimiser.h"
#include "sotto/optim/sgd.h"
#include "sotto/optim/sign_step.h"
#include "sotto/optim/signum.h"

namespace sotto {
namespace {

class Names final : public OptionVisitor {
 public:
  void option(std::string_view name, bool&, std::string_view) override { all.push_back(name); }
  void option(std::string_view name, std::int64_t&, std::string_view, Bounds) override { all.push_back(name); }
  void option(std::string_view name, double&, std::string_view, Bounds) override { all.push_back(name); }
  void option(std::string_view name, std::string&, std::string_view, std::initializer_list<std::string_view>) override {
    all.push_back(name);
  }
  std::vector<std::string_view> all;
};

template <class Options>
Options read(const Sentence& sentence, const Call& call) {
  Options options;
  read_options(sentence, call, options);
  if constexpr (requires { options.problem(); }) {
    if (const std::string problem = options.problem(); !problem.empty()) {
      fail_at(sentence, call, call.position, problem);
    }
  }
  return options;
}

template <class Options, std::unique_ptr<Optimiser> (*Make)(const Options&, std::size_t)>
constexpr OptimiserEntry entry(std::string_view name, std::string_view summary, std::string_view paper,
                               double default_lr) {
  return {.name = name,
          .summary = summary,
          .paper = paper,
          .default_lr = default_lr,
          .options =
              [] {
                Names names;
                Options().visit(names);
                return std::move(names.all);
              },
          .help = [] { return help_options(Options()); },
          .canonical = [](const Sentence& sentence,
                          const Call& call) { return record_options(call.name, read<Options>(sentence, call)); },
          .make = [](const Sentence& sentence, const Call& call,
                     std::size_t parameters) { return Make(read<Options>(sentence, call), parameters); }};
}

constexpr OptimiserEntry table[] = {
    entry<SgdOptions, make_sgd>("sgd", "stochastic gradient descent with momentum",
                                "Robbins, Monro, 1951; Polyak, 1964", 0),
    entry<AdamOptions, make_adam>("adam", "steps in units of the gradient's own size, by coordinate",
                                  "Kingma, Ba, ICLR 2015", 1e-3),
    entry<AdamWOptions, make_adamw>("adamw", "Adam, with a weight decay that is no part of the gradient",
                                    "Loshchilov, Hutter, ICLR 2019", 1e-3),
    entry<DgcOptions, make_dgc>("dgc", "plain steps, as the gradients had their momentum; weight decay has its own",
                                "Lin et al., ICLR 2018", 0),
    entry<SignumOptions, make_signum>("signum", "each rank offers the signs of its momentum",
                                      "Bernstein et al., ICML 2018", 1e-3),
    entry<SignStepOptions, make_sign_step>("sign", "the sign of what came back", "Peng, Quesnelle, Kingma, 2024", 1e-3),
    entry<OneBitAdamOptions, make_onebit_adam>(
        "onebit-adam", "Adam for some steps; then momenta are offered, and the variance stays as it is",
        "Tang et al., ICML 2021", 1e-3),
};

}  // namespace

std::span<const OptimiserEntry> optimiser_table() { return table; }

const OptimiserEntry& optimiser_entry(const Sentence& sentence) {
  const Call& call = sentence.calls.front();
  if (sentence.calls.size() > 1) fail_at(sentence, call, sentence.calls[1].position, "an optimiser is a single call");
  return require_entry(optimiser_table(), "optimiser", sentence, call);
}

std::unique_ptr<Optimiser> make_optimiser(std::string_view where, std::string_view sentence, std::size_t parameters) {
  const Sentence parsed = parse_sentence(where, sentence);
  return optimiser_entry(parsed).make(parsed, parsed.calls.front(), parameters);
}

std::string canonical_optimiser(std::string_view where, std::string_view sentence) {
  const Sentence parsed = parse_sentence(where, sentence);
  return optimiser_entry(parsed).canonical(parsed, parsed.calls.front());
}

}  // namespace sotto
