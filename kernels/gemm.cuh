// Matrix products C[m, n] = op(A)[m, k] · op(B)[k, n], everything row-major, sums in F32.
//
// What fixes the bits of an element is the order along k and the instruction, and both are the
// same for every tile: F32 adds one fmaf after the other, k ascending; bf16 and tf32 accumulate
// mma.sync instructions of 16 and 8 along k, k ascending. So a tile may follow from the number of
// lanes, and a lane's bits do not. No split along k.
//
// An element leaves through `epilogue(row, col, x0, x1)`, two neighbours at a time, without a
// trip to memory; where n is odd the second may lie outside.

// How eight warps share a tile.
template <int BM, int BN>
struct Warps {
    static constexpr int N_M = BM == 128 && BN == 64 ? 4 : 2;
    static constexpr int N_N = WARPS / N_M;
    static constexpr int WM = BM / N_M, WN = BN / N_N;
};

DEV void load_matrices(unsigned (&r)[4], const void* shared) {
    unsigned at = (unsigned)__cvta_generic_to_shared(shared);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(at));
}
DEV void load_matrices_turned(unsigned (&r)[4], const void* shared) {
    unsigned at = (unsigned)__cvta_generic_to_shared(shared);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(at));
}

#if __CUDA_ARCH__ >= 800
DEV void mma(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1, bf16) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
DEV void mma(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1, float) {
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Fragment of A, 16 rows from `row` on, one instruction's depth from `k` on.
template <bool TA, int PITCH>
DEV void fragment_a(unsigned (&r)[4], const bf16* s, int row, int k) {
    int l = threadIdx.x % 32;
    if (TA) {
        load_matrices_turned(r, s + (k + l % 8 + l / 16 * 8) * PITCH + row + l / 8 % 2 * 8);
    } else {
        load_matrices(r, s + (row + l % 16) * PITCH + k + l / 16 * 8);
    }
}
template <bool TA, int PITCH>
DEV void fragment_a(unsigned (&r)[4], const float* s, int row, int k) {
    int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        int m = row + g + i % 2 * 8, kk = k + t + i / 2 * 4;
        r[i] = __float_as_uint(TA ? s[kk * PITCH + m] : s[m * PITCH + kk]);
    }
}
// Fragments of B for two instructions, 8 columns each from `col` on: {b0, b1} of the first, then
// of the second.
template <bool TB, int PITCH>
DEV void fragment_b(unsigned (&r)[4], const bf16* s, int col, int k) {
    int l = threadIdx.x % 32;
    if (TB) {
        load_matrices(r, s + (col + l % 8 + l / 16 * 8) * PITCH + k + l / 8 % 2 * 8);
    } else {
        load_matrices_turned(r, s + (k + l % 8 + l / 8 % 2 * 8) * PITCH + col + l / 16 * 8);
    }
}
template <bool TB, int PITCH>
DEV void fragment_b(unsigned (&r)[4], const float* s, int col, int k) {
    int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        int n = col + g + i / 2 * 8, kk = k + t + i % 2 * 4;
        r[i] = __float_as_uint(TB ? s[n * PITCH + kk] : s[kk * PITCH + n]);
    }
}

// On tensor cores: T is bf16, or float whose values are tf32 already.
template <class T, int BM, int BN, bool TA, bool TB, int VEC_A, int VEC_B, class Epilogue>
DEV void gemm_tensor(const T* a, const T* b, int m, int n, int k, const Job& job, Epilogue epilogue) {
    constexpr int BK = 64 / sizeof(T);
    constexpr int DEPTH = 32 / sizeof(T);
    constexpr int N_STAGES = 3;
    using S = Stage<T, BM, BN, BK, TA, TB>;
    using W = Warps<BM, BN>;
    // Declared here and not taken from the job, so that reads are known to be of shared memory.
    extern __shared__ __align__(16) char bytes[];
    T* shared = (T*)bytes;
    int tiles_n = (n + BN - 1) / BN, tiles = tiles_n * ((m + BM - 1) / BM);
    int batch = job.block / tiles, tile = job.block % tiles;
    int row = tile / tiles_n * BM, col = tile % tiles_n * BN;
    a += (long)batch * m * k;
    b += (long)batch * k * n;
    int warp = threadIdx.x / 32;
    int row_w = warp / W::N_N * W::WM, col_w = warp % W::N_N * W::WN;
    float c[W::WM / 16][W::WN / 8][4] = {};
    int n_k = (k + BK - 1) / BK;
    S stage;
#pragma unroll
    for (int s = 0; s < N_STAGES - 1; ++s) {
        if (s < n_k) stage.template load<VEC_A, VEC_B>(shared + s * S::SIZE, a, b, row, col, s * BK, m, n, k);
        copies_commit();
    }
    for (int at = 0; at < n_k; ++at) {
        copies_wait<N_STAGES - 2>();
        __syncthreads();
        int next = at + N_STAGES - 1;
        if (next < n_k) stage.template load<VEC_A, VEC_B>(shared + next % N_STAGES * S::SIZE, a, b, row, col, next * BK, m, n, k);
        copies_commit();
        const T* sa = shared + at % N_STAGES * S::SIZE;
        const T* sb = sa + S::A_SIZE;
#pragma unroll
        for (int kk = 0; kk < BK; kk += DEPTH) {
            unsigned fa[W::WM / 16][4], fb[W::WN / 16][4];
#pragma unroll
            for (int i = 0; i < W::WM / 16; ++i) fragment_a<TA, S::A_PITCH>(fa[i], sa, row_w + i * 16, kk);
#pragma unroll
            for (int j = 0; j < W::WN / 16; ++j) fragment_b<TB, S::B_PITCH>(fb[j], sb, col_w + j * 16, kk);
#pragma unroll
            for (int i = 0; i < W::WM / 16; ++i) {
#pragma unroll
                for (int j = 0; j < W::WN / 8; ++j) mma(c[i][j], fa[i], fb[j / 2][j % 2 * 2], fb[j / 2][j % 2 * 2 + 1], T());
            }
        }
    }
    // Waves after this one reuse nothing of the block, but a job that follows in it may.
    __syncthreads();
    int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
    for (int i = 0; i < W::WM / 16; ++i) {
#pragma unroll
        for (int j = 0; j < W::WN / 8; ++j) {
            int r = row + row_w + i * 16 + g, q = col + col_w + j * 8 + t * 2;
            if (q < n) {
                if (r < m) epilogue(batch, r, q, c[i][j][0], c[i][j][1]);
                if (r + 8 < m) epilogue(batch, r + 8, q, c[i][j][2], c[i][j][3]);
            }
        }
    }
}
#endif

