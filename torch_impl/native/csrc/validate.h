// What attn accepts, said once; every violation names the argument, the axis, the sizes and the remedy.
#pragma once

#include <ATen/core/Tensor.h>

namespace gradparity {

// q (n, d), k (m, d), v (m, e), of one floating-point dtype. A size may be symbolic.
// Raises ValueError: a wrong number of axes, or an axis whose size differs between two arguments.
//        TypeError: None, a dtype that is not supported, or dtypes that differ (after autocast, where it is on).
void validate(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v);

} // namespace gradparity
