#include "sotto/aggregate/candidates.h"

#include <array>
#include <stdexcept>

namespace sotto {
namespace {

constexpr std::array<std::string_view, 3> qualities{"high", "medium", "low"};

constexpr std::array table{
    Candidate{"none", Quality::high, true},
    Candidate{"threshold(0)", Quality::high, true},  // as exact, and short where most of a gradient is zero
    Candidate{"f16", Quality::high, true},
    Candidate{"int8", Quality::high},
    Candidate{"qsgd(bits=4)", Quality::high, true},
    Candidate{"qsgd(bits=4) | rans", Quality::high, true},
    Candidate{"ef | topk(0.25) | qsgd(bits=4)", Quality::medium, true},
    Candidate{"ef | sampled_topk(0.1) | qsgd(bits=4)", Quality::medium},
    Candidate{"ef | power(4)", Quality::medium, true},
    Candidate{"ef | power(2)", Quality::medium},
    Candidate{"ef | sign(block=128)", Quality::low},
    Candidate{"ef | power(1)", Quality::low},
    Candidate{"ef | sampled_topk(0.01)", Quality::low},
    Candidate{"ef | topk(0.01) | qsgd(bits=4)", Quality::low},
};

}  // namespace

std::string_view text_of(Quality quality) { return qualities[static_cast<std::size_t>(quality)]; }

Quality quality_of(std::string_view text) {
  for (std::size_t i = 0; i < qualities.size(); ++i) {
    if (qualities[i] == text) return static_cast<Quality>(i);
  }
  throw std::logic_error("no quality");
}

std::span<const Candidate> candidates() { return table; }

Recipe recipe_of(const Candidate& candidate) { return read_recipe(candidate.codec); }

}  // namespace sotto
