// Largest singular value by power iteration, and the projection below a bound; one block a matrix.
//
// Order of sums: a column of W'u adds rows in index order, a product and a sum rounded each; rows
// of Wv and norms have the 32 partials and the tree. So a thread takes a column of the first
// product, and a warp a few rows of the second.

// Rows of a column that are on the way while as many are added.
#define SPECTRAL_AHEAD 16
// Rows of Wv that a warp takes at a time.
#define SPECTRAL_ROWS 4

// u fills its last group of rows up with zeros.
constexpr int spectral_pad(int rows) { return (rows + SPECTRAL_AHEAD - 1) / SPECTRAL_AHEAD * SPECTRAL_AHEAD; }

// Shared memory of a matrix, bytes: u, v, and a product before it is divided by its norm. None
// where that is above 32 KiB; vectors then stay in global memory.
constexpr int smem_spectral(int rows, int cols) {
    int n = spectral_pad(rows) + cols + (rows > cols ? rows : cols);
    return n <= 8192 ? n * 4 : 0;
}

// Elements row to row + 3 of u.
template <bool SHARED>
DEV float4 spectral_u(const float* u, int row, int rows) {
    if (SHARED) return *(const float4*)(u + row);
    return make_float4(row < rows ? u[row] : 0.0f, row + 1 < rows ? u[row + 1] : 0.0f, row + 2 < rows ? u[row + 2] : 0.0f,
                       row + 3 < rows ? u[row + 3] : 0.0f);
}

// Sums N columns of W'u, c and those THREADS apart. The next group of rows is read while one is
// added. Reads are never skipped one by one but clamped into the matrix, so that they all travel at
// once; rows behind the last then count as +0, which changes no bit of a sum that began at +0.
template <bool SHARED, int N>
DEV void spectral_columns(const float* w, const float* u, float* out, int c, int rows, int cols) {
    constexpr int AHEAD = SPECTRAL_AHEAD / N;
    const float* from[N];
    float sum[N], next[N][AHEAD];
#pragma unroll
    for (int q = 0; q < N; ++q) {
        from[q] = w + min(c + q * THREADS, cols - 1);
        sum[q] = 0.0f;
    }
    auto fetch = [&](int row) {
#pragma unroll
        for (int q = 0; q < N; ++q) {
#pragma unroll
            for (int k = 0; k < AHEAD; ++k) {
                bool in = rows % AHEAD == 0 || row + k < rows;
                float x = from[q][(long)(in ? row + k : rows - 1) * cols];
                next[q][k] = in ? x : 0.0f;
            }
        }
    };
    fetch(0);
#pragma unroll 2
    for (int row = 0; row < rows; row += AHEAD) {
        float x[N][AHEAD];
#pragma unroll
        for (int q = 0; q < N; ++q) {
#pragma unroll
            for (int k = 0; k < AHEAD; ++k) x[q][k] = next[q][k];
        }
        if (row + AHEAD < rows) fetch(row + AHEAD);
#pragma unroll
        for (int k = 0; k < AHEAD; k += 4) {
            float4 a = spectral_u<SHARED>(u, row + k, rows);
#pragma unroll
            for (int q = 0; q < N; ++q) {
                sum[q] = (((sum[q] + a.x * x[q][k]) + a.y * x[q][k + 1]) + a.z * x[q][k + 2]) + a.w * x[q][k + 3];
            }
        }
    }
#pragma unroll
    for (int q = 0; q < N; ++q) {
        if (c + q * THREADS < cols) out[c + q * THREADS] = sum[q];
    }
}

// out = W'u; a thread takes two columns at a time where its warp has two.
template <bool SHARED>
DEV void spectral_down(const float* w, const float* u, float* out, int rows, int cols) {
    int first = threadIdx.x / 32 * 32;
#pragma unroll 1
    for (int base = 0; base + first < cols; base += 2 * THREADS) {
        int c = base + threadIdx.x;
        if (base + first + THREADS < cols) {
            spectral_columns<SHARED, 2>(w, u, out, c, rows, cols);
        } else {
            spectral_columns<SHARED, 1>(w, u, out, c, rows, cols);
        }
    }
}

// out = Wv. From the last row on, because the first product has left the last rows in the cache.
// Reads are clamped as above.
DEV void spectral_across(const float* w, const float* v, float* out, int rows, int cols) {
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int n_chunks = (cols + 31) / 32;
    int last = (rows - 1) / SPECTRAL_ROWS;
#pragma unroll 1
    for (int group = last - warp; group >= 0; group -= WARPS) {
        int row = group * SPECTRAL_ROWS;
        const float* from[SPECTRAL_ROWS];
        float p[SPECTRAL_ROWS] = {};
#pragma unroll
        for (int q = 0; q < SPECTRAL_ROWS; ++q) from[q] = w + (long)min(row + q, rows - 1) * cols;
#pragma unroll 9
        for (int k = 0; k < n_chunks; ++k) {
            int i = k * 32 + lane;
            bool in = cols % 32 == 0 || i < cols;
            float y = v[in ? i : cols - 1];
#pragma unroll
            for (int q = 0; q < SPECTRAL_ROWS; ++q) {
                float product = from[q][in ? i : cols - 1] * y;
                p[q] += in ? product : 0.0f;
            }
        }
#pragma unroll
        for (int q = 0; q < SPECTRAL_ROWS; ++q) {
            p[q] = warp_tree(p[q]);
            if (lane == 0 && row + q < rows) out[row + q] = p[q];
        }
    }
}

