// Rows of the matrix are divided among the threads; a thread walks along its rows in blocks.
//
// Every product is C (+)= A B with all three row-major, so that a block needs no transposing: Kᵀ and Vᵀ are packed once,
// of size (m, d) and (m, e), and k_bar and v_bar are summed up transposed.

#include "fused.h"

#include <algorithm>
#include <type_traits>

#include <ATen/Parallel.h>
#include <ATen/native/CPUBlas.h>
#include <c10/core/CPUAllocator.h>

#include "rows.h"

namespace gradparity::fused {
namespace {

// Of the matrix; with them all that a block needs fits into a third of a megabyte at d = e = 64.
constexpr int64_t FORWARD_ROWS = 64, FORWARD_COLUMNS = 256;
constexpr int64_t BACKWARD_ROWS = 128, BACKWARD_COLUMNS = 128;

int64_t blocks(int64_t size, int64_t block) {
  return (size + block - 1) / block;
}

// Fewer columns where there are many features.
int64_t columns_for(int64_t columns, int64_t features) {
  return std::clamp<int64_t>(columns * 64 / features / 64 * 64, 64, columns);
}

// float32, not initialised, of PyTorch's allocator.
class Buffer {
 public:
  explicit Buffer(int64_t size) : data_(c10::GetCPUAllocator()->allocate(size * sizeof(float))) {}
  float* get() const {
    return static_cast<float*>(data_.get());
  }

