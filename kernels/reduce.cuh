// Reductions over the middle axis of [outer, n, inner].
//
// Element i of the axis goes to partial i % 32, then the partials meet in the tree (base.cuh).
// Where inner is 1, a warp takes a row, a lane a partial, and a block 8 rows:
//   n_blocks = ceil(outer / 8).
// Otherwise a block takes 32 columns of one `outer`, a lane a column; warp w holds the partials w,
// w + 8, w + 16 and w + 24 of each column, so that the tree's first two levels stay in registers:
//   n_blocks = outer * ceil(inner / 32).
// A short axis (n at most FEW) leaves nothing to share: a thread takes an output, and a block 1024:
//   n_blocks = ceil(outer * inner / 1024).
//
// Elements come from `x(i)`, i counting over all of [outer, n, inner]: from memory, or computed on
// the way by a fused region.

#define FEW 16

// Shared memory of a reduction, bytes: eight partials of 32 columns.
constexpr int smem_reduce(int n, int inner) { return inner == 1 || n <= FEW ? 0 : WARPS * 32 * 8; }

// Elements in memory.
template <class A>
struct Stored {
    const A* p;
    __device__ __forceinline__ float operator()(long i) const { return ld(p, i); }
};

// A fold has a State, `start`, `add` of the element x at index i, `merge` of two partials in the
// order of the tree, `down` (the partial of the lane `half` above) and a result.
struct SumFold {
    typedef float State;
    typedef float Out;
    DEV State start() { return 0.0f; }
    DEV State add(State p, float x, int) { return p + x; }
    DEV State merge(State p, State q) { return p + q; }
    DEV State down(State p, int half) { return __shfl_down_sync(0xffffffffu, p, half); }
    DEV Out result(State p) { return p; }
};

// NaN where any element is NaN, else the largest, never -0.
struct MaxFold {
    typedef float State;
    typedef float Out;
    DEV State start() { return -INF_F; }
    DEV State add(State p, float x, int) { return merge(p, x); }
    DEV State merge(State p, State q) { return q > p || q != q ? q : p; }
    DEV State down(State p, int half) { return __shfl_down_sync(0xffffffffu, p, half); }
    DEV Out result(State p) { return p != p ? NAN_F : p + 0.0f; }
};

// The lowest index among the largest; NaN wins only where all are NaN, and then the index is 0.
struct Best {
    float top;
    int index;
};
struct ArgMaxFold {
    typedef Best State;
    typedef int Out;
    DEV State start() { return {NAN_F, 0x7fffffff}; }
    DEV State add(State p, float x, int i) { return merge(p, {x, i}); }
    DEV State merge(State p, State q) {
        bool p_nan = p.top != p.top, q_nan = q.top != q.top;
        bool ties = q.top == p.top || (p_nan && q_nan);
        bool wins = q.top > p.top || (p_nan && !q_nan) || (ties && q.index < p.index);
        return wins ? q : p;
    }
    DEV State down(State p, int half) {
        return {__shfl_down_sync(0xffffffffu, p.top, half), __shfl_down_sync(0xffffffffu, p.index, half)};
    }
    DEV Out result(State p) { return p.index; }
};

template <class F, class X>
DEV void reduce_rows(X x, typename F::Out* out, int outer, int n, const Job& job) {
    int lane = threadIdx.x % 32;
    int row = job.block * WARPS + threadIdx.x / 32;
    if (row >= outer) return;
    long from = (long)row * n;
    typename F::State p = F::start();
#pragma unroll 8
    for (int i = lane; i < n; i += 32) p = F::add(p, x(from + i), i);
#pragma unroll
    for (int half = 16; half >= 1; half >>= 1) p = F::merge(p, F::down(p, half));
    if (lane == 0) out[row] = F::result(p);
}

template <class F, class X>
DEV void reduce_columns(X x, typename F::Out* out, int n, int inner, const Job& job) {
    typedef typename F::State State;
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int per_outer = (inner + 31) / 32;
    int o = job.block / per_outer, column = job.block % per_outer * 32 + lane;
    State p[4] = {F::start(), F::start(), F::start(), F::start()};
    if (column < inner) {
        long from = (long)o * n * inner + column;
        int i = warp;
#pragma unroll 4
        for (; i + 24 < n; i += 32) {
#pragma unroll
            for (int k = 0; k < 4; ++k) p[k] = F::add(p[k], x(from + (long)(i + 8 * k) * inner), i + 8 * k);
        }
#pragma unroll
        for (int k = 0; k < 3; ++k) {
            if (i + 8 * k < n) p[k] = F::add(p[k], x(from + (long)(i + 8 * k) * inner), i + 8 * k);
        }
    }
    // 16 apart, then 8 apart.
    State* partials = (State*)job.smem;
    partials[warp * 32 + lane] = F::merge(F::merge(p[0], p[2]), F::merge(p[1], p[3]));
    __syncthreads();
    if (warp == 0) {
        State q[8];
#pragma unroll
        for (int j = 0; j < 8; ++j) q[j] = partials[j * 32 + lane];
#pragma unroll
        for (int half = 4; half >= 1; half >>= 1) {
#pragma unroll
            for (int j = 0; j < half; ++j) q[j] = F::merge(q[j], q[j + half]);
        }
        if (column < inner) out[(long)o * inner + column] = F::result(q[0]);
    }
    // A job that follows in this block may write shared memory.
    __syncthreads();
}

template <class F, class X>
DEV void reduce_few(X x, typename F::Out* out, int outer, int n, int inner, const Job& job) {
    typedef typename F::State State;
#pragma unroll
    for (int u = 0; u < 4; ++u) {
        int e = job.block * 1024 + u * THREADS + threadIdx.x;
        if (e >= outer * inner) return;
        long from = (long)(e / inner) * n * inner + e % inner;
        State p[FEW];
#pragma unroll
        for (int i = 0; i < FEW; ++i) {
            if (i < n) p[i] = F::add(F::start(), x(from + (long)i * inner), i);
        }
        // The tree, without partials that no element reached: they change nothing.
#pragma unroll
        for (int half = FEW / 2; half >= 1; half >>= 1) {
#pragma unroll
            for (int i = 0; i < half; ++i) {
                if (i + half < n) p[i] = F::merge(p[i], p[i + half]);
            }
        }
        out[e] = F::result(n > 0 ? p[0] : F::start());
    }
}

template <class F, class X>
DEV void reduce(X x, typename F::Out* out, int outer, int n, int inner, const Job& job) {
    if (n <= FEW) {
        reduce_few<F>(x, out, outer, n, inner, job);
    } else if (inner == 1) {
        reduce_rows<F>(x, out, outer, n, job);
    } else {
        reduce_columns<F>(x, out, n, inner, job);
    }
}

// x [outer, n, inner], out [outer, inner]; an empty sum is 0.
template <class X>
DEV void job_sum(X x, float* out, int outer, int n, int inner, const Job& job) {
    reduce<SumFold>(x, out, outer, n, inner, job);
}
template <class X>
DEV void job_max(X x, float* out, int outer, int n, int inner, const Job& job) {
    reduce<MaxFold>(x, out, outer, n, inner, job);
}
template <class X>
DEV void job_argmax(X x, int* out, int outer, int n, int inner, const Job& job) {
    reduce<ArgMaxFold>(x, out, outer, n, inner, job);
}
