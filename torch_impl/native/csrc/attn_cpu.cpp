// The kernels for the CPU: fused where that pays and is possible, and else the composition that serves everything.

#include <ATen/Dispatch_v2.h>
#include <ATen/ops/empty.h>

#include "attn.h"
#include "fused.h"
#include "ops.h"
#include "rows.h"
#include "validate.h"

namespace gradparity::native {

using at::Tensor;

namespace {

template <typename T>
Matrix<T> matrix(const Tensor& x) {
  return {x.const_data_ptr<T>(), x.size(0), x.size(1), x.stride(0), x.stride(1)};
}

bool is_matrix(const Tensor& x, int64_t rows, int64_t columns, const Tensor& like) {
  return x.dim() == 2 && x.size(0) == rows && x.size(1) == columns && x.scalar_type() == like.scalar_type() &&
      x.device() == like.device() && x.layout() == at::kStrided;
}

// Where blocks are faster than the composition. Measured by benchmarks/: packing costs as much as the products if there
// are few rows or columns for the number of features, and where the machine multiplies bfloat16 itself, at twice the rate
// of float32 and more, only the passes over the matrix are left to be saved.
bool worth_it(const Tensor& q, const Tensor& k, const Tensor& v) {
  const auto fewest = std::min(q.size(0), k.size(0)), features = std::max(q.size(1), v.size(1));
  if (fewest < 16 || features > 16 * fewest || q.size(1) == 0 || v.size(1) == 0) {
    return false;
  }
  switch (q.scalar_type()) {
    case at::kBFloat16:
      return !rows::multiplies_bfloat16() || (fewest >= 64 && features <= 64);
    case at::kFloat:
    case at::kHalf:
      return true;
    default:
      return false;
  }
}

} // namespace

std::tuple<Tensor, Tensor> attn_cpu(const Tensor& q, const Tensor& k, const Tensor& v) {
  validate(q, k, v);
  if (!worth_it(q, k, v)) {
    return attn(q, k, v);
  }
  auto output = at::empty({q.size(0), v.size(1)}, q.options());
  auto attn = at::empty({q.size(0), k.size(0)}, q.options());
  AT_DISPATCH_V2(q.scalar_type(), "attn_cpu", AT_WRAP([&] {
    fused::forward<scalar_t>(
        matrix<scalar_t>(q), matrix<scalar_t>(k), matrix<scalar_t>(v), output.mutable_data_ptr<scalar_t>(),
        attn.mutable_data_ptr<scalar_t>());
  }), at::kFloat, at::kBFloat16, at::kHalf);
  return {output, attn};
}

std::tuple<Tensor, Tensor, Tensor> attn_backward_cpu(
    const std::optional<Tensor>& output_bar, const std::optional<Tensor>& attn_bar,
    const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& attn, std::array<bool, 3> mask) {
  // No code but this one stands between a wrong size and memory that is not ours.
  const auto fits = [&](const std::optional<Tensor>& x, int64_t rows, int64_t columns) {
    return !x || !x->defined() || is_matrix(*x, rows, columns, q);
  };
  const bool matrices = q.dim() == 2 && k.dim() == 2 && v.dim() == 2;
  if (!matrices || !fits(q, q.size(0), q.size(1)) || !fits(k, k.size(0), q.size(1)) ||
      !fits(v, k.size(0), v.size(1)) || !fits(attn, q.size(0), k.size(0)) || !fits(attn_bar, q.size(0), k.size(0)) ||
      !fits(output_bar, q.size(0), v.size(1)) || !worth_it(q, k, v)) {
    return attn_backward(output_bar, attn_bar, q, k, v, attn, mask);
  }
  const bool from_output = output_bar && output_bar->defined(), from_attn = attn_bar && attn_bar->defined();
  const auto gradient = [](bool asked, const Tensor& x) { return asked ? at::empty(x.sizes(), x.options()) : Tensor(); };
  const auto q_bar = gradient(mask[0] && (from_output || from_attn), q);
  const auto k_bar = gradient(mask[1] && (from_output || from_attn), k);
  const auto v_bar = gradient(mask[2] && from_output, v);
  if (q_bar.defined() || k_bar.defined() || v_bar.defined()) {
    AT_DISPATCH_V2(q.scalar_type(), "attn_backward_cpu", AT_WRAP([&] {
      const auto data = [](const Tensor& x) { return x.defined() ? x.mutable_data_ptr<scalar_t>() : nullptr; };
      Matrix<scalar_t> O, A;
      if (from_output) {
        O = matrix<scalar_t>(*output_bar);
      }
      if (from_attn) {
        A = matrix<scalar_t>(*attn_bar);
      }
      fused::backward<scalar_t>(
          from_output ? &O : nullptr, from_attn ? &A : nullptr, matrix<scalar_t>(q), matrix<scalar_t>(k),
          matrix<scalar_t>(v), matrix<scalar_t>(attn), data(q_bar), data(k_bar), data(v_bar));
    }), at::kFloat, at::kBFloat16, at::kHalf);
  }
  return {q_bar, k_bar, v_bar};
}

} // namespace gradparity::native