// Moves a tile between registers and shared memory as [BK, SIDE], turning it where it lies the
// other way round. VEC elements a load: four, or one.
template <int SIDE, int BK, bool K_FIRST, int VEC>
struct Turner {
    static constexpr int PITCH = SIDE + 4;
    static constexpr int N = SIDE * BK / THREADS / VEC;
    float x[N][VEC];

    __device__ __forceinline__ void fetch(const float* global, int side0, int k0, int n_side, int n_k) {
#pragma unroll
        for (int i = 0; i < N; ++i) {
            int at = (i * THREADS + threadIdx.x) * VEC;
            int s = K_FIRST ? at % SIDE : at / BK, kk = K_FIRST ? at / SIDE : at % BK;
            bool in = side0 + s < n_side && k0 + kk < n_k;
            const float* from = global + (K_FIRST ? (long)(k0 + kk) * n_side + side0 + s : (long)(side0 + s) * n_k + k0 + kk);
            if (VEC == 4) {
                float4 v = in ? *(const float4*)from : float4{0, 0, 0, 0};
                x[i][0] = v.x, x[i][1 % VEC] = v.y, x[i][2 % VEC] = v.z, x[i][3 % VEC] = v.w;
            } else {
                x[i][0] = in ? *from : 0.0f;
            }
        }
    }
    __device__ __forceinline__ void put(float* shared) {
#pragma unroll
        for (int i = 0; i < N; ++i) {
            int at = (i * THREADS + threadIdx.x) * VEC;
            int s = K_FIRST ? at % SIDE : at / BK, kk = K_FIRST ? at / SIDE : at % BK;
#pragma unroll
            for (int v = 0; v < VEC; ++v) {
                shared[K_FIRST ? kk * PITCH + s + v : (kk + v) * PITCH + s] = x[i][v];
            }
        }
    }
};

// In strict F32: each element is one chain of fmaf.
template <int BM, int BN, bool TA, bool TB, int VEC_A, int VEC_B, class Epilogue>
DEV void gemm_f32(const float* a, const float* b, int m, int n, int k, const Job& job, Epilogue epilogue) {
    constexpr int BK = 16;
    // 16 × 16 threads, each four rows and four columns of every 64.
    constexpr int RM = BM / 64, RN = BN / 64;
    using A = Turner<BM, BK, TA, VEC_A>;
    using B = Turner<BN, BK, !TB, VEC_B>;
    constexpr int SIZE = BK * (A::PITCH + B::PITCH);
    extern __shared__ __align__(16) char bytes[];
    float* shared = (float*)bytes;
    int tiles_n = (n + BN - 1) / BN, tiles = tiles_n * ((m + BM - 1) / BM);
    int batch = job.block / tiles, tile = job.block % tiles;
    int row = tile / tiles_n * BM, col = tile % tiles_n * BN;
    a += (long)batch * m * k;
    b += (long)batch * k * n;
    int ty = threadIdx.x / 16 * 4, tx = threadIdx.x % 16 * 4;
    float c[RM * 4][RN * 4] = {};
    A next_a;
    B next_b;
    next_a.fetch(a, row, 0, m, k);
    next_b.fetch(b, col, 0, n, k);
    int n_k = (k + BK - 1) / BK;
    for (int at = 0; at < n_k; ++at) {
        float* sa = shared + at % 2 * SIZE;
        float* sb = sa + BK * A::PITCH;
        next_a.put(sa);
        next_b.put(sb);
        __syncthreads();
        if (at + 1 < n_k) {
            next_a.fetch(a, row, (at + 1) * BK, m, k);
            next_b.fetch(b, col, (at + 1) * BK, n, k);
        }
#pragma unroll
        for (int kk = 0; kk < BK; ++kk) {
            float x[RM * 4], y[RN * 4];
#pragma unroll
            for (int i = 0; i < RM; ++i) *(float4*)(x + i * 4) = *(const float4*)(sa + kk * A::PITCH + i * 64 + ty);
#pragma unroll
            for (int j = 0; j < RN; ++j) *(float4*)(y + j * 4) = *(const float4*)(sb + kk * B::PITCH + j * 64 + tx);
#pragma unroll
            for (int i = 0; i < RM * 4; ++i) {
#pragma unroll
                for (int j = 0; j < RN * 4; ++j) c[i][j] = fmaf(x[i], y[j], c[i][j]);
            }
        }
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < RM * 4; ++i) {
        int r = row + i / 4 * 64 + ty + i % 4;
#pragma unroll
        for (int j = 0; j < RN * 4; j += 2) {
            int q = col + j / 4 * 64 + tx + j % 4;
            if (r < m && q < n) epilogue(batch, r, q, c[i][j], c[i][j + 1]);
        }
    }
}
