// Counter-based random numbers: a pure function of seed, step, stream and element.
//
// Source: Salmon et al. 2011 (Random123), Philox4x32-10; src/engine/rng.rs.

// The four words at a counter.
DEV uint4 philox(uint4 c, unsigned key0, unsigned key1) {
#pragma unroll
    for (int round = 0; round < 10; ++round) {
        unsigned high0 = __umulhi(0xd2511f53u, c.x), low0 = 0xd2511f53u * c.x;
        unsigned high1 = __umulhi(0xcd9e8d57u, c.z), low1 = 0xcd9e8d57u * c.z;
        c = make_uint4(high1 ^ c.y ^ key0, low1, high0 ^ c.w ^ key1, low0);
        key0 += 0x9e3779b9u;
        key1 += 0xbb67ae85u;
    }
    return c;
}

// The upper 24 bits times 2^-24: exact, in [0, 1).
DEV float uniform(unsigned word) { return (float)(word >> 8) * (1.0f / 16777216.0f); }

// Fills out [n] with uniforms: element i is word i % 4 of block i / 4. A thread draws one block of
// four, so 1024 elements a block of threads; seed is [2], low half first.
DEV void job_uniform(const int* seed, const int* step, unsigned stream, float* out, int n, const Job& job) {
    int quad = job.block * THREADS + threadIdx.x;
    if (quad >= (n + 3) / 4) return;
    uint4 word = philox(make_uint4(quad, *step, stream, 0), seed[0], seed[1]);
    float4 x = make_float4(uniform(word.x), uniform(word.y), uniform(word.z), uniform(word.w));
    long i = (long)quad * 4;
    if (i + 4 <= n && (unsigned long)out % 16 == 0) {
        *(float4*)(out + i) = x;
    } else {
        out[i] = x.x;
        if (i + 1 < n) out[i + 1] = x.y;
        if (i + 2 < n) out[i + 2] = x.z;
        if (i + 3 < n) out[i + 3] = x.w;
    }
}
