// The kernels of native_functions.yaml. Equation numbers are those of derivation/attn.md.

#include <ATen/ops/mm.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/tanh_backward.h>

#include "attn.h"
#include "formulas.h"
#include "ops.h"
#include "validate.h"

namespace gradparity::native {

using at::Tensor;

namespace {

// Under autograd and vmap P must not take the place of G: either may be recorded, or have an axis that the other lacks.
std::tuple<Tensor, Tensor, Tensor> gradients(
    const Tensor& output_bar, const Tensor& attn_bar, const Tensor& q, const Tensor& k, const Tensor& v,
    const Tensor& attn, std::array<bool, 3> mask, bool in_place) {
  Tensor q_bar, k_bar, v_bar;
  if ((mask[0] || mask[1]) && (present(output_bar) || present(attn_bar))) {
    auto G = cotangent_of_attn(v, output_bar, attn_bar); // (8)
    const bool ours = present(output_bar); // a product, and not attn_bar itself
    const auto P = in_place && ours ? at::tanh_backward_out(G, G, attn) : at::tanh_backward(G, attn); // (9)
    if (mask[0]) {
      q_bar = at::mm(P, k.conj()); // (10)
    }
    if (mask[1]) {
      k_bar = at::mm(P.mT(), q.conj()); // (11)
    }
  }
  if (mask[2] && present(output_bar)) {
    v_bar = at::mm(attn.mH(), output_bar); // (12)
  }
  return {q_bar, k_bar, v_bar};
}

} // namespace

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
    const std::optional<Tensor>& output_bar, const std::optional<Tensor>& attn_bar,
    const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& attn, std::array<bool, 3> mask) {
  return gradients(output_bar.value_or(Tensor()), attn_bar.value_or(Tensor()), q, k, v, attn, mask, /*in_place=*/true);
}

std::tuple<Tensor, Tensor, Tensor> attn_backward_batched(
    const std::optional<Tensor>& output_bar, const std::optional<Tensor>& attn_bar,
    const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& attn, std::array<bool, 3> mask) {
  return gradients(output_bar.value_or(Tensor()), attn_bar.value_or(Tensor()), q, k, v, attn, mask, /*in_place=*/false);
}

} // namespace gradparity::native
