// attn and its gradients block by block, so that a block of scores is made, used and left while it is in the cache.
#pragma once

#include "matrix.h"

namespace gradparity::fused {

// (1) to (3) of derivation/attn.md, in float32 whatever T is: the results are rounded once.
// output (n, e) and attn (n, m) are contiguous. No size is 0.
template <typename T>
void forward(const Matrix<T>& q, const Matrix<T>& k, const Matrix<T>& v, T* output, T* attn);

// (8) to (12). A null cotangent is absent; a null gradient is not asked for. One gradient at least is, and each that is
// has a cotangent to come from. The gradients are contiguous. No size is 0.
template <typename T>
void backward(
    const Matrix<T>* output_bar, const Matrix<T>* attn_bar, const Matrix<T>& q, const Matrix<T>& k, const Matrix<T>& v,
    const Matrix<T>& attn, T* q_bar, T* k_bar, T* v_bar);

} // namespace gradparity::fused
