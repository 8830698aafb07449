// Softmax, cross-entropy and the projection of categorical distributions, row by row.
//
// Matrices are [n_rows, width] with n_valid values a row and then padding, which is never read in
// an input and exactly 0 in an output. A warp takes a row, a block 8 rows: n_blocks =
// ceil(n_rows / 8). Sums run over partials i % 32, so a lane adds what it holds, then the tree.
// Only the projection needs shared memory.

// Values of a row that a lane keeps in registers; wider rows are read again.
#define ROW_KEPT 8

// Calls f(k, i) for the lane's elements i = 32 k + lane of a row, in index order; k is -1 where the
// row is too wide to be kept. Both are known to the compiler, so that what is kept stays in
// registers.
template <class F>
DEV void each_of_row(int n, F f) {
    int lane = threadIdx.x % 32;
    if (n <= 32 * ROW_KEPT) {
#pragma unroll
        for (int k = 0; k < ROW_KEPT; ++k) {
            int i = k * 32 + lane;
            if (i < n) f(k, i);
        }
    } else {
        for (int i = lane; i < n; i += 32) f(-1, i);
    }
}

// A row that is read once where a lane can keep its share.
template <class A>
struct Row {
    const A* from;
    float kept[ROW_KEPT];

    DEV Row make(const A* from, int n) {
        Row row;
        row.from = from;
        each_of_row(n, [&](int k, int i) {
            if (k >= 0) row.kept[k] = ld(from, i);
        });
        return row;
    }
    __device__ __forceinline__ float at(int k, int i) const { return k >= 0 ? kept[k] : ld(from, i); }
};

// Largest value of a row; NaN is passed over, since it reaches the sums anyway.
template <class A>
DEV float row_top(const Row<A>& x, int n) {
    float top = -INF_F;
    each_of_row(n, [&](int k, int i) {
        float value = x.at(k, i);
        top = value > top ? value : top;
    });
#pragma unroll
    for (int half = 16; half >= 1; half >>= 1) {
        float other = __shfl_down_sync(0xffffffffu, top, half);
        top = other > top ? other : top;
    }
    return __shfl_sync(0xffffffffu, top, 0);
}

// exp(x - top) of a row, and the sum of it.
template <class A>
struct Exponentials {
    Row<A> x;
    float top;
    float sum;

    DEV Exponentials make(const A* from, int n) {
        Exponentials e;
        e.x = Row<A>::make(from, n);
        float top = e.top = row_top(e.x, n);
        float p = 0.0f;
        each_of_row(n, [&](int k, int i) {
            float value = m_exp(e.x.at(k, i) - top);
            if (k >= 0) e.x.kept[k] = value;
            p += value;
        });
        e.sum = warp_sum(p);
        return e;
    }
    __device__ __forceinline__ float at(int k, int i) const { return k >= 0 ? x.kept[k] : m_exp(x.at(k, i) - top); }
};

DEV void zero_padding(float* row, int width, int n_valid) {
    for (int i = n_valid + threadIdx.x % 32; i < width; i += 32) row[i] = 0.0f;
}

// Subtract the maximum, exponentiate, sum, divide.
template <class A>
DEV void job_softmax(const A* x, float* out, int n_rows, int width, int n_valid, const Job& job) {
    int row = job.block * WARPS + threadIdx.x / 32;
    if (row >= n_rows) return;
    long at = (long)row * width;
    Exponentials<A> e = Exponentials<A>::make(x + at, n_valid);
    each_of_row(n_valid, [&](int k, int i) { out[at + i] = e.at(k, i) / e.sum; });
    zero_padding(out + at, width, n_valid);
}

// out [n_rows] = sum of target * (lse - logit), lse = top + ln sum exp(logit - top).
template <class A, class T>
DEV void job_cross_entropy(const A* logits, const T* target, float* out, int n_rows, int width, int n_valid, const Job& job) {
    int row = job.block * WARPS + threadIdx.x / 32;
    if (row >= n_rows) return;
    long at = (long)row * width;
    Row<T> t = Row<T>::make(target + at, n_valid);
    Row<A> x = Row<A>::make(logits + at, n_valid);
    float top = row_top(x, n_valid);
    float p = 0.0f;
    each_of_row(n_valid, [&](int k, int i) { p += m_exp(x.at(k, i) - top); });
    float lse = top + m_ln(warp_sum(p));
    float q = 0.0f;
    each_of_row(n_valid, [&](int k, int i) { q += t.at(k, i) * (lse - x.at(k, i)); });
    q = warp_tree(q);
    if (threadIdx.x % 32 == 0) out[row] = q;
}

