// The functions that derivatives.yaml names, as PyTorch's FunctionsManual.h declares its own. Each is made of
// differentiable ATen operators, so that it has derivatives of every order and runs under vmap, forward AD and tracing.
//
// An undefined tensor is an absent cotangent or tangent, and so is a tangent of autograd's efficient zeros; neither is
// ever multiplied. A gradient that the mask does not ask for stays undefined.
#pragma once

#include <array>
#include <tuple>

#include <ATen/core/Tensor.h>

namespace gradparity {

// Is it there, and not autograd's efficient zero (which stands for a tangent that an input does not have)?
bool present(const at::Tensor& x);

// G of (8), absent if both cotangents are; attn_bar itself if only that is there.
at::Tensor cotangent_of_attn(const at::Tensor& v, const at::Tensor& output_bar, const at::Tensor& attn_bar);

// The tangents of output and attn.
std::tuple<at::Tensor, at::Tensor> attn_jvp(
    const at::Tensor& q, const at::Tensor& q_dot, const at::Tensor& k, const at::Tensor& k_dot,
    const at::Tensor& v, const at::Tensor& v_dot, const at::Tensor& attn);

// The tangents of q_bar, k_bar and v_bar.
std::tuple<at::Tensor, at::Tensor, at::Tensor> attn_backward_jvp(
    const at::Tensor& output_bar, const at::Tensor& output_bar_dot,
    const at::Tensor& attn_bar, const at::Tensor& attn_bar_dot,
    const at::Tensor& q, const at::Tensor& q_dot, const at::Tensor& k, const at::Tensor& k_dot,
    const at::Tensor& v, const at::Tensor& v_dot, const at::Tensor& attn, const at::Tensor& attn_dot,
    std::array<bool, 3> mask);

// The cotangents of output_bar, attn_bar, q, k, v and attn.
std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor> attn_double_backward(
    const at::Tensor& q_bar_bar, const at::Tensor& k_bar_bar, const at::Tensor& v_bar_bar,
    const at::Tensor& output_bar, const at::Tensor& attn_bar,
    const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& attn,
    std::array<bool, 6> mask);

} // namespace gradparity
