// The kernels of native_functions.yaml. Equation numbers are those of derivation/attn.md.

#include <ATen/ops/mm.h>
#include <ATen/ops/tanh.h>

#include "formulas.h"
#include "ops.h"
#include "validate.h"

namespace gradparity::native {

using at::Tensor;

std::tuple<Tensor, Tensor> attn_implicit(const Tensor& q, const Tensor& k, const Tensor& v) {
  validate(q, k, v);
  auto attn = at::tanh(at::mm(q, k.mT())); // (1), (2)
  return {at::mm(attn, v), attn}; // (3)
}

std::tuple<Tensor, Tensor> attn(const Tensor& q, const Tensor& k, const Tensor& v) {
  validate(q, k, v);
  auto attn = at::mm(q, k.mT()).tanh_(); // (1), (2); in place: the scores are needed nowhere else
  return {at::mm(attn, v), attn}; // (3)
}

std::tuple<Tensor, Tensor, Tensor> attn_backward(
    const std::optional<Tensor>& output_bar_opt, const std::optional<Tensor>& attn_bar_opt,
    const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& attn, std::array<bool, 3> mask) {
  const auto output_bar = output_bar_opt.value_or(Tensor());
  const auto attn_bar = attn_bar_opt.value_or(Tensor());
  Tensor q_bar, k_bar, v_bar;
  if ((mask[0] || mask[1]) && (output_bar.defined() || attn_bar.defined())) {
    const auto P = cotangent_of_scores(v, attn, output_bar, attn_bar); // (8), (9)
    if (mask[0]) {
      q_bar = at::mm(P, k.conj()); // (10)
    }
    if (mask[1]) {
      k_bar = at::mm(P.mT(), q.conj()); // (11)
    }
  }
  if (mask[2] && output_bar.defined()) {
    v_bar = at::mm(attn.mH(), output_bar); // (12)
  }
  return {q_bar, k_bar, v_bar};
}

} // namespace gradparity::native
