// Equation numbers are those of derivation/attn.md, up to (24), and derivation/native.md. Both are in JAX's convention;
// PyTorch's has a conjugate wherever a factor moves to the other side of a pairing, which does nothing to real tensors.

#include "formulas.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/tanh_backward.h>

namespace gradparity {

using at::Tensor;

bool present(const Tensor& x) {
  return x.defined() && !x._is_zerotensor();
}

namespace {

// The sum of two terms, of which either may be absent.
Tensor sum(const Tensor& x, const Tensor& y) {
  return !x.defined() ? y : !y.defined() ? x : x + y;
}

// x y, absent if a factor is.
Tensor product(const Tensor& x, const Tensor& y) {
  return present(x) && present(y) ? at::mm(x, y) : Tensor();
}

// D ∘ T with D = 1 - A ∘ A, not conjugated.
Tensor times_slope(const Tensor& T, const Tensor& attn) {
  return at::tanh_backward(T, attn.conj());
}

} // namespace

Tensor cotangent_of_attn(const Tensor& v, const Tensor& output_bar, const Tensor& attn_bar) {
  if (present(output_bar) && present(attn_bar)) {
    // For meta tensors PyTorch 2.15 has an addmm in Python only, which C++ cannot call with symbolic sizes.
    return v.is_meta() ? attn_bar + at::mm(output_bar, v.mH()) : at::addmm(attn_bar, output_bar, v.mH()); // (8)
  }
  return present(output_bar) ? at::mm(output_bar, v.mH()) : present(attn_bar) ? attn_bar : Tensor();
}

std::tuple<Tensor, Tensor> attn_jvp(
    const Tensor& q, const Tensor& q_dot, const Tensor& k, const Tensor& k_dot, const Tensor& v, const Tensor& v_dot,
    const Tensor& attn) {
  const auto T = sum(product(q_dot, k.mT()), present(k_dot) ? at::mm(q, k_dot.mT()) : Tensor()); // (5)
  const auto attn_dot = T.defined() ? times_slope(T, attn) : Tensor(); // (4), (6)
  const auto output_dot = sum(product(attn_dot, v), product(attn, v_dot)); // (7)
  return {output_dot, attn_dot};
}

std::tuple<Tensor, Tensor, Tensor> attn_backward_jvp(
    const Tensor& output_bar, const Tensor& output_bar_dot, const Tensor& attn_bar, const Tensor& attn_bar_dot,
    const Tensor& q, const Tensor& q_dot, const Tensor& k, const Tensor& k_dot, const Tensor& v, const Tensor& v_dot,
    const Tensor& attn, const Tensor& attn_dot, std::array<bool, 3> mask) {
  Tensor q_bar_dot, k_bar_dot, v_bar_dot;
  if (mask[0] || mask[1]) {
    Tensor G;
    if (present(attn_dot) || (mask[0] && present(k_dot)) || (mask[1] && present(q_dot))) {
      G = cotangent_of_attn(v, output_bar, attn_bar); // (8)
    }
    auto G_dot = cotangent_of_attn(v, output_bar_dot, attn_bar_dot); // (13)
    if (present(output_bar) && present(v_dot)) {
      G_dot = sum(G_dot, at::mm(output_bar, v_dot.mH())); // (13)
    }
    Tensor P, P_dot;
    if (G.defined()) {
      P = at::tanh_backward(G, attn); // (9)
    }
    if (G_dot.defined()) {
      P_dot = at::tanh_backward(G_dot, attn); // (15), D ∘ G_dot
    }
    if (G.defined() && present(attn_dot)) {
      P_dot = sum(P_dot, -2 * G * (attn * attn_dot).conj()); // (14), (15)
    }
    if (mask[0]) {
      q_bar_dot = sum(product(P_dot, k.conj()), present(k_dot) ? product(P, k_dot.conj()) : Tensor()); // (16)
    }
    if (mask[1]) {
      k_bar_dot = sum(P_dot.defined() ? at::mm(P_dot.mT(), q.conj()) : Tensor(),
                      P.defined() && present(q_dot) ? at::mm(P.mT(), q_dot.conj()) : Tensor()); // (17)
    }
  }
  if (mask[2]) {
    v_bar_dot = sum(present(attn_dot) ? product(attn_dot.mH(), output_bar) : Tensor(),
                    product(attn.mH(), output_bar_dot)); // (18)
  }
  return {q_bar_dot, k_bar_dot, v_bar_dot};
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor> attn_double_backward(
    const Tensor& q_bar_bar, const Tensor& k_bar_bar, const Tensor& v_bar_bar, const Tensor& output_bar,
    const Tensor& attn_bar, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& attn,
    std::array<bool, 6> mask) {
  const bool to_output_bar = mask[0], to_attn_bar = mask[1], to_attn = mask[5];
  const bool to_q = mask[2] && k_bar_bar.defined(); // (29)
  const bool to_k = mask[3] && q_bar_bar.defined(); // (30)
  const bool to_v = mask[4] && present(output_bar); // (31)
  Tensor output_bar_bar, attn_bar_bar, q_grad, k_grad, v_grad, attn_grad;
  Tensor P_bar, G_bar, G, P;
  if (to_output_bar || to_attn_bar || to_v || to_attn) {
    P_bar = sum(product(q_bar_bar, k.mT()), k_bar_bar.defined() ? at::mm(q, k_bar_bar.mT()) : Tensor()); // (25)
  }
  if (P_bar.defined() && (to_output_bar || to_attn_bar || to_v)) {
    G_bar = times_slope(P_bar, attn); // (26)
  }
  if (to_q || to_k || (to_attn && P_bar.defined())) {
    G = cotangent_of_attn(v, output_bar, attn_bar); // (8)
  }
  if (G.defined() && (to_q || to_k)) {
    P = at::tanh_backward(G, attn); // (9)
  }
  if (to_output_bar) {
    output_bar_bar = sum(product(G_bar, v), product(attn, v_bar_bar)); // (27)
  }
  if (to_attn_bar) {
    attn_bar_bar = G_bar; // (28)
  }
  if (to_q) {
    q_grad = product(P, k_bar_bar.conj()); // (29)
  }
  if (to_k && P.defined()) {
    k_grad = at::mm(P.mT(), q_bar_bar.conj()); // (30)
  }
  if (to_v && G_bar.defined()) {
    v_grad = product(G_bar.mH(), output_bar); // (31)
  }
  if (to_attn) {
    attn_grad = v_bar_bar.defined() ? product(output_bar, v_bar_bar.mH()) : Tensor(); // (32)
    if (G.defined() && P_bar.defined()) {
      attn_grad = sum(attn_grad, -2 * G * (attn * P_bar).conj()); // (32)
    }
  }
  return {output_bar_bar, attn_bar_bar, q_grad, k_grad, v_grad, attn_grad};
}

} // namespace gradparity
