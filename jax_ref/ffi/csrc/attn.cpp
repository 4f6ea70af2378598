// The two kernels that jax_ref/ffi/_attn.py calls, in float32: attn and its VJP, on the threads of XLA.

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <new>

#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

namespace {

struct Sizes {
  long n, m, d, e;
};

// tanh x = x p(x²) / q(x²) with p and q of degree 4: the minimax fit of the relative error on [0, TANH_END], beyond
// which tanh is 1 in float32, its coefficients then moved by a few units in the last place to make up for each other's
// rounding.
constexpr float TANH_END = 9.02f;
constexpr float TANH_P1 = 0.13382680714130402f, TANH_P2 = 0.0034974506124854088f, TANH_P3 = 2.0635707187466323e-05f,
                TANH_P4 = 1.3384123143111992e-08f;
constexpr float TANH_Q1 = 0.4671599864959717f, TANH_Q2 = 0.02588433399796486f, TANH_Q3 = 0.00032885061227716506f,
                TANH_Q4 = 7.790179097355576e-07f;

}  // namespace

// Not -march=native: the library may lie in a home that machines of several kinds share, so it has them all.
#if defined(__x86_64__)
#define NAMESPACE avx512
#define TARGET __attribute__((target("avx512f")))
#define LANES 16
#define ROWS 8
#include "kernel.h"
#define NAMESPACE avx2
#define TARGET __attribute__((target("avx2,fma")))
#define LANES 8
#define ROWS 4
#include "kernel.h"
#endif
#define NAMESPACE any
#define TARGET
#define LANES 4
#if defined(__aarch64__)
#define ROWS 8
#else
#define ROWS 4
#endif
#include "kernel.h"

namespace {

struct Kernels {
  decltype(&any::forward) forward;
  decltype(&any::backward) backward;
  decltype(&any::finish) finish;
  decltype(&any::forward_scratch) forward_scratch, backward_scratch, sums_size;
};

#define KERNELS(set) \
  Kernels { set::forward, set::backward, set::finish, set::forward_scratch, set::backward_scratch, set::sums_size }

Kernels choose() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f")) return KERNELS(avx512);
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return KERNELS(avx2);
#endif
  return KERNELS(any);
}

const Kernels kernels = choose();

struct Free {
  void operator()(float* p) const { std::free(p); }
};
using Floats = std::unique_ptr<float[], Free>;

constexpr long LINE = 16;  // floats of a cache line

long whole_lines(long count) { return (count + LINE - 1) / LINE * LINE; }

Floats allocate(long count) {
  void* const p = std::aligned_alloc(4 * LINE, 4 * std::max(LINE, count));
  if (!p) throw std::bad_alloc();
  return Floats(static_cast<float*>(p));
}

// A matrix for every example of a batch: jax.vmap puts axes before the last two, of size 1 where an array is not mapped.
using Array = ffi::Buffer<ffi::F32>;

struct Batch {
  ffi::Span<const int64_t> axes;  // of the results, which are always mapped
  long count = 1;

  explicit Batch(const Array& result) : axes(result.dimensions().first(result.dimensions().size() - 2)) {
    for (const int64_t size : axes) count *= size;
  }

  // The matrix of one example, where there is one.
  float* of(const Array& x, long example) const {
    const auto shape = x.dimensions();
    long at = 0, step = shape[shape.size() - 2] * shape[shape.size() - 1];
    for (size_t axis = axes.size(); axis-- > 0; example /= axes[axis], step *= shape[axis])
      if (shape[axis] != 1) at += example % axes[axis] * step;
    return x.typed_data() + at;
  }
};

Sizes sizes_of(const Array& q, const Array& k, const Array& v) {
  const auto last = [](const Array& x, size_t from_end) { return x.dimensions()[x.dimensions().size() - from_end]; };
  return {last(q, 2), last(k, 2), last(q, 1), last(v, 1)};
}

// The work: every example, its rows in equal slices. As many slices as threads, where that is worth their start, so that
// the order of additions depends on the sizes and the number of threads only.
struct Work {
  long examples, rows, slices, items, workers;

  Work(Sizes s, long batch, long available, long least) : examples(batch), rows(s.n) {
    const long threads = std::max(1l, available);  // 0: XLA has no pool here
    const double flops = 4.0 * s.n * s.m * (s.d + s.e);
    const long useful = std::min<long>(long(flops / 3e7), s.n / least);
    slices = batch >= threads ? 1 : std::clamp<long>(useful, 1, threads);
    items = examples * slices;
    workers = flops * batch < 6e7 ? 1 : std::clamp<long>(items, 1, threads);
  }

  long example(long item) const { return item / slices; }
  long begin(long item) const { return item % slices * rows / slices; }
  long end(long item) const { return (item % slices + 1) * rows / slices; }
};

