// What a phase commits: the optimizer's pass over a flat block, stores and ring pushes.
//
// 1024 elements a block: n_blocks = ceil(elements / 1024). A guard is null or one number; 0
// commits nothing (NaN commits), as does a lane that is not live. Uses moves_four and move_four
// of gather.cuh.

DEV bool commits(const float* guard, const Job& job) { return job.live && !(guard != nullptr && *guard == 0.0f); }

// Elements i to i + 3 of [n], at once or one by one.
DEV void load_four(const float* p, long i, long n, bool by_four, float (&x)[4]) {
    if (by_four && i + 4 <= n) {
        float4 v = *(const float4*)(p + i);
        x[0] = v.x, x[1] = v.y, x[2] = v.z, x[3] = v.w;
    } else {
#pragma unroll
        for (int k = 0; k < 4; ++k) x[k] = i + k < n ? p[i + k] : 0.0f;
    }
}
DEV void load_four(const bf16* p, long i, long n, bool by_four, float (&x)[4]) {
    if (by_four && i + 4 <= n) {
        uint2 v = *(const uint2*)(p + i);
        x[0] = __uint_as_float(v.x << 16), x[1] = __uint_as_float(v.x & 0xffff0000u);
        x[2] = __uint_as_float(v.y << 16), x[3] = __uint_as_float(v.y & 0xffff0000u);
    } else {
#pragma unroll
        for (int k = 0; k < 4; ++k) x[k] = i + k < n ? ld(p, i + k) : 0.0f;
    }
}
DEV void store_four(float* p, long i, long n, bool by_four, const float (&x)[4]) {
    if (by_four && i + 4 <= n) {
        *(float4*)(p + i) = make_float4(x[0], x[1], x[2], x[3]);
    } else {
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            if (i + k < n) p[i + k] = x[k];
        }
    }
}

// What a step computes once for all parameters.
struct AdamScalars {
    float grad_scale, beta1, beta2, eps, tau;
    float rest1, rest2, lr_corrected, inverse_bias2, decay;
};

// Shared memory of the optimizer, bytes.
constexpr int smem_adam() { return 64; }

// 1 - beta^n_steps, powers by squaring in double.
DEV double bias_correction(double beta, int n_steps) {
    double power = 1.0, base = beta;
    for (unsigned left = n_steps; left > 0; left >>= 1) {
        if (left & 1) power *= base;
        base *= base;
    }
    return 1.0 - power;
}

// Moments below 2^-100 become 0; NaN passes.
DEV float flush_moment(float x) { return fabsf(x) < 0x1p-100f ? 0.0f : x; }

// One AdamW step and, with HAS_TARGET, the Polyak average: src/engine/cpu/update.rs. theta, m, v,
// target (null without) and grad are [n]; scalars are [], tau null without a target.
template <bool HAS_TARGET, class G>
DEV void job_adam(float* theta, float* m, float* v, float* target, const G* grad, const float* grad_scale, const float* lr,
                  const float* beta1, const float* beta2, const float* eps, const float* weight_decay, const float* tau, const int* step,
                  const float* guard, int n, const Job& job) {
    if (!commits(guard, job)) return;
    if (*step < 1) {
        raise_fault(job, FAULT_STEP);
        return;
    }
    bool by_four = moves_four(theta) && moves_four(m) && moves_four(v) && moves_four(grad) && (!HAS_TARGET || moves_four(target));
    long i = (long)job.block * 1024 + threadIdx.x * 4;
    // On the way while one thread computes the scalars.
    float t[4], first[4], second[4], g[4], average[4];
    load_four(theta, i, n, by_four, t);
    load_four(m, i, n, by_four, first);
    load_four(v, i, n, by_four, second);
    load_four(grad, i, n, by_four, g);
    if (HAS_TARGET) load_four(target, i, n, by_four, average);
    AdamScalars* shared = (AdamScalars*)job.smem;
    if (threadIdx.x == 0) {
        AdamScalars s;
        s.grad_scale = *grad_scale;
        s.beta1 = *beta1;
        s.beta2 = *beta2;
        s.eps = *eps;
        s.tau = HAS_TARGET ? *tau : 0.0f;
        s.rest1 = 1.0f - s.beta1;
        s.rest2 = 1.0f - s.beta2;
        s.decay = *lr * *weight_decay;
        s.lr_corrected = *lr / (float)bias_correction(s.beta1, *step);
        s.inverse_bias2 = 1.0f / (float)bias_correction(s.beta2, *step);
        *shared = s;
    }
    __syncthreads();
    const AdamScalars s = *shared;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        float scaled = g[k] * s.grad_scale;
        first[k] = flush_moment(s.beta1 * first[k] + s.rest1 * scaled);
        second[k] = flush_moment(s.beta2 * second[k] + s.rest2 * (scaled * scaled));
        float denominator = sqrtf(second[k] * s.inverse_bias2) + s.eps;
        t[k] = (t[k] - s.decay * t[k]) - s.lr_corrected * first[k] / denominator;
        if (HAS_TARGET) average[k] += s.tau * (t[k] - average[k]);
    }
    store_four(theta, i, n, by_four, t);
    store_four(m, i, n, by_four, first);
    store_four(v, i, n, by_four, second);
    if (HAS_TARGET) store_four(target, i, n, by_four, average);
    // A job that follows in this block may write shared memory.
    __syncthreads();
}

// Copies [n], by the block's 1024 elements.
template <class T>
DEV void job_copy(const T* from, T* to, int n, const Job& job) {
    if (moves_four(from) && moves_four(to)) {
        long i = (long)job.block * 1024 + threadIdx.x * 4;
        if (i + 4 <= n) {
            move_four(from + i, to + i);
        } else {
            for (; i < n; ++i) to[i] = from[i];
        }
        return;
    }
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        long i = (long)job.block * 1024 + k * THREADS + threadIdx.x;
        if (i < n) to[i] = from[i];
    }
}

// Replaces a state [n].
template <class T>
DEV void job_store(const T* value, T* state, const float* guard, int n, const Job& job) {
    if (commits(guard, job)) job_copy(value, state, n, job);
}

// Writes value [width] to row `*row` of state [n_rows, width]. A row outside the ring reports a
// fault and writes nothing.
template <class T>
DEV void job_ring_push(const T* value, T* state, const int* row, const float* guard, int n_rows, int width, const Job& job) {
    if (!commits(guard, job)) return;
    int at = *row;
    if (at < 0 || at >= n_rows) {
        raise_fault(job, FAULT_RING);
        return;
    }
    job_copy(value, state + (long)at * width, width, job);
}