// Norm of x [n]; every warp computes it for itself, which spares a barrier.
DEV float spectral_norm(const float* x, int n) {
    float p = 0.0f;
#pragma unroll 4
    for (int i = threadIdx.x % 32; i < n; i += 32) p += x[i] * x[i];
    return sqrtf(warp_sum(p));
}

// out = x / norm, or x / 1e-12 where the norm is below that; a NaN norm gives NaN.
DEV void spectral_divide(const float* x, float* out, int n, float norm) {
    float divisor = norm < (float)1e-12 ? (float)1e-12 : norm;
    for (int i = threadIdx.x; i < n; i += THREADS) out[i] = x[i] / divisor;
}

// w *= scale, [n]; four reads on the way before the first write.
DEV void spectral_scale(float* w, int n, float scale) {
    int done = 0;
    if ((unsigned long)w % 16 == 0) {
        float4* four = (float4*)w;
        int n_four = n / 4;
#pragma unroll 1
        for (int base = threadIdx.x; base < n_four; base += 4 * THREADS) {
            float4 x[4];
#pragma unroll
            for (int k = 0; k < 4; ++k) {
                if (base + k * THREADS < n_four) x[k] = four[base + k * THREADS];
            }
#pragma unroll
            for (int k = 0; k < 4; ++k) {
                float4 y = make_float4(x[k].x * scale, x[k].y * scale, x[k].z * scale, x[k].w * scale);
                if (base + k * THREADS < n_four) four[base + k * THREADS] = y;
            }
        }
        done = n_four * 4;
    }
    for (int i = done + threadIdx.x; i < n; i += THREADS) w[i] *= scale;
}

// The iterations; returns the last estimate. `product` holds a product before its division, and
// may be the vector itself in global memory (not SHARED).
template <bool SHARED>
DEV float spectral_iterate(const float* w, float* u, float* v, float* product, int rows, int cols, int n_iterations) {
    float sigma = 0.0f;
#pragma unroll 1
    for (int iteration = 0; iteration < n_iterations; ++iteration) {
        float* down = SHARED ? product : v;
        float* across = SHARED ? product : u;
        __syncthreads();
        spectral_down<SHARED>(w, u, down, rows, cols);
        __syncthreads();
        float norm = spectral_norm(down, cols);
        if (!SHARED) __syncthreads();
        spectral_divide(down, v, cols, norm);
        __syncthreads();
        spectral_across(w, v, across, rows, cols);
        __syncthreads();
        sigma = spectral_norm(across, rows);
        if (!SHARED) __syncthreads();
        spectral_divide(across, u, rows, sigma);
    }
    return sigma;
}

// Power iterations on param [rows, cols], in place: scales it by sigma_max / sigma only where
// sigma > sigma_max. u [rows] is kept from call to call, v [cols] overwritten; sigma_max []. One
// block: n_blocks = 1.
DEV void job_spectral(float* param, float* u, float* v, const float* sigma_max, const float* guard, int rows, int cols,
                      int n_iterations, const Job& job) {
    if (!job.live || rows * cols == 0) return;
    // The guard travels with the rest; nothing is committed before it is known.
    bool holds = commits(guard, job);
    float bound = *sigma_max;
    float sigma;
    if (smem_spectral(rows, cols) > 0) {
        // Declared here and not taken from the job, so that reads are known to be of shared memory.
        extern __shared__ __align__(16) char bytes[];
        float* su = (float*)bytes;
        float* sv = su + spectral_pad(rows);
        for (int i = threadIdx.x; i < spectral_pad(rows); i += THREADS) su[i] = i < rows ? u[i] : 0.0f;
        if (holds) {
            sigma = spectral_iterate<true>(param, su, sv, sv + cols, rows, cols, n_iterations);
            // Each thread reads what it wrote itself.
            for (int i = threadIdx.x; i < rows; i += THREADS) u[i] = su[i];
            for (int i = threadIdx.x; i < cols; i += THREADS) v[i] = sv[i];
        }
        // A job that follows in this block may write shared memory.
        __syncthreads();
    } else if (holds) {
        sigma = spectral_iterate<false>(param, u, v, nullptr, rows, cols, n_iterations);
    }
    if (holds && sigma > bound) spectral_scale(param, rows * cols, bound / sigma);
}
