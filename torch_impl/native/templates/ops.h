// ${generated_comment}
//
// The operators of ${namespace} in C++: what csrc/ calls, through the dispatcher, and the kernels that it must define.
#pragma once

#include <ATen/core/Tensor.h>

namespace ${namespace} {

${operator_declarations}

namespace native {

${kernel_declarations}

} // namespace native
} // namespace ${namespace}
