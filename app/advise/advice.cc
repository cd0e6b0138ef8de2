#include "app/advise/advice.h"

#include <fmt/format.h>

#include <cmath>

namespace sotto {
namespace {

constexpr double alike = 1.03, clearly = 0.95;

std::string ms(double seconds) { return milliseconds(seconds) + " ms"; }

// Why a method is not good.
std::string doubt(const Prediction& prediction) {
  if (!prediction.checked) {
    return fmt::format("its loss {}: {} trains with it and with `none`",
                       prediction.quality ? "may be higher" : "is not known", named("check", "200"));
  }
  const auto& [steps, loss, dense, tested] = *prediction.checked;
  if (!std::isfinite(loss)) return "diverged in the check";
  return fmt::format("has a loss of {:.4g} after {} steps, where dense training has {:.4g}", loss, steps, dense);
}

// Why a step takes as long as it does.
std::string reason(const Prediction& prediction) {
  const double share = prediction.waiting / prediction.seconds;
  if (share < 0.05) return "its exchanges overlap with computing";
  return fmt::format("{:.0f} % of a step waits for exchanges{}", 100 * share,
                     prediction.work > 0.5 * prediction.waiting ? ", which are mostly work of the codec" : "");
}

}  // namespace

Quality CheckedLoss::quality(double at_first) const {
  constexpr double same = 0.02, near = 0.1;
  const double lost = (loss - dense) / std::abs(at_first - dense);
  return lost <= same ? Quality::high : lost <= near ? Quality::medium : Quality::low;
}

void rank_predictions(std::vector<Prediction>& predictions, Quality least) {
  const auto place = [&](const Prediction& p) { return std::pair(!p.is_good(least), p.seconds); };
  std::ranges::stable_sort(predictions, {}, place);
  for (auto first = predictions.begin(); first != predictions.end();) {
    const auto last = std::find_if(first, predictions.end(), [&](const Prediction& f) {
      return f.is_good(least) != first->is_good(least) || f.seconds > alike * first->seconds;
    });
    std::stable_sort(first, last, [](const Prediction& a, const Prediction& b) {
      const auto of = [](const Prediction& f) { return std::pair(f.quality.value_or(Quality::low), f.relative_error); };
      return of(a) < of(b);
    });
    first = last;
  }
}

std::string milliseconds(double seconds) {
  const double value = 1e3 * seconds;
  return value > 0 && value < 1 ? fmt::format("{:.3g}", value) : fmt::format("{:.1f}", value);
}

std::string verdict(std::span<const Prediction> ranked, Quality least) {
  const auto dense = std::ranges::find(ranked, "none", &Prediction::codec);
  if (dense == ranked.end()) throw std::logic_error("verdict: dense is to be compared with");
  const Prediction& plain = *std::ranges::min_element(
      ranked, {}, [](const Prediction& f) { return f.plain ? f.seconds : std::numeric_limits<double>::infinity(); });
  const auto is_good = [&](const Prediction& f) { return f.is_good(least); };
  const auto best = std::ranges::find_if(ranked, [&](const Prediction& f) { return !f.plain && is_good(f); });
  const auto doubtful = std::ranges::find_if_not(ranked, is_good);  // the quickest method that is not good
  const auto beats = [&](auto one, const Prediction& other) {
    return one != ranked.end() && one->seconds < clearly * other.seconds;
  };
  if (beats(best, plain)) {
    std::string text =
        fmt::format("compress with `{}`: a step takes {} instead of {} with `none`, {:.1f} times less; {}", best->codec,
                    ms(best->seconds), ms(dense->seconds), dense->seconds / best->seconds, reason(*best));
    if (*best->quality != Quality::high) {
      const auto safe =
          std::ranges::find_if(ranked, [](const Prediction& f) { return !f.plain && f.quality == Quality::high; });
      if (safe != ranked.end()) {
        text += fmt::format(". `{}` keeps the loss of dense training, and takes {}", safe->codec, ms(safe->seconds));
      }
    }
    if (beats(doubtful, *best)) {
      text += fmt::format(". `{}` takes {}, but {}", doubtful->codec, ms(doubtful->seconds), doubt(*doubtful));
    }
    return text;
  }
  const bool casts = plain.codec != "none" && plain.seconds < clearly * dense->seconds;
  const Prediction& wanted = casts ? plain : *dense;
  const bool hopes = beats(doubtful, wanted);
  std::string text = hopes && !doubtful->checked ? "do not compress yet: " : "do not compress: ";
  if (casts) {
    text +=
        fmt::format("`{}` is enough, with {} a step instead of {}", plain.codec, ms(plain.seconds), ms(dense->seconds));
  } else {
    text += fmt::format("`none` takes {} a step; {}", ms(dense->seconds), reason(*dense));
  }
  if (hopes) {
    return text + fmt::format("; `{}` takes {}, but {}", doubtful->codec, ms(doubtful->seconds), doubt(*doubtful));
  }
  const auto other = std::ranges::find(ranked, false, &Prediction::plain);
  if (other == ranked.end()) return text;
  const double saved = 1 - other->seconds / wanted.seconds;
  text += fmt::format("; `{}`, the best of the others, ", other->codec);
  return text + (saved > 0 ? fmt::format("would save {:.1f} %", 100 * saved)
                           : fmt::format("loses, with {}", ms(other->seconds)));
}

}  // namespace sotto