 private:
  at::DataPtr data_;
};

// C (rows, columns) (+)= A (rows, inner) B (inner, columns), on the calling thread; ATen's is oneDNN's, compiled for the
// sizes and the machine at first use, and BLAS's where there is none.
void multiply(
    int64_t rows, int64_t columns, int64_t inner, const float* A, int64_t A_stride, const float* B, int64_t B_stride,
    float* C, int64_t C_stride, bool add) {
  at::native::cpublas::brgemm(rows, columns, inner, A_stride, B_stride, C_stride, add, A, B, C, /*is_vnni=*/false);
}

// Rows of a matrix as BLAS takes them: where they are, or copied.
struct Rows {
  const float* data;
  int64_t stride;
};

template <typename T>
bool as_it_is(const Matrix<T>& x) {
  return std::is_same_v<T, float> && x.column_stride == 1 && x.row_stride >= x.columns;
}

template <typename T>
int64_t size_if_copied(const Matrix<T>& x, int64_t rows) {
  return as_it_is(x) ? 0 : rows * x.columns;
}

template <typename T>
Rows rows_of(const Matrix<T>& x, int64_t first, int64_t count, float* copied) {
  if constexpr (std::is_same_v<T, float>) {
    if (as_it_is(x)) {
      return {x.at(first, 0), x.row_stride};
    }
  }
  rows::load(x.block(first, count, 0, x.columns), copied, x.columns);
  return {copied, x.columns};
}

// Transposes the rows [first, first + count): `to` is (columns, count).
template <typename T>
void copy_transposed(const Matrix<T>& x, int64_t first, int64_t count, float* to, int64_t to_stride) {
  constexpr int64_t ROWS = 64;
  const Buffer copied(size_if_copied(x, ROWS));
  for (int64_t i = 0; i < count; i += ROWS) {
    const int64_t rows = std::min(ROWS, count - i);
    const auto from = rows_of(x, first + i, rows, copied.get());
    rows::transpose(from.data, from.stride, rows, x.columns, to + i, to_stride);
  }
}

// All of a matrix transposed, (columns, block) after (columns, block).
template <typename T>
void pack_transposed(const Matrix<T>& x, int64_t block, float* to) {
  at::parallel_for(0, blocks(x.rows, block), 1, [&](int64_t begin, int64_t end) {
    for (int64_t j = begin; j < end; ++j) {
      copy_transposed(x, j * block, std::min(block, x.rows - j * block), to + j * x.columns * block, block);
    }
  });
}

// All of a matrix as rows.
template <typename T>
Rows all_rows_of(const Matrix<T>& x, const Buffer& copied) {
  if (!as_it_is(x)) {
    at::parallel_for(0, x.rows, 256, [&](int64_t begin, int64_t end) {
      rows_of(x, begin, end - begin, copied.get() + begin * x.columns);
    });
    return {copied.get(), x.columns};
  }
  return rows_of(x, 0, x.rows, nullptr);
}

} // namespace

template <typename T>
void forward(const Matrix<T>& q, const Matrix<T>& k, const Matrix<T>& v, T* output, T* attn) {
  const int64_t n = q.rows, d = q.columns, m = k.rows, e = v.columns;
  const int64_t C = columns_for(FORWARD_COLUMNS, std::max(d, e));
  const int64_t R = std::min(FORWARD_ROWS, std::max<int64_t>(8, blocks(n, at::get_num_threads())));
  const Buffer K_transposed(blocks(m, C) * d * C), V_copied(size_if_copied(v, m));
  pack_transposed(k, C, K_transposed.get());
  const auto V = all_rows_of(v, V_copied);

  at::parallel_for(0, blocks(n, R), 1, [&](int64_t begin, int64_t end) {
    const Buffer S(R * C), q_copied(size_if_copied(q, R)), sum(std::is_same_v<T, float> ? 0 : R * e);
    for (int64_t i = begin * R; i < std::min(n, end * R); i += R) {
      const int64_t rows = std::min(R, n - i);
      const auto Q = rows_of(q, i, rows, q_copied.get());
      float* const O = std::is_same_v<T, float> ? reinterpret_cast<float*>(output + i * e) : sum.get();
      for (int64_t j = 0; j < m; j += C) {
        const int64_t columns = std::min(C, m - j);
        multiply(rows, columns, d, Q.data, Q.stride, K_transposed.get() + j * d, C, S.get(), C, false); // (1)
        rows::tanh(S.get(), C, rows, columns, attn + i * m + j, m); // (2)
        multiply(rows, e, columns, S.get(), C, V.data + j * V.stride, V.stride, O, e, j > 0); // (3)
      }
      if constexpr (!std::is_same_v<T, float>) {
        rows::store(O, output + i * e, rows * e);
      }
    }
  });
}

template <typename T>
void backward(
    const Matrix<T>* output_bar, const Matrix<T>* attn_bar, const Matrix<T>& q, const Matrix<T>& k, const Matrix<T>& v,
    const Matrix<T>& attn, T* q_bar, T* k_bar, T* v_bar) {
  const int64_t n = q.rows, d = q.columns, m = k.rows, e = v.columns;
  const int64_t C = columns_for(BACKWARD_COLUMNS, std::max(d, e)), R = BACKWARD_ROWS, panels = blocks(m, C);
  const bool needs_P = q_bar || k_bar, needs_G = needs_P && output_bar;
  const Buffer V_transposed(needs_G ? panels * e * C : 0), K_copied(q_bar ? size_if_copied(k, m) : 0);
  if (needs_G) {
    pack_transposed(v, C, V_transposed.get());
  }
  const auto K = q_bar ? all_rows_of(k, K_copied) : Rows{};

  // Sums for k_bar and v_bar, a pair for each part of the rows; of the first part in float32, in their own memory. How
  // many parts there are, and which rows are in which, depends on the number of threads alone: so does the result.
  // Together they are no larger than attn.
  const bool sums = k_bar || v_bar;
  const int64_t most = sums ? std::max<int64_t>(1, n / (d + e)) : n;
  const int64_t parts = std::min({static_cast<int64_t>(at::get_num_threads()), blocks(n, 16), most});
  const int64_t part = blocks(n, parts), K_size = k_bar ? m * d : 0, V_size = v_bar ? m * e : 0;
  constexpr int64_t in_place = std::is_same_v<T, float> ? 1 : 0;
  const Buffer K_sums((parts - in_place) * K_size), V_sums((parts - in_place) * V_size);
  const auto sum_of = [](T* result, const Buffer& sums, int64_t size, int64_t t) {
    return t < in_place ? reinterpret_cast<float*>(result) : sums.get() + (t - in_place) * size;
  };

  at::parallel_for(0, parts, 1, [&](int64_t begin, int64_t end) {
    const Buffer P(needs_P ? R * C : 0), A(R * C), Q_transposed(k_bar ? d * R : 0), O_transposed(v_bar ? e * R : 0);
    const Buffer O_copied(needs_G ? size_if_copied(*output_bar, R) : 0);
    const Buffer sum(q_bar && !std::is_same_v<T, float> ? R * d : 0);
    for (int64_t t = begin; t < end; ++t) {
      for (int64_t i = t * part; i < std::min(n, (t + 1) * part); i += R) {
        const int64_t rows = std::min({R, n - i, (t + 1) * part - i});
        const bool first = i == t * part;
        const auto O = needs_G ? rows_of(*output_bar, i, rows, O_copied.get()) : Rows{};
        if (k_bar) {
          copy_transposed(q, i, rows, Q_transposed.get(), R);
        }
        if (v_bar) {
          copy_transposed(*output_bar, i, rows, O_transposed.get(), R);
        }
        float* const Q_sum = std::is_same_v<T, float> ? reinterpret_cast<float*>(q_bar + i * d) : sum.get();
        for (int64_t j = 0; j < m; j += C) {
          const int64_t columns = std::min(C, m - j);
          if (needs_G) {
            multiply(rows, columns, e, O.data, O.stride, V_transposed.get() + j * e, C, P.get(), C, false); // (8)
          }
          Matrix<T> a_bar;
          if (attn_bar) {
            a_bar = attn_bar->block(i, rows, j, columns);
          }
          rows::times_slope(
              attn.block(i, rows, j, columns), needs_G ? P.get() : nullptr, attn_bar ? &a_bar : nullptr, A.get(),
              needs_P ? P.get() : nullptr, C); // (8), (9)
          if (q_bar) {
            multiply(rows, d, columns, P.get(), C, K.data + j * K.stride, K.stride, Q_sum, d, j > 0); // (10)
          }
          if (k_bar) {
            float* const sum = sum_of(k_bar, K_sums, K_size, t) + j * d;
            multiply(d, columns, rows, Q_transposed.get(), R, P.get(), C, sum, columns, !first); // (11), transposed
          }
          if (v_bar) {
            float* const sum = sum_of(v_bar, V_sums, V_size, t) + j * e;
            multiply(e, columns, rows, O_transposed.get(), R, A.get(), C, sum, columns, !first); // (12), transposed
          }
        }
        if constexpr (!std::is_same_v<T, float>) {
          if (q_bar) {
            rows::store(Q_sum, q_bar + i * d, rows * d);
          }
        }
      }
    }
  });

  // Adds the parts up, and transposes the sum, panel by panel.
  const auto finish = [&](T* result, const Buffer& sums, int64_t size, int64_t features) {
    at::parallel_for(0, panels, 1, [&](int64_t begin, int64_t end) {
      const Buffer rows(C * features);
      for (int64_t j = begin * C; j < std::min(m, end * C); j += C) {
        const int64_t columns = std::min(C, m - j);
        float* const total = sum_of(result, sums, size, 0) + j * features;
        for (int64_t t = 1; t < parts; ++t) {
          rows::add(sum_of(result, sums, size, t) + j * features, total, features * columns);
        }
        rows::transpose(total, columns, features, columns, rows.get(), features);
        rows::store(rows.get(), result + j * features, columns * features);
      }
    });
  };
  if (k_bar) {
    finish(k_bar, K_sums, K_size, d);
  }
  if (v_bar) {
    finish(v_bar, V_sums, V_size, e);
  }
}

#define INSTANTIATE(T)                                                                                                 \
  template void forward(const Matrix<T>&, const Matrix<T>&, const Matrix<T>&, T*, T*);                                 \
  template void backward(                                                                                              \
      const Matrix<T>*, const Matrix<T>*, const Matrix<T>&, const Matrix<T>&, const Matrix<T>&, const Matrix<T>&, T*, \
      T*, T*);
INSTANTIATE(float)
INSTANTIATE(c10::BFloat16)
INSTANTIATE(c10::Half)

} // namespace gradparity::fused
