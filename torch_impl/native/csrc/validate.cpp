#include "validate.h"

#include <algorithm>
#include <array>
#include <ostream>
#include <string>

#include <ATen/autocast_mode.h>
#include <c10/core/ScalarType.h>
#include <c10/util/Exception.h>

namespace gradparity {
namespace {

using at::Tensor;

constexpr std::array DTYPES = {at::kDouble, at::kFloat, at::kBFloat16, at::kHalf, at::kComplexDouble, at::kComplexFloat};

// A shape as Python prints it; symbolic sizes by their names.
struct Shape {
  const Tensor& x;
};

std::ostream& operator<<(std::ostream& out, const Shape& shape) {
  const auto sizes = shape.x.sym_sizes();
  out << '(';
  for (size_t i = 0; i < sizes.size(); ++i) {
    out << (i ? ", " : "") << sizes[i];
  }
  return out << (sizes.size() == 1 ? ",)" : ")");
}

// A dtype as Python prints it.
std::string name(at::ScalarType dtype) {
  return std::string(c10::getDtypeNames(dtype).first);
}

std::string supported() {
  std::string names;
  for (const auto dtype : DTYPES) {
    names += (names.empty() ? "" : ", ") + name(dtype);
  }
  return names;
}

// The dtype that a product with x is computed in: autocast's, where that is on and lowers x's own.
at::ScalarType product_dtype(const Tensor& x) {
  const auto device = x.device().type();
  const auto dtype = x.scalar_type();
  const bool lowered = dtype == at::kFloat || dtype == at::kBFloat16 || dtype == at::kHalf;
  return lowered && at::autocast::is_autocast_available(device) && at::autocast::is_autocast_enabled(device)
      ? at::autocast::get_autocast_dtype(device)
      : dtype;
}

void check_argument(const Tensor& x, const char* argument, const char* axes) {
  TORCH_CHECK_TYPE(x.defined(), "attn: ", argument, " must be an array with axes ", axes, ", got NoneType");
  TORCH_CHECK_VALUE(
      x.dim() == 2, "attn: ", argument, " must have 2 axes ", axes, ", got ", x.dim(), " (shape ", Shape{x},
      "); map over batch axes with vmap");
  const auto dtype = x.scalar_type();
  TORCH_CHECK_TYPE(
      std::find(DTYPES.begin(), DTYPES.end(), dtype) != DTYPES.end(), "attn: ", argument, " has dtype ", name(dtype),
      "; convert it to one of ", supported(), " before calling");
}

// expect_true also serves sizes that are known only at run time: it defers the check instead of guarding on it.
void check_axis(const char* axis, const c10::SymInt& size, const char* first, const Tensor& x,
                const c10::SymInt& other, const char* second, const Tensor& y) {
  TORCH_CHECK_VALUE(
      size.sym_eq(other).expect_true(__FILE__, __LINE__), "attn: axis ", axis, " is ", size, " in ", first, " but ",
      other, " in ", second, " (", first, " has shape ", Shape{x}, ", ", second, " has shape ", Shape{y},
      "); make them equal");
}

} // namespace

void validate(const Tensor& q, const Tensor& k, const Tensor& v) {
  check_argument(q, "q", "(n, d)");
  check_argument(k, "k", "(m, d)");
  check_argument(v, "v", "(m, e)");
  TORCH_CHECK_TYPE(
      product_dtype(q) == product_dtype(k) && product_dtype(k) == product_dtype(v), "attn: q, k and v must share one dtype, got ",
      name(q.scalar_type()), ", ", name(k.scalar_type()), " and ", name(v.scalar_type()),
      "; convert them to a common dtype before calling");
  check_axis("d", q.sym_size(1), "q", q, k.sym_size(1), "k", k);
  check_axis("m", k.sym_size(0), "k", k, v.sym_size(0), "v", v);
}

} // namespace gradparity