// body(worker, item) for all items. The caller works, too, and waits only for what others have begun: a pool whose
// threads all wait here is no deadlock.
template <typename Body>
void run(ffi::ThreadPool& pool, const Work& work, const Body& body) {
  struct State {
    std::atomic<long> next{0};
    std::mutex mutex;
    std::condition_variable finished;
    long done = 0;
  };
  const auto state = std::make_shared<State>();
  const auto loop = [state, &body, items = work.items](long worker) {
    for (long item; (item = state->next++) < items;) {
      body(worker, item);
      const std::lock_guard<std::mutex> lock(state->mutex);
      if (++state->done == items) state->finished.notify_all();
    }
  };
  for (long worker = 1; worker < work.workers; ++worker) pool.Schedule([loop, worker] { loop(worker); });
  loop(0);
  std::unique_lock<std::mutex> lock(state->mutex);
  state->finished.wait(lock, [&] { return state->done == work.items; });
}

template <typename Body>
ffi::Error reported(const Body& body) {
  try {
    body();
  } catch (const std::bad_alloc&) {
    return ffi::Error(ffi::ErrorCode::kResourceExhausted, "attn: no memory is left for the blocks");
  }
  return ffi::Error::Success();
}

ffi::Error forward(ffi::ThreadPool pool, Array q, Array k, Array v, ffi::Result<Array> output,
                   ffi::Result<Array> attn) {
  return reported([&] {
    const Sizes s = sizes_of(q, k, v);
    const Batch batch(*attn);
    const Work work(s, batch.count, pool.num_threads(), 64);
    const long size = whole_lines(kernels.forward_scratch(s));
    const Floats scratch = allocate(size * work.workers);
    run(pool, work, [&](long worker, long item) {
      const long i = work.example(item);
      kernels.forward(s, batch.of(q, i), batch.of(k, i), batch.of(v, i), batch.of(*output, i), batch.of(*attn, i),
                      work.begin(item), work.end(item), scratch.get() + worker * size);
    });
  });
}

// An absent cotangent, and v_bar without output_bar, is an array without entries.
ffi::Error backward(ffi::ThreadPool pool, Array q, Array k, Array v, Array attn, Array output_bar, Array attn_bar,
                    ffi::Result<Array> q_bar, ffi::Result<Array> k_bar, ffi::Result<Array> v_bar, bool has_output_bar,
                    bool has_attn_bar) {
  return reported([&] {
    const Sizes s = sizes_of(q, k, v);
    const Batch batch(*q_bar);
    const Work work(s, batch.count, pool.num_threads(), 128);
    const long size = whole_lines(kernels.backward_scratch(s)), sums_size = whole_lines(kernels.sums_size(s));
    const bool sliced = work.slices > 1;
    const Floats scratch = allocate(size * work.workers);
    const Floats sums = allocate(sums_size * (sliced ? work.items : work.workers));
    const auto finish = [&](long i, const float* sum) {
      kernels.finish(s, batch.of(*k_bar, i), has_output_bar ? batch.of(*v_bar, i) : nullptr, sum);
    };
    run(pool, work, [&](long worker, long item) {
      const long i = work.example(item);
      float* const sum = sums.get() + sums_size * (sliced ? item : worker);
      kernels.backward(s, batch.of(q, i), batch.of(k, i), batch.of(v, i), batch.of(attn, i),
                       has_output_bar ? batch.of(output_bar, i) : nullptr,
                       has_attn_bar ? batch.of(attn_bar, i) : nullptr, batch.of(*q_bar, i), work.begin(item),
                       work.end(item), scratch.get() + worker * size, sum);
      if (!sliced) finish(i, sum);
    });
    for (long i = 0; sliced && i < work.examples; ++i) {
      float* const sum = sums.get() + sums_size * i * work.slices;
      for (long slice = 1; slice < work.slices; ++slice)
        for (long j = 0; j < sums_size; ++j) sum[j] += sum[sums_size * slice + j];
      finish(i, sum);
    }
  });
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(gradparity_attn_forward, forward,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Arg<Array>()  // q
                                  .Arg<Array>()  // k
                                  .Arg<Array>()  // v
                                  .Ret<Array>()  // output
                                  .Ret<Array>());  // attn

XLA_FFI_DEFINE_HANDLER_SYMBOL(gradparity_attn_backward, backward,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Arg<Array>()  // q
                                  .Arg<Array>()  // k
                                  .Arg<Array>()  // v
                                  .Arg<Array>()  // attn
                                  .Arg<Array>()  // output_bar
                                  .Arg<Array>()  // attn_bar
                                  .Ret<Array>()  // q_bar
                                  .Ret<Array>()  // k_bar
                                  .Ret<Array>()  // v_bar
                                  .Attr<bool>("has_output_bar")
                                  .Attr<bool>("has_attn_bar"));
