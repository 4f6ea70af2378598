// The kernel that native_functions.yaml does not name.
#pragma once

#include <array>
#include <optional>
#include <tuple>

#include <ATen/core/Tensor.h>

namespace gradparity::native {

// attn_backward where nothing may be written in place: under vmap.
std::tuple<at::Tensor, at::Tensor, at::Tensor> attn_backward_batched(
    const std::optional<at::Tensor>& output_bar, const std::optional<at::Tensor>& attn_bar,
    const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& attn, std::array<bool, 3> mask);

} // namespace gradparity::native
