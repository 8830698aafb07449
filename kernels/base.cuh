// What every kernel of the CUDA backend shares: element types, roundings, the job a block works on.
//
// Conventions
// - A launch runs several independent jobs over all lanes: blockIdx.y is the lane, a range of
//   blockIdx.x belongs to each job. Blocks have THREADS threads.
// - A lane addresses memory only; it never enters arithmetic.
// - Everything is compiled with --fmad=false: a fused multiply-add stands here only where it is
//   written as fmaf().
// - Sums have one written order: element i goes to partial i % 32, in index order, then the
//   partials meet in a tree, 16, 8, 4, 2 and 1 apart. Partials start at +0.

#define THREADS 256
#define WARPS 8
#define DEV static __device__ __forceinline__
#define NAN_F __int_as_float(0x7fc00000)
#define INF_F __int_as_float(0x7f800000)

// A bf16 element: the upper half of an F32.
struct bf16 {
    unsigned short bits;
};

DEV float round_bf16(float x) {
    unsigned bits = __float_as_uint(x);
    unsigned rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) & 0xffff0000u;
    unsigned nan = (bits & 0xffff0000u) | 0x00400000u;
    return __uint_as_float(x != x ? nan : rounded);
}

DEV float round_tf32(float x) {
    unsigned bits = __float_as_uint(x);
    unsigned rounded = (bits + 0x1000u) & 0xffffe000u;
    unsigned nan = (bits & 0xffffe000u) | 0x00400000u;
    return __uint_as_float(x != x ? nan : rounded);
}

// Reading the real family widens exactly; writing bf16 rounds to nearest even.
DEV float ld(const float* p, long i) { return p[i]; }
DEV float ld(const bf16* p, long i) { return __uint_as_float((unsigned)p[i].bits << 16); }
DEV void st(float* p, long i, float x) { p[i] = x; }
DEV void st(bf16* p, long i, float x) { p[i].bits = (unsigned short)(__float_as_uint(round_bf16(x)) >> 16); }

// Four and two neighbours at once; the address suits the vector.
DEV void ld4(const float* p, long i, float (&x)[4]) {
    float4 v = *(const float4*)(p + i);
    x[0] = v.x, x[1] = v.y, x[2] = v.z, x[3] = v.w;
}
DEV void ld4(const bf16* p, long i, float (&x)[4]) {
    uint2 v = *(const uint2*)(p + i);
    x[0] = __uint_as_float(v.x << 16), x[1] = __uint_as_float(v.x & 0xffff0000u);
    x[2] = __uint_as_float(v.y << 16), x[3] = __uint_as_float(v.y & 0xffff0000u);
}
DEV void ld2(const float* p, long i, float (&x)[2]) {
    float2 v = *(const float2*)(p + i);
    x[0] = v.x, x[1] = v.y;
}
DEV void ld2(const bf16* p, long i, float (&x)[2]) {
    unsigned v = *(const unsigned*)(p + i);
    x[0] = __uint_as_float(v << 16), x[1] = __uint_as_float(v & 0xffff0000u);
}
DEV unsigned pack_bf16(float low, float high) {
    return __float_as_uint(round_bf16(low)) >> 16 | (__float_as_uint(round_bf16(high)) & 0xffff0000u);
}
DEV void st4(float* p, long i, const float (&x)[4]) {
    *(float4*)(p + i) = float4{x[0], x[1], x[2], x[3]};
}
DEV void st4(bf16* p, long i, const float (&x)[4]) {
    *(uint2*)(p + i) = uint2{pack_bf16(x[0], x[1]), pack_bf16(x[2], x[3])};
}
DEV void st2(float* p, long i, float x, float y) { *(float2*)(p + i) = float2{x, y}; }
DEV void st2(bf16* p, long i, float x, float y) { *(unsigned*)(p + i) = pack_bf16(x, y); }

// Ops outside the real family compute in double, which holds every element type exactly.
DEV double ld_wide(const float* p, long i) { return (double)p[i]; }
DEV double ld_wide(const bf16* p, long i) { return (double)ld(p, i); }
DEV double ld_wide(const double* p, long i) { return p[i]; }
DEV double ld_wide(const int* p, long i) { return (double)p[i]; }

// Truncates towards zero and saturates; NaN gives 0.
DEV int to_int(double x) {
    if (x != x) return 0;
    if (x >= 2147483647.0) return 2147483647;
    if (x <= -2147483648.0) return -2147483647 - 1;
    return (int)x;
}
DEV void st_wide(float* p, long i, double x) { p[i] = (float)x; }
DEV void st_wide(bf16* p, long i, double x) { st(p, i, (float)x); }
DEV void st_wide(double* p, long i, double x) { p[i] = x; }
DEV void st_wide(int* p, long i, double x) { p[i] = to_int(x); }

// Why a live lane was given data that no program may make. The host reports it after the epoch.
#define FAULT_ROW 1      // a row of a gather lies outside its table
#define FAULT_RING 2     // a counter or row of a replay ring lies outside it
#define FAULT_ACTION 4   // an action lies outside its branch
#define FAULT_BAR 8      // a bar lies outside the table
#define FAULT_STEP 16    // an optimizer's step counts from 1

// What a block works on.
struct Job {
    int block;   // index of this block within the job
    int n_blocks;// blocks of the job
    int live;    // whether the lane takes part: only live lanes commit and report faults
    int* fault;  // one word for the whole session
    char* smem;  // shared memory of the block, 16-byte aligned
};

DEV void raise_fault(const Job& job, int code) {
    if (job.live) atomicOr(job.fault, code);
}

// Index into 0..n; what lies outside is reported and becomes 0, so that nothing reads astray.
DEV long checked(const Job& job, long i, long n, int code) {
    if (i >= 0 && i < n) return i;
    raise_fault(job, code);
    return 0;
}

// Partials of a warp, one a thread, in the order of the tree; the result is lane 0's.
DEV float warp_tree(float p) {
    for (int half = 16; half >= 1; half >>= 1) {
        p += __shfl_down_sync(0xffffffffu, p, half);
    }
    return p;
}
DEV float warp_sum(float p) { return __shfl_sync(0xffffffffu, warp_tree(p), 0); }

// Largest of a warp without order; NaN wins where `top` says so before.
DEV float warp_max(float p) {
    for (int half = 16; half >= 1; half >>= 1) {
        float q = __shfl_xor_sync(0xffffffffu, p, half);
        p = (q > p || q != q) ? q : p;
    }
    return p;
}
