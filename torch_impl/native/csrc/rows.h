// What the fused kernel does to a row of a block in the cache, vectorised for the machine it runs on.
#pragma once

#include <cstdint>

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

namespace gradparity::rows {

// Has this machine instructions for products of bfloat16?
bool multiplies_bfloat16();

// y[i] = x[i * stride], in float32.
void load(const float* x, int64_t stride, float* y, int64_t size);
void load(const c10::BFloat16* x, int64_t stride, float* y, int64_t size);
void load(const c10::Half* x, int64_t stride, float* y, int64_t size);

// y[i] = x[i], rounded once.
void store(const float* x, float* y, int64_t size);
void store(const float* x, c10::BFloat16* y, int64_t size);
void store(const float* x, c10::Half* y, int64_t size);

// x[i] = tanh x[i], with an error of at most 2.43 ulp; odd, of modulus at most 1, NaN for NaN.
void tanh(float* x, int64_t size);

// (8), (9) of derivation/attn.md: P[i] = (1 - a[i]) (1 + a[i]) (G[i] + a_bar[i]). G, or a_bar, may be null: absent.
// The slope has three roundings whatever a is, by (88) of derivation/numerics.md; 1 - a² errs by up to 1448 near |a| = 1.
void times_slope(const float* G, const float* a_bar, const float* a, float* P, int64_t size);

// y (columns, rows) = xᵀ of x (rows, columns), each with the distance of its rows.
void transpose(const float* x, int64_t x_stride, int64_t rows, int64_t columns, float* y, int64_t y_stride);

// y[i] += x[i].
void add(const float* x, float* y, int64_t size);

} // namespace gradparity::rows
