#include <cmath>

#include <ATen/Dispatch.h>
#include <ATen/functorch/BatchedTensorImpl.h>
#include <ATen/ops/empty_like.h>
#include <torch/library.h>

#include "ops.h"

namespace gradparity_examples::native {

using at::Tensor;

Tensor gelu_meta(const Tensor& self) {
  return at::empty_like(self, at::MemoryFormat::Contiguous);
}

// A pointer knows no strides: ask for contiguous memory.
Tensor gelu_cpu(const Tensor& self) {
  const Tensor input = self.contiguous();
  Tensor output = at::empty_like(input);
  AT_DISPATCH_FLOATING_TYPES(input.scalar_type(), "gelu", [&] {
    const scalar_t* x = input.const_data_ptr<scalar_t>();
    scalar_t* y = output.mutable_data_ptr<scalar_t>();
    for (int64_t i = 0; i < input.numel(); i++) {
      y[i] = x[i] * std::erfc(-x[i] / std::sqrt(scalar_t(2))) / 2;
    }
  });
  return output;
}

// vmap: entry by entry, a batch axis is an axis like the others.
Tensor gelu_batched(const Tensor& self) {
  const auto* batched = at::functorch::maybeGetBatchedImpl(self);
  c10::impl::ExcludeDispatchKeyGuard off(c10::DispatchKey::FuncTorchBatched);
  return at::functorch::makeBatched(gelu(batched->value()), batched->bdim(), batched->level());
}

TORCH_LIBRARY_IMPL(gradparity_examples, FuncTorchBatched, m) {
  m.impl("gelu", TORCH_FN(gelu_batched));
}

} // namespace gradparity_examples::native
