#include <ATen/TensorOperators.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/sin.h>
#include <torch/library.h>

#include "ops.h"

namespace gradparity_wave::native {

at::Tensor scaled_sin(const at::Tensor& self, const at::Scalar& scale) {
  return at::sin(self * scale);
}

at::Tensor matrix_product(const at::Tensor& self, const at::Tensor& mat2) {
  return at::mm(self, mat2);
}

at::Tensor sine(const at::Tensor& self) {
  return at::sin(self);
}

at::Tensor cubed(const at::Tensor& self) {
  return self * self * self;
}

at::Tensor halved(const at::Tensor& self) {
  return at::mul(self, 0.5);
}

TORCH_LIBRARY_IMPL(gradparity_wave, FuncTorchBatched, m) {
  m.impl("scaled_sin", TORCH_FN(scaled_sin));
  m.impl("mm", TORCH_FN(matrix_product));
}

} // namespace gradparity_wave::native
