#include "sotto/optim/dgc.h"

#include <vector>

#include "sotto/optim/stretch.h"

namespace sotto {
namespace {

class Dgc final : public Optimiser {
 public:
  Dgc(const DgcOptions& options, std::size_t parameters)
      : options_(options), size_(parameters), pull_(options.weight_decay == 0 ? 0 : parameters) {}

  void apply(std::span<float> parameters, std::span<float> mean, std::size_t begin, double lr) override {
    require_stretch(parameters, mean, begin, size_);
    const auto rate = static_cast<float>(lr);
    const float* g = mean.data();
    float* p = parameters.data();
    if (pull_.empty()) {
      for (std::size_t i = 0; i < mean.size(); ++i) p[i] -= rate * g[i];
      return;
    }
    const auto momentum = static_cast<float>(options_.decay_momentum);
    const auto decay = static_cast<float>(options_.weight_decay);
    const bool nesterov = options_.nesterov;
    float* d = pull_.data() + begin;
    for (std::size_t i = 0; i < mean.size(); ++i) {
      const float fresh = decay * p[i];
      d[i] = momentum * d[i] + fresh;
      p[i] -= rate * (g[i] + (nesterov ? fresh + momentum * d[i] : d[i]));
    }
  }

  void visit_state(StateVisitor& visitor) override { visit_vector(visitor, "pull", pull_); }

 private:
  DgcOptions options_;
  std::size_t size_;
  std::vector<float> pull_;  // empty without weight decay
};

}  // namespace

std::unique_ptr<Optimiser> make_dgc(const DgcOptions& options, const Layout& layout) {
  return std::make_unique<Dgc>(options, layout.size());
}

}  // namespace sotto
