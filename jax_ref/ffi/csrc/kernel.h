// attn in blocks that stay in the cache, for one instruction set: included once for each by attn.cpp, which sets
// NAMESPACE, TARGET (the attribute that lets a function use the instructions), LANES (floats in a register) and ROWS (of
// a tile, as many as there are registers for). Capital letters and numbers in the margin are those of
// derivation/attn.md.
//
// Every product is a row of tiles, tile += a b, with a tile of ROWS x WIDTH sums in registers. What is read along b is
// packed into panels: columns [0, WIDTH), then [WIDTH, 2 WIDTH), ..., each with its rows one after the other. A panel
// serves as b, as a (`along`), and as a transposed (`across`), so that no block is stored twice.

namespace NAMESPACE {

typedef float Lanes __attribute__((vector_size(4 * LANES)));
typedef float Unaligned __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

constexpr long WIDTH = 2 * LANES;
#define INLINE TARGET static inline __attribute__((always_inline))

struct Tile {
  Lanes x[ROWS][2];
};

INLINE void clear(Tile& t) {
  for (int i = 0; i < ROWS; ++i)
    for (int j = 0; j < 2; ++j) t.x[i][j] = Lanes{};
}

INLINE void load(Tile& t, const float* from, long stride) {
  for (int i = 0; i < ROWS; ++i)
    for (int j = 0; j < 2; ++j) t.x[i][j] = *(const Unaligned*)(from + i * stride + j * LANES);
}

INLINE void store(const Tile& t, float* to, long stride) {
  for (int i = 0; i < ROWS; ++i)
    for (int j = 0; j < 2; ++j) *(Unaligned*)(to + i * stride + j * LANES) = t.x[i][j];
}

// Of a matrix of which `rows` and `columns` are left from here: what is beyond is read as 0, and not written.

INLINE void load(Tile& t, const float* from, long stride, long rows, long columns) {
  if (rows >= ROWS && columns >= WIDTH) return load(t, from, stride);
  float whole[ROWS * WIDTH] = {};
  for (long i = 0; i < std::min<long>(rows, ROWS); ++i)
    for (long j = 0; j < std::min(columns, WIDTH); ++j) whole[i * WIDTH + j] = from[i * stride + j];
  load(t, whole, WIDTH);
}

INLINE void store(const Tile& t, float* to, long stride, long rows, long columns) {
  if (rows >= ROWS && columns >= WIDTH) return store(t, to, stride);
  float whole[ROWS * WIDTH];
  store(t, whole, WIDTH);
  for (long i = 0; i < std::min<long>(rows, ROWS); ++i)
    for (long j = 0; j < std::min(columns, WIDTH); ++j) to[i * stride + j] = whole[i * WIDTH + j];
}

// t += a b: a has ROWS rows and `terms` columns, with these strides; b is one panel.
template <long ROW, long COLUMN>
INLINE void add_product(Tile& t, const float* a, const float* b, long terms) {
  for (long k = 0; k < terms; ++k, b += WIDTH) {
    const Lanes left = *(const Unaligned*)b, right = *(const Unaligned*)(b + LANES);
#pragma GCC unroll 16
    for (int i = 0; i < ROWS; ++i) {
      const float factor = a[i * ROW + k * COLUMN];
      t.x[i][0] += factor * left;
      t.x[i][1] += factor * right;
    }
  }
}

// a: rows of panels of this height.
INLINE void add_along(Tile& t, const float* a, long height, const float* b, long terms) {
  for (long k = 0; k < terms; k += WIDTH, a += height * WIDTH, b += WIDTH * WIDTH)
    add_product<WIDTH, 1>(t, a, b, std::min(WIDTH, terms - k));
}

// a: columns of one panel.
INLINE void add_across(Tile& t, const float* a, const float* b, long terms) {
  add_product<1, WIDTH>(t, a, b, terms);
}

INLINE Lanes tanh_of(Lanes x) {
  const Lanes end = Lanes{} + TANH_END;
  x = x > end ? end : x;  // a NaN is neither, and stays
  x = x < -end ? -end : x;
  const Lanes t = x * x;
  const Lanes p = (((TANH_P4 * t + TANH_P3) * t + TANH_P2) * t + TANH_P1) * t + 1.0f;
  const Lanes q = (((TANH_Q4 * t + TANH_Q3) * t + TANH_Q2) * t + TANH_Q1) * t + 1.0f;
  const Lanes y = x * p / q, one = Lanes{} + 1.0f;  // by rounding, y may be beyond 1 near the end
  const Lanes below = y > one ? one : y;
  return below < -one ? -one : below;
}

// Rows [0, rows) of x (rows, columns) in panels of this height; the rest of them 0.
TARGET static void pack(float* to, const float* x, long rows, long columns, long height) {
  for (long c = 0; c < columns; c += WIDTH) {
    const long present = std::min(WIDTH, columns - c);
    for (long r = 0; r < height; ++r, to += WIDTH)
      for (long j = 0; j < WIDTH; ++j) to[j] = r < rows && j < present ? x[r * columns + c + j] : 0.0f;
  }
}

// The transpose of x (rows, columns) in panels.
TARGET static void pack_transposed(float* to, const float* x, long rows, long columns) {
  for (long r = 0; r < rows; r += WIDTH) {
    const long present = std::min(WIDTH, rows - r);
    for (long c = 0; c < columns; ++c, to += WIDTH)
      for (long j = 0; j < WIDTH; ++j) to[j] = j < present ? x[(r + j) * columns + c] : 0.0f;
  }
}

// What panels hold of a matrix (rows, columns), in its place.
TARGET static void unpack(float* to, const float* panels, long rows, long columns, long height) {
  for (long c = 0; c < columns; c += WIDTH, panels += height * WIDTH)
    for (long r = 0; r < rows; r += ROWS) {
      Tile t;
      load(t, panels + r * WIDTH, WIDTH);
      store(t, to + r * columns + c, columns, rows - r, columns - c);
    }
}

constexpr long up(long size, long to) { return (size + to - 1) / to * to; }

// Forward: blocks of 64 queries by 256 keys.

constexpr long FORWARD_QUERIES = 64, FORWARD_KEYS = 256;

static long forward_scratch(Sizes s) {
  const long m = up(s.m, WIDTH), d = up(s.d, WIDTH), e = up(s.e, WIDTH);
  return m * s.d + m * e + FORWARD_QUERIES * (d + FORWARD_KEYS + e);
}

// output and attn, rows [begin, end).
TARGET static void forward(Sizes s, const float* q, const float* k, const float* v, float* output, float* attn,
                           long begin, long end, float* scratch) {
  const long m = up(s.m, WIDTH), d = up(s.d, WIDTH), e = up(s.e, WIDTH);
  float *const kT = scratch, *const V = kT + m * s.d, *const Q = V + m * e;
  float *const A = Q + FORWARD_QUERIES * d, *const O = A + FORWARD_QUERIES * FORWARD_KEYS;
  pack_transposed(kT, k, s.m, s.d);
  pack(V, v, s.m, s.e, m);
  for (long n0 = begin; n0 < end; n0 += FORWARD_QUERIES) {
    const long queries = std::min(FORWARD_QUERIES, end - n0), height = up(queries, ROWS);
    pack(Q, q + n0 * s.d, queries, s.d, height);
    std::fill_n(O, height * e, 0.0f);
    for (long m0 = 0; m0 < s.m; m0 += FORWARD_KEYS) {
      const long keys = std::min(FORWARD_KEYS, s.m - m0);
      for (long r = 0; r < height; r += ROWS)
        for (long c = 0; c < keys; c += WIDTH) {
          Tile t;
          clear(t);
          add_along(t, Q + r * WIDTH, height, kT + (m0 + c) * s.d, s.d);  //            (1)
          for (int i = 0; i < ROWS; ++i)
            for (int j = 0; j < 2; ++j) t.x[i][j] = tanh_of(t.x[i][j]);  //             (2)
          store(t, A + c * height + r * WIDTH, WIDTH);
          store(t, attn + (n0 + r) * s.m + m0 + c, s.m, queries - r, s.m - m0 - c);
        }
      for (long c = 0; c < e; c += WIDTH)
        for (long r = 0; r < height; r += ROWS) {
          Tile t;
          float* const sum = O + c * height + r * WIDTH;
          load(t, sum, WIDTH);
          add_along(t, A + r * WIDTH, height, V + c * m + m0 * WIDTH, keys);  //        (3)
          store(t, sum, WIDTH);
        }
    }
    unpack(output + n0 * s.e, O, queries, s.e, height);
  }
}

// Backward: blocks of 128 queries by 256 keys, of which A and P are all that is ever there.

constexpr long BACKWARD_QUERIES = 128, BACKWARD_KEYS = 256;

static long backward_scratch(Sizes s) {
  const long m = up(s.m, WIDTH), d = up(s.d, WIDTH), e = up(s.e, WIDTH);
  return m * d + m * s.e + BACKWARD_QUERIES * (2 * d + e + 2 * BACKWARD_KEYS);
}

static long sums_size(Sizes s) { return up(s.m, WIDTH) * (up(s.d, WIDTH) + up(s.e, WIDTH)); }

// q_bar, rows [begin, end), and in `sums` what these rows add to k_bar and v_bar. An absent cotangent is null, and so is
// v_bar without output_bar.
TARGET static void backward(Sizes s, const float* q, const float* k, const float* v, const float* attn,
                            const float* output_bar, const float* attn_bar, float* q_bar, long begin, long end,
                            float* scratch, float* sums) {
  const long m = up(s.m, WIDTH), d = up(s.d, WIDTH), e = up(s.e, WIDTH);
  float *const K = scratch, *const vT = K + m * d, *const Q = vT + m * s.e, *const Q_bar = Q + BACKWARD_QUERIES * d;
  float *const O_bar = Q_bar + BACKWARD_QUERIES * d, *const A = O_bar + BACKWARD_QUERIES * e;
  float *const P = A + BACKWARD_QUERIES * BACKWARD_KEYS, *const K_bar = sums, *const V_bar = sums + m * d;
  pack(K, k, s.m, s.d, m);
  if (output_bar) pack_transposed(vT, v, s.m, s.e);
  std::fill_n(sums, sums_size(s), 0.0f);
  for (long n0 = begin; n0 < end; n0 += BACKWARD_QUERIES) {
    const long queries = std::min(BACKWARD_QUERIES, end - n0), height = up(queries, ROWS);
    pack(Q, q + n0 * s.d, queries, s.d, height);
    if (output_bar) pack(O_bar, output_bar + n0 * s.e, queries, s.e, height);
    std::fill_n(Q_bar, height * d, 0.0f);
    for (long m0 = 0; m0 < s.m; m0 += BACKWARD_KEYS) {
      const long keys = std::min(BACKWARD_KEYS, s.m - m0);
      for (long r = 0; r < height; r += ROWS)
        for (long c = 0; c < keys; c += WIDTH) {
          Tile t, a;
          const long at = (n0 + r) * s.m + m0 + c;
          if (attn_bar) {
            load(t, attn_bar + at, s.m, queries - r, s.m - m0 - c);
          } else {
            clear(t);
          }
          if (output_bar) add_along(t, O_bar + r * WIDTH, height, vT + (m0 + c) * s.e, s.e);  // (8)
          load(a, attn + at, s.m, queries - r, s.m - m0 - c);
          for (int i = 0; i < ROWS; ++i)
            for (int j = 0; j < 2; ++j) t.x[i][j] *= (1 - a.x[i][j]) * (1 + a.x[i][j]);  // (4), (9)
          store(t, P + c * height + r * WIDTH, WIDTH);
          if (output_bar) store(a, A + c * height + r * WIDTH, WIDTH);
        }
      for (long c = 0; c < d; c += WIDTH)
        for (long r = 0; r < height; r += ROWS) {
          Tile t;
          float* const sum = Q_bar + c * height + r * WIDTH;
          load(t, sum, WIDTH);
          add_along(t, P + r * WIDTH, height, K + c * m + m0 * WIDTH, keys);  //        (10)
          store(t, sum, WIDTH);
        }
      for (long c = 0; c < d; c += WIDTH)
        for (long r = 0; r < keys; r += ROWS) {
          Tile t;
          float* const sum = K_bar + c * m + (m0 + r) * WIDTH;
          load(t, sum, WIDTH);
          add_across(t, P + r / WIDTH * WIDTH * height + r % WIDTH, Q + c * height, queries);  // (11)
          store(t, sum, WIDTH);
        }
      for (long c = 0; output_bar && c < e; c += WIDTH)
        for (long r = 0; r < keys; r += ROWS) {
          Tile t;
          float* const sum = V_bar + c * m + (m0 + r) * WIDTH;
          load(t, sum, WIDTH);
          add_across(t, A + r / WIDTH * WIDTH * height + r % WIDTH, O_bar + c * height, queries);  // (12)
          store(t, sum, WIDTH);
        }
    }
    unpack(q_bar + n0 * s.d, Q_bar, queries, s.d, height);
  }
}

// k_bar and v_bar from the sums of all rows.
TARGET static void finish(Sizes s, float* k_bar, float* v_bar, const float* sums) {
  const long m = up(s.m, WIDTH);
  unpack(k_bar, sums, s.m, s.d, m);
  if (v_bar) unpack(v_bar, sums + m * up(s.d, WIDTH), s.m, s.e, m);
}

#undef INLINE
}  // namespace NAMESPACE
#undef NAMESPACE
#undef TARGET
#undef LANES
#undef ROWS
