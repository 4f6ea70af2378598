// What a CompositeImplicit operator of PyTorch gets for nothing and an operator outside of it has to register: vmap,
// and, for an explicit operator, autocast.

#include <ATen/autocast_mode.h>
#include <torch/library.h>

#include "attn.h"
#include "ops.h"

namespace gradparity {
namespace {

using at::Tensor;

// The kernels are made of operators that have batching rules, so under vmap they run as they are, but for writing in place.
TORCH_LIBRARY_IMPL(gradparity, FuncTorchBatched, m) {
  m.impl("attn", TORCH_FN(native::attn));
  m.impl("attn_backward", TORCH_FN(native::attn_backward_batched));
}
TORCH_LIBRARY_IMPL(gradparity, FuncTorchBatchedDecomposition, m) {
  m.impl("attn_implicit", TORCH_FN(native::attn_implicit));
}

// The policy of the matrix product: in the lower precision.
template <c10::DeviceType device>
std::tuple<Tensor, Tensor> attn_autocast(const Tensor& q, const Tensor& k, const Tensor& v) {
  c10::impl::ExcludeDispatchKeyGuard off(at::autocast::get_autocast_dispatch_key_from_device_type(device));
  const auto dtype = at::autocast::get_autocast_dtype(device);
  const auto cast = [&](const Tensor& x) { return at::autocast::cached_cast(dtype, x, device); };
  return attn(cast(q), cast(k), cast(v));
}

// A backward runs in the precisions of its forward, whether autocast is on or not.
template <c10::DeviceType device>
std::tuple<Tensor, Tensor, Tensor> attn_backward_autocast(
    const std::optional<Tensor>& output_bar, const std::optional<Tensor>& attn_bar,
    const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& attn, std::array<bool, 3> mask) {
  c10::impl::ExcludeDispatchKeyGuard off(at::autocast::get_autocast_dispatch_key_from_device_type(device));
  return attn_backward(output_bar, attn_bar, q, k, v, attn, mask);
}

template <c10::DeviceType device>
void register_autocast(torch::Library& m) {
  m.impl("attn", TORCH_FN(attn_autocast<device>));
  m.impl("attn_backward", TORCH_FN(attn_backward_autocast<device>));
}

TORCH_LIBRARY_IMPL(gradparity, AutocastCPU, m) { register_autocast<at::kCPU>(m); }
TORCH_LIBRARY_IMPL(gradparity, AutocastCUDA, m) { register_autocast<at::kCUDA>(m); }
TORCH_LIBRARY_IMPL(gradparity, AutocastMPS, m) { register_autocast<at::kMPS>(m); }
TORCH_LIBRARY_IMPL(gradparity, AutocastXPU, m) { register_autocast<at::kXPU>(m); }
TORCH_LIBRARY_IMPL(gradparity, AutocastPrivateUse1, m) { register_autocast<at::kPrivateUse1>(m); }

} // namespace
} // namespace gradparity
