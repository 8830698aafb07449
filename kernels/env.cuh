// The trading environment: src/engine/env.rs line by line, which says what the numbers mean.
//
// E is the account's type, float when collecting and double when evaluating. One thread an
// environment, 256 a block: n_blocks = ceil(n_env / 256).

#define ENV_COLUMNS 8
#define ROW_OPEN_RETURN 0
#define ROW_SIGMA 1
#define ROW_CLOSE 2
#define ROW_LOW 3
#define ROW_HIGH 4
#define ROW_PARTICIPATION 5
#define ROW_FORCED_FLAT 6
#define ROW_TIME_TO_CLOSE 7

#define ACCOUNT_WIDTH 8
#define ACCOUNT_POSITION 0
#define ACCOUNT_EQUITY 1
#define ACCOUNT_PEAK 2
#define ACCOUNT_UNREALISED 3
#define ACCOUNT_BARS_HELD 4
#define ACCOUNT_LAST_ACTION 5
#define ACCOUNT_SHARPE_A 6
#define ACCOUNT_SHARPE_B 7

#define OBSERVED_WIDTH 10
#define STEP_WIDTH 16
#define RUIN_EQUITY 0.1
#define TRADE_MIN 0.01
#define DUST 1e-6
#define OBSERVED_MAX 5.0

// minNum and maxNum: of a number and NaN, the number.
DEV float env_min(float a, float b) { return fminf(a, b); }
DEV float env_max(float a, float b) { return fmaxf(a, b); }
DEV double env_min(double a, double b) { return fmin(a, b); }
DEV double env_max(double a, double b) { return fmax(a, b); }
DEV float env_sqrt(float x) { return sqrtf(x); }
DEV double env_sqrt(double x) { return sqrt(x); }
DEV float env_abs(float x) { return fabsf(x); }
DEV double env_abs(double x) { return fabs(x); }

template <class E>
struct Costs {
    E fee, maker_fee, half_spread, impact;
};

enum OrderKind { ORDER_MARKET, ORDER_LIMIT_MID, ORDER_PASSIVE };

template <class E>
struct Order {
    E target;
    int kind;
    E urgency;
};

template <class E>
struct Fill {
    E delta, cost;
};

template <class E>
DEV E env_clip(E value, double bound) {
    E b = (E)bound;
    return env_min(env_max(value, -b), b);
}

template <class E>
DEV Costs<E> env_costs(const double* costs) {
    return {(E)costs[0], (E)costs[1], (E)costs[2], (E)costs[3]};
}

template <class E>
DEV void env_row(const double* table, const int* bar, int e, int n_bars, E (&row)[ENV_COLUMNS], const Job& job) {
    const double* from = table + checked(job, bar[e], n_bars, FAULT_BAR) * ENV_COLUMNS;
#pragma unroll
    for (int i = 0; i < ENV_COLUMNS; ++i) row[i] = (E)from[i];
}

// What of `wanted` fills, and at what cost.
template <class E>
DEV Fill<E> env_fill(const E (&row)[ENV_COLUMNS], const Costs<E>& costs, int kind, E wanted) {
    Fill<E> nothing = {E(0), E(0)};
    if (wanted == E(0)) return nothing;
    E size = env_abs(wanted);
    if (kind == ORDER_MARKET) {
        E impact = costs.impact * row[ROW_SIGMA] * env_sqrt(size * row[ROW_PARTICIPATION]);
        return {wanted, size * (costs.half_spread + impact + costs.fee)};
    }
    E improvement = kind == ORDER_PASSIVE ? costs.half_spread : E(0);
    E edge, reach;
    if (wanted > E(0)) {
        E limit = row[ROW_CLOSE] * (E(1) - improvement);
        edge = limit - E(1);
        reach = row[ROW_LOW] - E(1);
    } else {
        E limit = row[ROW_CLOSE] * (E(1) + improvement);
        edge = E(1) - limit;
        reach = E(1) - row[ROW_HIGH];
    }
    if (edge > E(0)) return {wanted, size * (env_min(edge, costs.half_spread) + costs.fee)};
    if (reach < edge) return {wanted, size * (edge + costs.maker_fee)};
    return nothing;
}

// Moves position, equity and the memory of the open position to the next open.
template <class E>
DEV void env_settle(const E (&row)[ENV_COLUMNS], E (&account)[ACCOUNT_WIDTH], E before, E position, E gross, E net) {
    E grown = E(1) + net;
    account[ACCOUNT_POSITION] = grown > E(0) ? position * (E(1) + row[ROW_OPEN_RETURN]) / grown : E(0);
    account[ACCOUNT_EQUITY] *= grown;
    account[ACCOUNT_PEAK] = env_max(account[ACCOUNT_PEAK], account[ACCOUNT_EQUITY]);
    bool same_side = before * position > E(0);
    if (position == E(0)) {
        account[ACCOUNT_UNREALISED] = E(0);
        account[ACCOUNT_BARS_HELD] = E(0);
    } else if (same_side) {
        E kept = env_min(position / before, E(1));
        account[ACCOUNT_UNREALISED] = account[ACCOUNT_UNREALISED] * kept + gross;
        account[ACCOUNT_BARS_HELD] += E(1);
    } else {
        account[ACCOUNT_UNREALISED] = gross;
        account[ACCOUNT_BARS_HELD] = E(1);
    }
}

