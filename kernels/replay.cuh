// Uniform sampling from a replay ring and n-step returns out of it; src/engine/cpu/replay.rs.
//
// A ring holds `capacity` rows (at most n_rows_max, those stored) of n_env transitions; row r of
// environment e has the flat index r * n_env + e. One thread an element, 256 a block: n_blocks =
// ceil(elements / 256). A counter outside its range reports a fault and is brought into it.

// Brings a counter into low..=high.
DEV int counter(const Job& job, int x, int low, int high) {
    if (x >= low && x <= high) return x;
    raise_fault(job, FAULT_RING);
    return x < low ? low : high;
}

// Draws flat indices, uniformly over environments and the rows that n_step_max steps can start
// from. uniform, out [n]; size, head, capacity []. While no row qualifies every index is 0.
template <class A>
DEV void job_sample(const A* uniform, const int* size, const int* head, const int* capacity, int* out, int n, int n_env, int n_step_max,
                    int n_rows_max, const Job& job) {
    int i = job.block * THREADS + threadIdx.x;
    if (i >= n) return;
    int n_rows = counter(job, *capacity, 1, n_rows_max);
    int n_valid = counter(job, *size, 0, n_rows);
    int next = counter(job, *head, 0, n_rows - 1);
    int n_starts = n_valid + 1 - n_step_max;
    if (n_starts <= 0) {
        out[i] = 0;
        return;
    }
    int n_pairs = n_starts * n_env;
    // Exact in double, see the CPU's. 1 and above count as the last pair, NaN as the first.
    double at = (double)ld(uniform, i) * (double)n_pairs;
    int k = at >= (double)n_pairs ? n_pairs - 1 : at > 0.0 ? (int)at : 0;
    // Row k / n_env behind the oldest; unsigned, since the sum may pass 2^31 before it wraps.
    unsigned row = (next >= n_valid ? next - n_valid : next - n_valid + n_rows) + (unsigned)(k / n_env);
    if (row >= (unsigned)n_rows) row -= n_rows;
    out[i] = (int)row * n_env + k % n_env;
}

// Steps whose end and reward are read ahead: where they lie does not depend on what they hold.
#define N_STEP_AHEAD 4

// Sums up to n discounted rewards from each sampled transition on, and stops after one that ends
// its episode. reward, end [n_rows_max, n_env]; index [batch]; capacity, n, gamma []; out
// [3, batch]: the sum, the discount of what follows (0 after a terminal one), and the flat index
// of the last transition as a number.
template <class A, class G>
DEV void job_n_step(const A* reward, const int* end, const int* index, const int* capacity, const int* n, const G* gamma, float* out,
                    int batch, int n_env, int n_rows_max, const Job& job) {
    int b = job.block * THREADS + threadIdx.x;
    if (b >= batch) return;
    int n_rows = counter(job, *capacity, 1, n_rows_max);
    int n_steps = counter(job, *n, 1, n_rows);
    float rate = ld(gamma, 0);
    int n_flat = n_rows * n_env;
    int last = (int)checked(job, index[b], n_flat, FAULT_RING);
    int last_end = end[last];
    float total = ld(reward, last);
    float factor = rate;
    for (int s = 1; s < n_steps && last_end == 0; s += N_STEP_AHEAD) {
        int at[N_STEP_AHEAD], ends[N_STEP_AHEAD];
        float rewards[N_STEP_AHEAD];
        int next = last;
#pragma unroll
        for (int k = 0; k < N_STEP_AHEAD; ++k) {
            next += n_env;
            if (next >= n_flat) next -= n_flat;
            at[k] = next;
            ends[k] = end[next];
            rewards[k] = ld(reward, next);
        }
#pragma unroll
        for (int k = 0; k < N_STEP_AHEAD; ++k) {
            if (s + k < n_steps && last_end == 0) {
                last = at[k];
                last_end = ends[k];
                total += factor * rewards[k];
                factor *= rate;
            }
        }
    }
    const int END_TERMINAL = 1;
    out[b] = total;
    out[batch + b] = last_end == END_TERMINAL ? 0.0f : factor;
    out[2 * batch + b] = (float)last;
}
