// Compiled three times over, for the x86-64 levels 4 (AVX-512), 3 (AVX2, FMA) and any; the loader picks at run time, so
// that the library serves every machine of its architecture. ATen's vector classes choose their width when they are
// compiled, and an extension has one set of flags: with them this would be the narrowest everywhere.

#include "rows.h"

#include <cmath>
#include <cstring>

#include <c10/util/bit_cast.h>

#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 12
#define LEVELS
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
  const float two_to_k = c10::bit_cast<float>((c10::bit_cast<uint32_t>(shifted) << 23) + 0x3f800000u);
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

// body(i, row[i * stride]) for every i, in float32.
template <typename T, typename Body>
[[gnu::always_inline]] inline void for_each(const T* row, int64_t stride, int64_t size, Body body) {
  if (stride == 1) {
#pragma omp simd
    for (int64_t i = 0; i < size; ++i) {
      body(i, static_cast<float>(row[i]));
    }
  } else {
#pragma omp simd
    for (int64_t i = 0; i < size; ++i) {
      body(i, static_cast<float>(row[i * stride]));
    }
  }
}

template <typename T>
[[gnu::always_inline]] inline void load_any(const Matrix<T>& x, float* y, int64_t y_stride) {
  for (int64_t r = 0; r < x.rows; ++r) {
    float* const to = y + r * y_stride;
    for_each(x.at(r, 0), x.column_stride, x.columns, [=](int64_t i, float entry) { to[i] = entry; });
  }
}

template <typename T>
[[gnu::always_inline]] inline void store_any(const float* x, T* y, int64_t size) {
#pragma omp simd
  for (int64_t i = 0; i < size; ++i) {
    y[i] = static_cast<T>(x[i]);
  }
}

template <typename T>
[[gnu::always_inline]] inline void tanh_any(
    float* x, int64_t x_stride, int64_t rows, int64_t columns, T* y, int64_t y_stride) {
  for (int64_t r = 0; r < rows; ++r, x += x_stride, y += y_stride) {
#pragma omp simd
    for (int64_t i = 0; i < columns; ++i) {
      x[i] = tanh(x[i]);
      y[i] = static_cast<T>(x[i]);
    }
  }
}

// Asks for the row of the block to the right. The machine does not foresee it, since the rows of a block lie far apart;
// beyond the last block it asks for what nobody reads.
template <typename T>
[[gnu::always_inline]] inline void ask_for_next(const Matrix<T>& x, int64_t row) {
  for (int64_t j = 0; j < x.columns; j += 64 / static_cast<int64_t>(sizeof(T))) {
    __builtin_prefetch(x.at(row, x.columns + j), /*to write=*/0, /*locality=*/2);
  }
}

[[gnu::always_inline]] inline float slope(float a) {
  return (1.f - a) * (1.f + a);
}

template <typename T>
[[gnu::always_inline]] inline void times_slope_any(
    const Matrix<T>& attn, const float* G, const Matrix<T>* attn_bar, float* A, float* P, int64_t stride) {
  for (int64_t r = 0; r < attn.rows; ++r) {
    const int64_t from = r * stride;
    ask_for_next(attn, r);
    if (attn_bar) {
      ask_for_next(*attn_bar, r);
    }
    for_each(attn.at(r, 0), attn.column_stride, attn.columns, [=](int64_t i, float a) { A[from + i] = a; });
    if (P && G && attn_bar) {
      for_each(attn_bar->at(r, 0), attn_bar->column_stride, attn.columns, [=](int64_t i, float a_bar) {
        P[from + i] = slope(A[from + i]) * (G[from + i] + a_bar);
      });
    } else if (P && attn_bar) {
      for_each(attn_bar->at(r, 0), attn_bar->column_stride, attn.columns, [=](int64_t i, float a_bar) {
        P[from + i] = slope(A[from + i]) * a_bar;
      });
    } else if (P) {
      for_each(G + from, 1, attn.columns, [=](int64_t i, float g) { P[from + i] = slope(A[from + i]) * g; });
    }
  }
}

