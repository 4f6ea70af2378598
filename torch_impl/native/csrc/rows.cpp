// Compiled three times over, for the x86-64 levels 4 (AVX-512), 3 (AVX2, FMA) and any; the loader picks at run time, so
// that the library serves every machine of its architecture. ATen's vector classes choose their width when they are
// compiled, and an extension has one set of flags: with them this would be the narrowest everywhere.

#include "rows.h"

#include <bit>
#include <cmath>

#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 12
#define FOR_EVERY_LEVEL __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define FOR_EVERY_LEVEL
#endif

namespace gradparity::rows {
namespace {

// tanh x = E / (E + 2) with E = exp(2|x|) - 1 and the sign of x. With 2|x| = k log 2 + r, |r| <= log(2)/2:
// E = 2^k (exp r - 1) + (2^k - 1), whose terms do not cancel since k >= 0.
[[gnu::always_inline]] inline float tanh(float x) {
  const float magnitude = std::fabs(x) > 10.f ? 10.f : std::fabs(x); // from 9.02 on tanh rounds to 1
  // Adding 1.5 * 2^23 rounds to the integer k, and leaves it in the last bits.
  const float shifted = magnitude * 2.88539008f + 12582912.f; // 2 / log 2
  const float k = shifted - 12582912.f;
  const float two_to_k = std::bit_cast<float>((std::bit_cast<uint32_t>(shifted) << 23) + 0x3f800000u);
  // log 2 in two parts, the first so short that k times it is exact.
  const float r = (2.f * magnitude - k * 0.693145752f) - k * 1.42860677e-6f;
  // exp r - 1 = r + r² Q(r), Q minimax: 0.04 u of exp r - 1 from it.
  float Q = r * 1.984588e-4f + 1.3940668e-3f;
  Q = Q * r + 8.33339e-3f;
  Q = Q * r + 4.166636e-2f;
  Q = Q * r + 0.16666666f;
  Q = Q * r + 0.5f;
  const float E = two_to_k * (r * r * Q + r) + (two_to_k - 1.f);
  return std::copysign(E / (E + 2.f), x);
}

template <typename T>
[[gnu::always_inline]] inline void load_any(const T* x, int64_t stride, float* y, int64_t size) {
  if (stride == 1) {
#pragma omp simd
    for (int64_t i = 0; i < size; ++i) {
      y[i] = static_cast<float>(x[i]);
    }
  } else {
#pragma omp simd
    for (int64_t i = 0; i < size; ++i) {
      y[i] = static_cast<float>(x[i * stride]);
    }
  }
}

template <typename T>
[[gnu::always_inline]] inline void store_any(const float* x, T* y, int64_t size) {
#pragma omp simd
  for (int64_t i = 0; i < size; ++i) {
    y[i] = static_cast<T>(x[i]);
  }
}

} // namespace

FOR_EVERY_LEVEL void load(const float* x, int64_t stride, float* y, int64_t size) {
  load_any(x, stride, y, size);
}
FOR_EVERY_LEVEL void load(const c10::BFloat16* x, int64_t stride, float* y, int64_t size) {
  load_any(x, stride, y, size);
}
FOR_EVERY_LEVEL void load(const c10::Half* x, int64_t stride, float* y, int64_t size) {
  load_any(x, stride, y, size);
}

FOR_EVERY_LEVEL void store(const float* x, float* y, int64_t size) {
  store_any(x, y, size);
}
FOR_EVERY_LEVEL void store(const float* x, c10::BFloat16* y, int64_t size) {
  store_any(x, y, size);
}
FOR_EVERY_LEVEL void store(const float* x, c10::Half* y, int64_t size) {
  store_any(x, y, size);
}

FOR_EVERY_LEVEL void tanh(float* x, int64_t size) {
#pragma omp simd
  for (int64_t i = 0; i < size; ++i) {
    x[i] = tanh(x[i]);
  }
}

FOR_EVERY_LEVEL void times_slope(const float* G, const float* a, float* P, int64_t size) {
#pragma omp simd
  for (int64_t i = 0; i < size; ++i) {
    P[i] = (1.f - a[i]) * (1.f + a[i]) * G[i];
  }
}

FOR_EVERY_LEVEL void add(const float* x, float* y, int64_t size) {
#pragma omp simd
  for (int64_t i = 0; i < size; ++i) {
    y[i] += x[i];
  }
}

} // namespace gradparity::rows
