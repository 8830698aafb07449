// Copies chosen by index; every bit is kept, so bf16, float, double and int are only moved.
//
// 1024 output elements a block: n_blocks = ceil(elements of the output / 1024). An output has
// fewer than 2^31 elements; a table may have more. An index outside its range reports a fault and
// counts as 0.

// The unsigned word that holds four elements of two or four bytes; elements of eight have none.
template <int SIZE> struct FourOf {
    typedef char Word;
};
template <> struct FourOf<2> {
    typedef uint2 Word;
};
template <> struct FourOf<4> {
    typedef uint4 Word;
};

// Whether four elements of T at a multiple of four behind `p` can be moved at once.
template <class T>
DEV bool moves_four(const T* p) {
    return sizeof(T) <= 4 && (unsigned long)p % (4 * sizeof(T)) == 0;
}
template <class T>
DEV void move_four(const T* from, T* to) {
    typedef typename FourOf<sizeof(T)>::Word Word;
    *(Word*)to = *(const Word*)from;
}

// out[e] = the element that at(e) points to, or zero where that is null; at(e) .. at(e) + 3 are
// neighbours for every e that is a multiple of four, if `by_four`.
template <class T, class At>
DEV void gather(T* out, int n, bool by_four, const Job& job, At at) {
    if (by_four) {
        typedef typename FourOf<sizeof(T)>::Word Word;
        int e = job.block * 1024 + threadIdx.x * 4;
        if (e < n) {
            const T* from = at(e);
            Word zero = {};
            *(Word*)(out + e) = from ? *(const Word*)from : zero;
        }
        return;
    }
    // All reads before the first write: the compiler must not suppose that they meet.
    T x[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        int e = job.block * 1024 + k * THREADS + threadIdx.x;
        const T* from = e < n ? at(e) : nullptr;
        T zero = {};
        x[k] = from ? *from : zero;
    }
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        int e = job.block * 1024 + k * THREADS + threadIdx.x;
        if (e < n) out[e] = x[k];
    }
}

// out[b] = table[index[b]]: table [n_table, width], index [n_index], out [n_index, width].
template <class T>
DEV void job_rows(const T* table, const int* index, T* out, int n_table, int width, int n_index, const Job& job) {
    bool by_four = width % 4 == 0 && moves_four(table) && moves_four(out);
    gather(out, n_index * width, by_four, job, [&](int e) {
        int b = e / width;
        return table + checked(job, index[b], n_table, FAULT_ROW) * width + (e - b * width);
    });
}

// out[o] = x[o, index[o]]: x [outer, n, inner], index [outer], out [outer, inner].
template <class T>
DEV void job_pick(const T* x, const int* index, T* out, int outer, int n, int inner, const Job& job) {
    bool by_four = inner % 4 == 0 && moves_four(x) && moves_four(out);
    gather(out, outer * inner, by_four, job, [&](int e) {
        int o = e / inner;
        return x + ((long)o * n + checked(job, index[o], n, FAULT_ROW)) * inner + (e - o * inner);
    });
}

// The transpose of pick: out[o, index[o]] = x[o], +0 elsewhere; x [outer, inner], out
// [outer, n, inner].
template <class T>
DEV void job_spread(const T* x, const int* index, T* out, int outer, int n, int inner, const Job& job) {
    bool by_four = inner % 4 == 0 && moves_four(x) && moves_four(out);
    gather(out, outer * n * inner, by_four, job, [&](int e) {
        int line = e / inner, o = line / n;
        bool is_chosen = checked(job, index[o], n, FAULT_ROW) == line - o * n;
        return is_chosen ? x + (long)o * inner + (e - line * inner) : nullptr;
    });
}
