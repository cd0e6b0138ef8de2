#include "sotto/kernels/vector.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sotto/kernels/vector.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h:
#include "sotto/kernels/element.h"
#include "sotto/kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sotto::kernels {
namespace HWY_NAMESPACE {

void add(std::span<const float> values, std::span<float> out) {
  std::size_t i = 0;
  for (; i + lanes <= out.size(); i += lanes) {
    hn::StoreU(hn::Add(load_floats(&out[i]), load_floats(&values[i])), F32(), &out[i]);
  }
  for (; i < out.size(); ++i) out[i] += values[i];
}

void scale(float factor, std::span<float> out) {
  std::size_t i = 0;
  for (; i + lanes <= out.size(); i += lanes) {
    hn::StoreU(hn::Mul(load_floats(&out[i]), set(factor)), F32(), &out[i]);
  }
  for (; i < out.size(); ++i) out[i] *= factor;
}

void axpy(float factor, std::span<const float> values, std::span<float> out) {
  std::size_t i = 0;
  for (; i + lanes <= out.size(); i += lanes) accumulate(load_floats(&values[i]), set(factor), &out[i]);
  for (; i < out.size(); ++i) out[i] += factor * values[i];
}

void xpay(std::span<const float> values, float factor, std::span<float> out) {
  std::size_t i = 0;
  for (; i + lanes <= out.size(); i += lanes) {
    hn::StoreU(hn::Add(load_floats(&values[i]), hn::Mul(set(factor), load_floats(&out[i]))), F32(), &out[i]);
  }
  for (; i < out.size(); ++i) out[i] = values[i] + factor * out[i];
}

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

HWY_EXPORT(add);
HWY_EXPORT(scale);
HWY_EXPORT(axpy);
HWY_EXPORT(xpay);

void add(std::span<const float> values, std::span<float> out) { HWY_DYNAMIC_DISPATCH(add)(values, out); }
void scale(float factor, std::span<float> out) { HWY_DYNAMIC_DISPATCH(scale)(factor, out); }
void axpy(float factor, std::span<const float> values, std::span<float> out) {
  HWY_DYNAMIC_DISPATCH(axpy)(factor, values, out);
}
void xpay(std::span<const float> values, float factor, std::span<float> out) {
  HWY_DYNAMIC_DISPATCH(xpay)(values, factor, out);
}

// A plain loop: vector units do not add faster at scattered addresses.
void scatter_add(std::span<const float> values, std::span<const std::uint32_t> indices, std::uint32_t first,
                 std::span<float> out) {
  for (std::size_t j = 0; j < indices.size(); ++j) out[indices[j] - first] += values[j];
}

void scatter_fill(float value, std::span<const std::uint32_t> indices, std::uint32_t first, std::span<float> out) {
  for (const std::uint32_t index : indices) out[index - first] = value;
}

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
