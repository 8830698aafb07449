// Tiles of matrices on their way into shared memory.

// Copies 16 bytes into shared memory, or zeros where `in` is false.
DEV void copy16(void* shared, const void* global, bool in) {
#if __CUDA_ARCH__ >= 800
    unsigned to = (unsigned)__cvta_generic_to_shared(shared);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(global), "r"(in ? 16 : 0));
#else
    uint4 zero = {0, 0, 0, 0};
    *(uint4*)shared = in ? *(const uint4*)global : zero;
#endif
}
DEV void copies_commit() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;");
#endif
}
template <int LEFT>
DEV void copies_wait() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(LEFT));
#endif
}

DEV void zero_element(float* x) { *x = 0.0f; }
DEV void zero_element(bf16* x) { x->bits = 0; }

// Copies a tile [ROWS, COLS] of a row-major matrix [n_rows, n_cols] into shared memory whose rows
// are PITCH elements apart; what lies outside is zero. VEC elements a copy: 16 bytes, or one.
template <class T, int ROWS, int COLS, int PITCH, int VEC>
DEV void load_tile(T* shared, const T* global, int row0, int col0, int n_rows, int n_cols) {
    constexpr int PER_ROW = COLS / VEC;
    constexpr int N = ROWS * PER_ROW;
#pragma unroll
    for (int base = 0; base < N; base += THREADS) {
        int i = base + threadIdx.x;
        if (N % THREADS != 0 && i >= N) break;
        int r = i / PER_ROW, c = (i % PER_ROW) * VEC;
        bool in = row0 + r < n_rows && col0 + c < n_cols;
        T* to = shared + r * PITCH + c;
        const T* from = global + (in ? (long)(row0 + r) * n_cols + col0 + c : 0);
        if (VEC * sizeof(T) == 16) {
            copy16(to, from, in);
        } else if (in) {
            *to = *from;
        } else {
            zero_element(to);
        }
    }
}

// A stage of shared memory holds one tile of A and one of B, each as it lies in global memory:
// transposed operands are turned when fragments are read.
template <class T, int BM, int BN, int BK, bool TA, bool TB>
struct Stage {
    // Paddings that keep fragment reads free of bank conflicts.
    static constexpr int PAD = 16 / sizeof(T);
    static constexpr int PAD_T = 8;
    static constexpr int A_ROWS = TA ? BK : BM, A_COLS = TA ? BM : BK;
    static constexpr int B_ROWS = TB ? BN : BK, B_COLS = TB ? BK : BN;
    static constexpr int A_PITCH = A_COLS + (TA ? PAD_T : PAD);
    static constexpr int B_PITCH = B_COLS + (TB ? PAD : PAD_T);
    static constexpr int A_SIZE = A_ROWS * A_PITCH;
    static constexpr int SIZE = A_SIZE + B_ROWS * B_PITCH;

    template <int VEC_A, int VEC_B>
    __device__ __forceinline__ void load(T* s, const T* a, const T* b, int row, int col, int k0, int m, int n, int k) {
        if (TA) {
            load_tile<T, A_ROWS, A_COLS, A_PITCH, VEC_A>(s, a, k0, row, k, m);
        } else {
            load_tile<T, A_ROWS, A_COLS, A_PITCH, VEC_A>(s, a, row, k0, m, k);
        }
        if (TB) {
            load_tile<T, B_ROWS, B_COLS, B_PITCH, VEC_B>(s + A_SIZE, b, col, k0, n, k);
        } else {
            load_tile<T, B_ROWS, B_COLS, B_PITCH, VEC_B>(s + A_SIZE, b, k0, col, k, n);
        }
    }
};
