// What the fused kernel does to the rows of a block in the cache, vectorised for the machine it runs on.
#pragma once

#include <cstdint>

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include "matrix.h"

namespace gradparity::rows {

// Has this machine instructions for products of bfloat16?
bool multiplies_bfloat16();

// For each type that the kernel reads and writes:
// - load: y = x, in float32.
// - store: y[i] = x[i], rounded once.
// - tanh, (2) of derivation/attn.md: x = tanh x, with an error of at most 2.43 ulp, odd, of modulus at most 1, NaN for
//   NaN; and y = x, rounded once.
// - times_slope, (8) and (9): A = attn, in float32, and P = (1 - A) (1 + A) (G + attn_bar), where G, or attn_bar, may
//   be null: absent. P may be null, not asked for, and it may be G. The rows of A, G and P have the same distance. The
//   slope has three roundings whatever A is, by (88) of derivation/numerics.md; 1 - A² errs by up to 1448 near |A| = 1.
#define DECLARE(T)                                                                              \
  void load(const Matrix<T>& x, float* y, int64_t y_stride);                                    \
  void store(const float* x, T* y, int64_t size);                                               \
  void tanh(float* x, int64_t x_stride, int64_t rows, int64_t columns, T* y, int64_t y_stride); \
  void times_slope(                                                                             \
      const Matrix<T>& attn, const float* G, const Matrix<T>* attn_bar, float* A, float* P, int64_t stride);
DECLARE(float)
DECLARE(c10::BFloat16)
DECLARE(c10::Half)
#undef DECLARE

// y (columns, rows) = xᵀ of x (rows, columns), each with the distance of its rows.
void transpose(const float* x, int64_t x_stride, int64_t rows, int64_t columns, float* y, int64_t y_stride);

// y[i] += x[i].
void add(const float* x, float* y, int64_t size);

} // namespace gradparity::rows
