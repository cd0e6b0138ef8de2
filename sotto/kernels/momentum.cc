#include "sotto/kernels/momentum.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sotto/kernels/momentum.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h:
#include "sotto/kernels/element.h"
#include "sotto/kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sotto::kernels {
namespace HWY_NAMESPACE {

void add_momentum(float m, float scale, std::span<const float> gradient, std::span<float> u, std::span<float> v) {
  std::size_t i = 0;
  for (; i + lanes <= u.size(); i += lanes) {
    const VF g = hn::Mul(set(scale), load_floats(&gradient[i]));
    const VF velocity = hn::Add(hn::Mul(set(m), load_floats(&u[i])), g);
    hn::StoreU(velocity, F32(), &u[i]);
    hn::StoreU(hn::Add(load_floats(&v[i]), velocity), F32(), &v[i]);
  }
  for (; i < u.size(); ++i) element::add_momentum(m, scale * gradient[i], u[i], v[i]);
}

void add_nesterov(float m, float scale, std::span<const float> gradient, std::span<float> u, std::span<float> v) {
  std::size_t i = 0;
  for (; i + lanes <= u.size(); i += lanes) {
    const VF g = hn::Mul(set(scale), load_floats(&gradient[i]));
    const VF velocity = hn::Mul(set(m), hn::Add(load_floats(&u[i]), g));
    hn::StoreU(velocity, F32(), &u[i]);
    hn::StoreU(hn::Add(hn::Add(load_floats(&v[i]), velocity), g), F32(), &v[i]);
  }
  for (; i < u.size(); ++i) element::add_nesterov(m, scale * gradient[i], u[i], v[i]);
}

}  // namespace HWY_NAMESPACE
}  // namespace sotto::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sotto::kernels {

HWY_EXPORT(add_momentum);
HWY_EXPORT(add_nesterov);

void add_momentum(float m, float scale, std::span<const float> gradient, std::span<float> u, std::span<float> v) {
  HWY_DYNAMIC_DISPATCH(add_momentum)(m, scale, gradient, u, v);
}
void add_nesterov(float m, float scale, std::span<const float> gradient, std::span<float> u, std::span<float> v) {
  HWY_DYNAMIC_DISPATCH(add_nesterov)(m, scale, gradient, u, v);
}

}  // namespace sotto::kernels
#endif