// One after the other, or 8 x 8 in registers.
[[gnu::always_inline]] inline void transpose_slowly(
    const float* x, int64_t x_stride, int64_t rows, int64_t columns, float* y, int64_t y_stride) {
  for (int64_t j = 0; j < columns; ++j) {
    for (int64_t i = 0; i < rows; ++i) {
      y[j * y_stride + i] = x[i * x_stride + j];
    }
  }
}

#if __has_builtin(__builtin_shufflevector)
typedef float Eight __attribute__((vector_size(32)));

[[gnu::always_inline]] inline void transpose_eight(const float* x, int64_t x_stride, float* y, int64_t y_stride) {
  Eight a[8], b[8];
  for (int i = 0; i < 8; ++i) {
    std::memcpy(&a[i], x + i * x_stride, sizeof(Eight));
  }
  // Blocks of 1, then of 2, then of 4 change places with those across the diagonal.
  for (int i = 0; i < 8; i += 2) {
    b[i] = __builtin_shufflevector(a[i], a[i + 1], 0, 8, 2, 10, 4, 12, 6, 14);
    b[i + 1] = __builtin_shufflevector(a[i], a[i + 1], 1, 9, 3, 11, 5, 13, 7, 15);
  }
  for (int i : {0, 1, 4, 5}) {
    a[i] = __builtin_shufflevector(b[i], b[i + 2], 0, 1, 8, 9, 4, 5, 12, 13);
    a[i + 2] = __builtin_shufflevector(b[i], b[i + 2], 2, 3, 10, 11, 6, 7, 14, 15);
  }
  for (int i = 0; i < 4; ++i) {
    b[i] = __builtin_shufflevector(a[i], a[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
    b[i + 4] = __builtin_shufflevector(a[i], a[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
  }
  for (int j = 0; j < 8; ++j) {
    std::memcpy(y + j * y_stride, &b[j], sizeof(Eight));
  }
}
#endif

} // namespace

bool multiplies_bfloat16() {
#ifdef LEVELS
  return __builtin_cpu_supports("avx512bf16");
#else
  return false;
#endif
}

#define DEFINE(T)                                                                                                      \
  FOR_EVERY_LEVEL void load(const Matrix<T>& x, float* y, int64_t y_stride) {                                          \
    load_any(x, y, y_stride);                                                                                          \
  }                                                                                                                    \
  FOR_EVERY_LEVEL void store(const float* x, T* y, int64_t size) {                                                     \
    store_any(x, y, size);                                                                                             \
  }                                                                                                                    \
  FOR_EVERY_LEVEL void tanh(float* x, int64_t x_stride, int64_t rows, int64_t columns, T* y, int64_t y_stride) {       \
    tanh_any(x, x_stride, rows, columns, y, y_stride);                                                                 \
  }                                                                                                                    \
  FOR_EVERY_LEVEL void times_slope(                                                                                    \
      const Matrix<T>& attn, const float* G, const Matrix<T>* attn_bar, float* A, float* P, int64_t stride) {          \
    times_slope_any(attn, G, attn_bar, A, P, stride);                                                                  \
  }
DEFINE(float)
DEFINE(c10::BFloat16)
DEFINE(c10::Half)

FOR_EVERY_LEVEL void transpose(
    const float* x, int64_t x_stride, int64_t rows, int64_t columns, float* y, int64_t y_stride) {
  int64_t i = 0;
#if __has_builtin(__builtin_shufflevector)
  for (; i + 8 <= rows; i += 8) {
    int64_t j = 0;
    for (; j + 8 <= columns; j += 8) {
      transpose_eight(x + i * x_stride + j, x_stride, y + j * y_stride + i, y_stride);
    }
    transpose_slowly(x + i * x_stride + j, x_stride, 8, columns - j, y + j * y_stride + i, y_stride);
  }
#endif
  transpose_slowly(x + i * x_stride, x_stride, rows - i, columns, y + i, y_stride);
}

FOR_EVERY_LEVEL void add(const float* x, float* y, int64_t size) {
#pragma omp simd
  for (int64_t i = 0; i < size; ++i) {
    y[i] += x[i];
  }
}

} // namespace gradparity::rows
