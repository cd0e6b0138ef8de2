#include "sotto/optim/adam.h"
#include "sotto/optim/optimiser.h"
#include "sotto/optim/sgd.h"
#include "sotto/optim/signum.h"
#include "sotto/optim/trust.h"

namespace sotto {
namespace {

template <auto Make>
constexpr OptimiserEntry entry(std::string_view name, std::string_view summary, std::string_view paper,
                               double default_lr) {
  return {name, summary, paper, default_lr, Made<Make>::options, Made<Make>::make};
}

constexpr OptimiserEntry entries[] = {
    entry<make_sgd>("sgd", "stochastic gradient descent with momentum", "Robbins, Monro, 1951; Polyak, 1964", 0),
    entry<make_adam>("adam", "scales the step of each coordinate by its usual gradient", "Kingma, Ba, ICLR 2015", 1e-3),
    entry<make_adamw>("adamw", "Adam with weight decay outside the gradient", "Loshchilov, Hutter, ICLR 2019", 1e-3),
    entry<make_adagrad>("adagrad", "divides each coordinate's step by the root of its sum of squares",
                        "Duchi, Hazan, Singer, JMLR 2011", 1e-2),
    entry<make_lars>("lars", "SGD whose step of each tensor is in proportion to the tensor",
                     "You, Gitman, Ginsburg, 2017", 5),
    entry<make_lamb>("lamb", "Adam whose step of each tensor is in proportion to the tensor", "You et al., ICLR 2020",
                     1e-2),
    entry<make_dgc>("dgc", "steps without momentum, which the memory adds; weight decay has its own",
                    "Lin et al., ICLR 2018", 0),
    entry<make_signum>("signum", "each rank offers the signs of its momentum", "Bernstein et al., ICML 2018", 1e-3),
    entry<make_sign_step>("sign", "steps along the sign of the exchanged mean", "Peng, Quesnelle, Kingma, 2024", 1e-3),
    entry<make_onebit_adam>("onebit-adam",
                            "Adam for some steps; then ranks exchange momenta, and the variance is frozen",
                            "Tang et al., ICML 2021", 1e-3),
};
constexpr Table<OptimiserEntry> table("optimiser", entries);

}  // namespace

const Table<OptimiserEntry>& optimiser_table() { return table; }

std::unique_ptr<Optimiser> make_optimiser(const OptimiserSpec& spec, const Layout& layout) {
  return spec.entry->make(spec.options, layout);
}

}  // namespace sotto