// grad [n_rows]; out = grad * (softmax * sum of target - target).
template <class A, class T, class G>
DEV void job_cross_entropy_grad(const A* logits, const T* target, const G* grad, float* out, int n_rows, int width, int n_valid,
                                const Job& job) {
    int row = job.block * WARPS + threadIdx.x / 32;
    if (row >= n_rows) return;
    long at = (long)row * width;
    float scale = ld(grad, row);
    Row<T> t = Row<T>::make(target + at, n_valid);
    Exponentials<A> e = Exponentials<A>::make(logits + at, n_valid);
    float p = 0.0f;
    each_of_row(n_valid, [&](int k, int i) { p += t.at(k, i); });
    float mass = warp_sum(p);
    each_of_row(n_valid, [&](int k, int i) { out[at + i] = scale * (e.at(k, i) / e.sum * mass - t.at(k, i)); });
    zero_padding(out + at, width, n_valid);
}

// Atoms of a row in shared memory, filled up to whole groups of four.
constexpr int project_pitch(int width) { return (width + 3) / 4 * 4; }

// Shared memory of a projection, bytes: low, share_low and share_high of each atom of 8 rows; none
// where that is above 32 KiB, and atoms are then computed again for every output.
constexpr int smem_project(int width) {
    return WARPS * project_pitch(width) * 12 <= 32768 ? WARPS * project_pitch(width) * 12 : 0;
}

// What a source atom gives to its two neighbours, `low` and the one above.
struct Atom {
    int low;
    float share_low, share_high;
};

// The constants of a row's projection.
struct Shift {
    float z_min, spacing, last, reward, discount;
    int last_pair;

    __device__ __forceinline__ Atom atom(int j, float p) const {
        float at = (float)j;
        float z = z_min + at * spacing;
        float s = (reward + (discount - 1.0f) * z) / spacing;
        s = s < -at ? -at : s;
        s = s > last - at ? last - at : s;
        // NaN stays at its own atom, where its weights are NaN.
        int low = j + (s != s ? 0 : (int)floorf(s));
        low = low < last_pair ? low : last_pair;
        float move_low = (float)low - at;
        return {low, p * (1.0f - (s - move_low)), p * (1.0f - (move_low + 1.0f - s))};
    }
};

// Projects the distribution p of reward + discount * z onto the atoms of z, n_valid (at least 2)
// from -v_max to v_max. reward and discount are [n_rows], v_max is [].
// Each output adds over the source atoms in index order.
template <class A, class B, class C, class D>
DEV void job_project(const A* p, const B* reward, const C* discount, const D* v_max, float* out, int n_rows, int width, int n_valid,
                     const Job& job) {
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int row = job.block * WARPS + warp;
    if (row < n_rows) {
        long base = (long)row * width;
        float z_max = ld(v_max, 0);
        Shift shift;
        shift.z_min = -z_max;
        shift.last = (float)(n_valid - 1);
        shift.spacing = (z_max - shift.z_min) / shift.last;
        shift.reward = ld(reward, row);
        shift.discount = ld(discount, row);
        shift.last_pair = n_valid - 2;
        int pitch = project_pitch(width);
        if (smem_project(width) > 0) {
            int* lows = (int*)job.smem + warp * pitch * 3;
            float* shares_low = (float*)lows + pitch;
            float* shares_high = shares_low + pitch;
            // What fills the last group up goes to no output.
            for (int j = lane; j < (n_valid + 3) / 4 * 4; j += 32) {
                Atom atom = {-2, 0.0f, 0.0f};
                if (j < n_valid) atom = shift.atom(j, ld(p, base + j));
                lows[j] = atom.low;
                shares_low[j] = atom.share_low;
                shares_high[j] = atom.share_high;
            }
            __syncwarp();
            for (int i = lane; i < n_valid; i += 32) {
                float sum = 0.0f;
#pragma unroll 2
                for (int j = 0; j < n_valid; j += 4) {
                    int4 l = *(const int4*)(lows + j);
                    float4 a = *(const float4*)(shares_low + j), b = *(const float4*)(shares_high + j);
                    // Adding +0 to a sum that began at +0 changes no bit.
                    sum += l.x == i ? a.x : l.x + 1 == i ? b.x : 0.0f;
                    sum += l.y == i ? a.y : l.y + 1 == i ? b.y : 0.0f;
                    sum += l.z == i ? a.z : l.z + 1 == i ? b.z : 0.0f;
                    sum += l.w == i ? a.w : l.w + 1 == i ? b.w : 0.0f;
                }
                out[base + i] = sum;
            }
        } else {
            for (int i = lane; i < n_valid; i += 32) {
                float sum = 0.0f;
                for (int j = 0; j < n_valid; ++j) {
                    Atom atom = shift.atom(j, ld(p, base + j));
                    sum += atom.low == i ? atom.share_low : atom.low + 1 == i ? atom.share_high : 0.0f;
                }
                out[base + i] = sum;
            }
        }
        zero_padding(out + base, width, n_valid);
    }
    // A job that follows in this block may write shared memory.
    if (smem_project(width) > 0) __syncthreads();
}