// Decodes branch indices: exposure -1 to 1 by halves, order kind, urgency.
template <class E>
DEV Order<E> env_order(const int* action, const Job& job) {
    int exposure = (int)checked(job, action[0], 5, FAULT_ACTION);
    int kind = (int)checked(job, action[1], 3, FAULT_ACTION);
    int urgency = (int)checked(job, action[2], 3, FAULT_ACTION);
    return {(E)(exposure - 2) * E(0.5), kind, urgency == 0 ? E(0.25) : urgency == 1 ? E(0.5) : E(1)};
}

// account [n_env, 8], bar [n_env], table [n_bars, 8], costs [4], out [n_env, 10].
template <class E>
DEV void job_observe(const E* account, const int* bar, const double* table, const double* costs, E* out, int n_env, int n_bars,
                     const Job& job) {
    int e = job.block * THREADS + threadIdx.x;
    if (e >= n_env) return;
    E row[ENV_COLUMNS], a[ACCOUNT_WIDTH];
    env_row(table, bar, e, n_bars, row, job);
    E half_spread = (E)costs[2];
#pragma unroll
    for (int i = 0; i < ACCOUNT_WIDTH; ++i) a[i] = account[(long)e * ACCOUNT_WIDTH + i];
    E sigma = row[ROW_SIGMA];
    E held = a[ACCOUNT_BARS_HELD];
    E drawdown = E(1) - a[ACCOUNT_EQUITY] / a[ACCOUNT_PEAK];
    E unrealised = a[ACCOUNT_UNREALISED] / (sigma * env_sqrt(E(1) + held));
    E* seen = out + (long)e * OBSERVED_WIDTH;
    seen[0] = a[ACCOUNT_POSITION];
    seen[1] = env_clip(unrealised, OBSERVED_MAX);
    seen[2] = held / (held + E(20));
    seen[3] = env_clip(E(10) * drawdown, OBSERVED_MAX);
    seen[4] = a[ACCOUNT_LAST_ACTION];
    seen[5] = env_clip((half_spread + half_spread) / sigma, OBSERVED_MAX);
    seen[6] = row[ROW_TIME_TO_CLOSE];
    seen[7] = E(1) - a[ACCOUNT_POSITION];
    seen[8] = env_clip(a[ACCOUNT_SHARPE_A] / sigma, OBSERVED_MAX);
    seen[9] = env_clip(a[ACCOUNT_SHARPE_B] / (sigma * sigma), OBSERVED_MAX);
}

// As job_observe, and action [n_env, 3], lambda []; out [n_env, 16]: the new account, then reward,
// done, net return, gross return, cost, turnover, position, traded.
template <class E, class L>
DEV void job_env_step(const E* account, const int* bar, const double* table, const double* costs, const int* action, const L* lambda,
                      E* out, int n_env, int n_bars, const Job& job) {
    int e = job.block * THREADS + threadIdx.x;
    if (e >= n_env) return;
    E row[ENV_COLUMNS], a[ACCOUNT_WIDTH];
    env_row(table, bar, e, n_bars, row, job);
    Costs<E> cost = env_costs<E>(costs);
    Order<E> order = env_order<E>(action + (long)e * 3, job);
    E risk = (E)ld_wide(lambda, 0);
#pragma unroll
    for (int i = 0; i < ACCOUNT_WIDTH; ++i) a[i] = account[(long)e * ACCOUNT_WIDTH + i];
    E* to = out + (long)e * STEP_WIDTH;
    E* result = to + ACCOUNT_WIDTH;
    const E ruin = (E)RUIN_EQUITY;
    if (a[ACCOUNT_EQUITY] < ruin) {
#pragma unroll
        for (int i = 0; i < ACCOUNT_WIDTH; ++i) {
            to[i] = a[i];
            result[i] = i == 1 ? E(1) : E(0);
        }
        return;
    }
    bool is_forced = row[ROW_FORCED_FLAT] > E(0.5);
    if (is_forced) order = {E(0), ORDER_MARKET, E(1)};
    E before = a[ACCOUNT_POSITION];
    E gap = order.target - before;
    E wanted = env_abs(gap) < (E)DUST && !is_forced ? E(0) : gap * order.urgency;
    Fill<E> fill = env_fill(row, cost, order.kind, wanted);
    // The whole gap lands on the target itself, not on a sum that rounds beside it.
    E position = order.urgency == E(1) && fill.delta == gap ? order.target : before + fill.delta;
    E gross = position == E(0) ? E(0) : position * row[ROW_OPEN_RETURN];
    E net = env_max(gross - fill.cost, E(-1));
    env_settle(row, a, before, position, gross, net);
    a[ACCOUNT_LAST_ACTION] = order.target;
    bool done = a[ACCOUNT_EQUITY] < ruin;
    if (done) {
        a[ACCOUNT_POSITION] = E(0);
        a[ACCOUNT_UNREALISED] = E(0);
        a[ACCOUNT_BARS_HELD] = E(0);
    }
#pragma unroll
    for (int i = 0; i < ACCOUNT_WIDTH; ++i) to[i] = a[i];
    E scaled = net / row[ROW_SIGMA];
    E turnover = env_abs(fill.delta);
    result[0] = scaled - E(0.5) * risk * scaled * scaled;
    result[1] = done ? E(1) : E(0);
    result[2] = net;
    result[3] = gross;
    result[4] = fill.cost;
    result[5] = turnover;
    result[6] = position;
    result[7] = turnover >= (E)TRADE_MIN ? E(1) : E(0);
}
