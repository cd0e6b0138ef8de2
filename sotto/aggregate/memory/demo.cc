#include "sotto/aggregate/memory/demo.h"

#include "sotto/aggregate/memory/residual.h"
#include "sotto/core/options.h"

namespace sotto {
namespace {

struct DemoOptions {
  double decay = 0.999;
  void visit(OptionVisitor& v) {
    v.option("decay", decay, "share of what was not sent that is kept for the next step", Bounds::share());
  }
};

class Demo final : public Residual {
 public:
  Demo(const DemoOptions& options, const MemoryParts& parts) : Residual(parts, "memory.demo"), options_(options) {}

  std::string sentence() const override { return record_options("demo", options_); }
  Bucket prepare(const Bucket& gradient, const Key& /*key*/) override {
    const Bucket momentum = held_.beside(gradient);
    kernels::xpay(gradient.values, static_cast<float>(options_.decay), momentum.values);
    return momentum;
  }

 private:
  DemoOptions options_;
};

}  // namespace

std::unique_ptr<Memory> make_demo(const Sentence& sentence, const Call& call, const MemoryParts& parts) {
  DemoOptions options;
  read_options(sentence, call, options);
  return std::make_unique<Demo>(options, parts);
}

std::string help_demo() { return help_options(DemoOptions{}); }

}  // namespace sotto
