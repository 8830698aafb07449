//! The arithmetic of the trading environment: fills, costs, accounting, reward, observation.
//!
//! The decision falls at the close of bar `t`, the fill at the open of bar `t + 1`, and the
//! return runs to the open of bar `t + 2`. Everything that this needs of the market lies in one
//! row of `ENV_COLUMNS` numbers, prepared in F64 by the market; everything that it needs of the
//! past lies in `ACCOUNT_WIDTH` numbers.
//!
//! # Invariants
//! - Pure functions of a row, an account, costs and an action: no allocation, no I/O, no entropy.
//! - The same code collects (F32) and evaluates (F64); it uses +, −, ×, ÷, √, comparisons and
//!   min/max only, so it ports to a kernel line by line.
//! - Zero exposure from flat returns exactly `0.0` and costs nothing.
//! - Market orders never have a negative cost; limit orders may (price improvement).
//! - All prices are relative to the open of bar `t + 1`, the fill clock, so F32 suffices.

use super::real::Real;

/// Width of an environment row.
pub const ENV_COLUMNS: usize = 8;
/// `O[t+2] / O[t+1] − 1`, a simple return.
pub const ROW_OPEN_RETURN: usize = 0;
/// EW standard deviation of one-bar log returns through bar `t`, positive.
pub const ROW_SIGMA: usize = 1;
/// `C[t] / O[t+1]`: the last close, the price of a limit-mid order.
pub const ROW_CLOSE: usize = 2;
/// `L[t+1] / O[t+1]`, at most 1.
pub const ROW_LOW: usize = 3;
/// `H[t+1] / O[t+1]`, at least 1.
pub const ROW_HIGH: usize = 4;
/// Share of a bar's usual volume that an order over the whole capital would be.
pub const ROW_PARTICIPATION: usize = 5;
/// 1 where holding from `O[t+1]` to `O[t+2]` would cross a session end or a data gap.
pub const ROW_FORCED_FLAT: usize = 6;
/// Share of the session that is left at the close of bar `t`, 0 to 1; 0 for daily bars.
pub const ROW_TIME_TO_CLOSE: usize = 7;

/// Width of an account.
pub const ACCOUNT_WIDTH: usize = 8;
/// Position, drifted to the current open, as a fraction of equity (−1 is fully short).
pub const ACCOUNT_POSITION: usize = 0;
/// Equity; starts at 1.
pub const ACCOUNT_EQUITY: usize = 1;
/// Highest equity so far.
pub const ACCOUNT_PEAK: usize = 2;
/// Return earned by the open position since it was opened, as a fraction of equity.
pub const ACCOUNT_UNREALISED: usize = 3;
/// Bars since the position was opened or changed its sign.
pub const ACCOUNT_BARS_HELD: usize = 4;
/// Target exposure of the last order.
pub const ACCOUNT_LAST_ACTION: usize = 5;
/// First moment of the differential Sharpe ratio; zero unless that reward is used.
pub const ACCOUNT_SHARPE_A: usize = 6;
/// Second moment of the differential Sharpe ratio; zero unless that reward is used.
pub const ACCOUNT_SHARPE_B: usize = 7;

/// Number of account values that a model observes.
pub const OBSERVED_WIDTH: usize = 10;
/// Exposures of action branch 0.
pub const EXPOSURES: [f64; 5] = [-1.0, -0.5, 0.0, 0.5, 1.0];
/// Index of zero exposure in branch 0.
pub const EXPOSURE_FLAT: usize = 2;
/// Shares of the gap to the target that branch 2 trades.
pub const URGENCIES: [f64; 3] = [0.25, 0.5, 1.0];
/// Sizes of the action branches: exposure, order type, urgency.
pub const ACTION_SIZES: [usize; 3] = [5, 3, 3];
/// Equity below which an account is ruined, as a fraction of its start.
pub const RUIN_EQUITY: f64 = 0.1;
/// Smallest fill that counts as a trade, as a fraction of equity; less only offsets drift.
pub const TRADE_MIN: f64 = 0.01;
/// Gap to the target, as a fraction of equity, that is rounding and not worth an order.
const DUST: f64 = 1e-6;
/// Bound of the observed ratios and of the differential Sharpe ratio, in either direction.
const OBSERVED_MAX: f64 = 5.0;
const DIFFERENTIAL_MAX: f64 = 10.0;
const DIFFERENTIAL_VARIANCE_MIN: f64 = 1e-12;

/// What trading costs; fractions of the traded value (one basis point is `1e-4`).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Costs<R> {
    /// Fee of orders that take liquidity.
    pub fee: R,
    /// Fee of limit orders that rest, at least 0.
    pub maker_fee: R,
    /// Half the bid-ask spread.
    pub half_spread: R,
    /// Impact coefficient `k` in `k · σ · √(quantity / volume)`, dimensionless.
    pub impact: R,
}

impl<R: Real> Costs<R> {
    /// Builds costs from basis points, the unit of the sweep file; resting orders pay `fee_bp` too.
    #[must_use]
    pub fn from_bp(fee_bp: f64, half_spread_bp: f64, impact: f64) -> Self {
        Self {
            fee: R::from_f64(fee_bp * 1e-4),
            maker_fee: R::from_f64(fee_bp * 1e-4),
            half_spread: R::from_f64(half_spread_bp * 1e-4),
            impact: R::from_f64(impact),
        }
    }
}

/// How an order meets the market: action branch 1, in its order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OrderKind {
    /// Fills at the next open, always.
    Market,
    /// Rests at the last close.
    LimitMid,
    /// Rests half a spread better than the last close.
    Passive,
}

/// The order kinds by branch index.
pub const ORDER_KINDS: [OrderKind; 3] =
    [OrderKind::Market, OrderKind::LimitMid, OrderKind::Passive];

/// An order, decoded from an action or given by a regressor's position.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Order<R> {
    /// Exposure to reach, −1 to 1.
    pub target: R,
    /// How to get there.
    pub kind: OrderKind,
    /// Share of the gap to trade now, above 0 up to 1.
    pub urgency: R,
}

impl<R: Real> Order<R> {
    /// Decodes branch indices: exposure, order type, urgency.
    ///
    /// # Panics
    /// If an index is outside [`ACTION_SIZES`], which is a bug of the caller.
    #[must_use]
    pub fn decode(action: [usize; 3]) -> Self {
        Self {
            target: R::from_f64(EXPOSURES[action[0]]),
            kind: ORDER_KINDS[action[1]],
            urgency: R::from_f64(URGENCIES[action[2]]),
        }
    }
}

/// What a step rewards. Both are in units of the bar's σ, so one `v_max` fits all markets.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RewardKind<R> {
    /// `x = R / σ`, the net return over the EW standard deviation.
    PnlOverSigma,
    /// `x − ½ λ x²`; with `λ = 0` it equals `PnlOverSigma` bit for bit.
    RiskAdjusted {
        /// Risk aversion λ, at least 0.
        lambda: R,
    },
}

/// What one step did.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Outcome<R> {
    /// Reward of the step.
    pub reward: R,
    /// Whether the account is ruined; the caller resets it or masks what follows.
    pub done: bool,
    /// Return on equity after costs.
    pub net_return: R,
    /// Return on equity before costs.
    pub gross_return: R,
    /// Costs as a fraction of equity; negative only by price improvement of a limit order.
    pub cost: R,
    /// Traded value as a fraction of equity.
    pub turnover: R,
    /// Position held from `O[t+1]` to `O[t+2]`, as a fraction of equity.
    pub position: R,
    /// Whether at least [`TRADE_MIN`] was filled.
    pub traded: bool,
}

impl<R: Real> Outcome<R> {
    /// The outcome of a step by a ruined account.
    fn ruined() -> Self {
        Self {
            reward: R::ZERO,
            done: true,
            net_return: R::ZERO,
            gross_return: R::ZERO,
            cost: R::ZERO,
            turnover: R::ZERO,
            position: R::ZERO,
            traded: false,
        }
    }
}

/// A fill: the signed change of the position and its cost, both as fractions of equity.
struct Fill<R> {
    delta: R,
    cost: R,
}

/// Makes a fresh account: flat, equity 1.
///
/// - `account`: `[ACCOUNT_WIDTH]`.
pub fn reset<R: Real>(account: &mut [R]) {
    account[..ACCOUNT_WIDTH].fill(R::ZERO);
    account[ACCOUNT_EQUITY] = R::ONE;
    account[ACCOUNT_PEAK] = R::ONE;
}

/// Ten account values that a model sees at the close of bar `t`, each of order one.
///
/// - `row`: `[ENV_COLUMNS]`, bar `t`; only what is known at its close is read (σ, time to close).
/// - `account`: `[ACCOUNT_WIDTH]`.
///
/// In order: position; unrealised return over `σ √(1 + bars held)`; bars held as
/// `n / (n + 20)`; ten times the drawdown; last action; spread over σ; share of the session left;
/// cash (`1 − position`); differential Sharpe A over σ; B over σ². Ratios are clipped to ±5.
#[must_use]
pub fn observe<R: Real>(row: &[R], costs: &Costs<R>, account: &[R]) -> [R; OBSERVED_WIDTH] {
    let sigma = row[ROW_SIGMA];
    let held = account[ACCOUNT_BARS_HELD];
    let drawdown = R::ONE - account[ACCOUNT_EQUITY] / account[ACCOUNT_PEAK];
    let unrealised = account[ACCOUNT_UNREALISED] / (sigma * (R::ONE + held).sqrt());
    [
        account[ACCOUNT_POSITION],
        clip(unrealised, OBSERVED_MAX),
        held / (held + R::from_f64(20.0)),
        clip(R::from_f64(10.0) * drawdown, OBSERVED_MAX),
        account[ACCOUNT_LAST_ACTION],
        clip(
            (costs.half_spread + costs.half_spread) / sigma,
            OBSERVED_MAX,
        ),
        row[ROW_TIME_TO_CLOSE],
        R::ONE - account[ACCOUNT_POSITION],
        clip(account[ACCOUNT_SHARPE_A] / sigma, OBSERVED_MAX),
        clip(account[ACCOUNT_SHARPE_B] / (sigma * sigma), OBSERVED_MAX),
    ]
}

/// Takes one step by branch indices; see [`execute`].
///
/// # Panics
/// If an index is outside [`ACTION_SIZES`], which is a bug of the caller.
pub fn step<R: Real>(
    row: &[R],
    costs: &Costs<R>,
    reward: RewardKind<R>,
    account: &mut [R],
    action: [usize; 3],
) -> Outcome<R> {
    execute(row, costs, reward, account, Order::decode(action))
}

/// Fills an order at the open of bar `t + 1` and carries the account to the open of bar `t + 2`.
///
/// - `row`: `[ENV_COLUMNS]`, bar `t`.
/// - `account`: `[ACCOUNT_WIDTH]`, updated.
///
/// With `p` the position after the fill and `r` the open-to-open return, the net return is
/// `R = p·r − cost`, the position drifts to `p (1 + r) / (1 + R)`, and equity grows by `1 + R`,
/// never below 0. Gaps of rounding (below `1e-6` of equity) are left alone. A row that forces the account flat overrides the order: market, the whole gap
/// to zero. A ruined account (equity below [`RUIN_EQUITY`]) earns and pays nothing any more.
///
/// Costs count the study's capital, not the grown equity, so that a step depends on nothing
/// that the observation hides.
pub fn execute<R: Real>(
    row: &[R],
    costs: &Costs<R>,
    reward: RewardKind<R>,
    account: &mut [R],
    order: Order<R>,
) -> Outcome<R> {
    let ruin = R::from_f64(RUIN_EQUITY);
    if account[ACCOUNT_EQUITY] < ruin {
        return Outcome::ruined();
    }
    let is_forced = row[ROW_FORCED_FLAT] > R::HALF;
    let order = if is_forced {
        Order {
            target: R::ZERO,
            kind: OrderKind::Market,
            urgency: R::ONE,
        }
    } else {
        order
    };
    let before = account[ACCOUNT_POSITION];
    let gap = order.target - before;
    let wanted = if gap.abs() < R::from_f64(DUST) && !is_forced {
        R::ZERO
    } else {
        gap * order.urgency
    };
    let fill = fill(row, costs, order.kind, wanted);
    // The whole gap lands on the target itself, not on a sum that rounds beside it.
    let position = if order.urgency == R::ONE && fill.delta == gap {
        order.target
    } else {
        before + fill.delta
    };
    let gross = if position == R::ZERO {
        R::ZERO
    } else {
        position * row[ROW_OPEN_RETURN]
    };
    let net = (gross - fill.cost).max(-R::ONE);
    settle(row, account, before, position, gross, net);
    account[ACCOUNT_LAST_ACTION] = order.target;
    let done = account[ACCOUNT_EQUITY] < ruin;
    if done {
        account[ACCOUNT_POSITION] = R::ZERO;
        account[ACCOUNT_UNREALISED] = R::ZERO;
        account[ACCOUNT_BARS_HELD] = R::ZERO;
    }
    Outcome {
        reward: reward_of(reward, net / row[ROW_SIGMA]),
        done,
        net_return: net,
        gross_return: gross,
        cost: fill.cost,
        turnover: fill.delta.abs(),
        position,
        traded: fill.delta.abs() >= R::from_f64(TRADE_MIN),
    }
}

/// Moves position, equity and the memory of the open position to the next open.
fn settle<R: Real>(row: &[R], account: &mut [R], before: R, position: R, gross: R, net: R) {
    let grown = R::ONE + net;
    account[ACCOUNT_POSITION] = if grown > R::ZERO {
        position * (R::ONE + row[ROW_OPEN_RETURN]) / grown
    } else {
        R::ZERO
    };
    account[ACCOUNT_EQUITY] *= grown;
    account[ACCOUNT_PEAK] = account[ACCOUNT_PEAK].max(account[ACCOUNT_EQUITY]);
    let same_side = before * position > R::ZERO;
    if position == R::ZERO {
        account[ACCOUNT_UNREALISED] = R::ZERO;
        account[ACCOUNT_BARS_HELD] = R::ZERO;
    } else if same_side {
        // A reduced position keeps its share of what it had earned.
        let kept = (position / before).min(R::ONE);
        account[ACCOUNT_UNREALISED] = account[ACCOUNT_UNREALISED] * kept + gross;
        account[ACCOUNT_BARS_HELD] += R::ONE;
    } else {
        account[ACCOUNT_UNREALISED] = gross;
        account[ACCOUNT_BARS_HELD] = R::ONE;
    }
}

/// Decides what of `wanted` (signed, a fraction of equity) fills, and at what cost.
///
/// A limit order that the open already beats takes liquidity: it fills at the limit or at the
/// open plus half a spread, whichever is better, for the taker's fee. Otherwise it fills at the
/// limit, for the maker's fee, only if bar `t + 1` trades strictly through it; the rest lapses.
/// The cost of a fill is its distance from the open, against us, plus the fee.
fn fill<R: Real>(row: &[R], costs: &Costs<R>, kind: OrderKind, wanted: R) -> Fill<R> {
    let nothing = Fill {
        delta: R::ZERO,
        cost: R::ZERO,
    };
    if wanted == R::ZERO {
        return nothing;
    }
    let size = wanted.abs();
    let improvement = match kind {
        OrderKind::Market => {
            let impact = costs.impact * row[ROW_SIGMA] * (size * row[ROW_PARTICIPATION]).sqrt();
            return Fill {
                delta: wanted,
                cost: size * (costs.half_spread + impact + costs.fee),
            };
        }
        OrderKind::LimitMid => R::ZERO,
        OrderKind::Passive => costs.half_spread,
    };
    // `edge` is how far the limit lies beyond the open, `reach` how far the bar moved our way:
    // one arithmetic for both sides, mirrored around the open.
    let (edge, reach) = if wanted > R::ZERO {
        let limit = row[ROW_CLOSE] * (R::ONE - improvement);
        (limit - R::ONE, row[ROW_LOW] - R::ONE)
    } else {
        let limit = row[ROW_CLOSE] * (R::ONE + improvement);
        (R::ONE - limit, R::ONE - row[ROW_HIGH])
    };
    if edge > R::ZERO {
        Fill {
            delta: wanted,
            cost: size * (edge.min(costs.half_spread) + costs.fee),
        }
    } else if reach < edge {
        Fill {
            delta: wanted,
            cost: size * (edge + costs.maker_fee),
        }
    } else {
        nothing
    }
}

fn reward_of<R: Real>(kind: RewardKind<R>, scaled: R) -> R {
    match kind {
        RewardKind::PnlOverSigma => scaled,
        RewardKind::RiskAdjusted { lambda } => scaled - R::HALF * lambda * scaled * scaled,
    }
}

/// Differential Sharpe ratio: the derivative of an EW Sharpe ratio by its rate η.
///
/// - `a`, `b`: EW first and second moment of the net return before this bar.
/// - `net_return`: `R` of this bar.
///
/// `(B·ΔA − ½ A·ΔB) / (B − A²)^{3/2}` with `ΔA = R − A` and `ΔB = R² − B`; the variance is
/// floored at `1e-12` and the value clipped to ±10. `B − A²` cancels: never in less than F32.
///
/// Source: Moody and Saffell 2001.
#[must_use]
pub fn differential_sharpe<R: Real>(a: R, b: R, net_return: R) -> R {
    let delta_a = net_return - a;
    let delta_b = net_return * net_return - b;
    let variance = (b - a * a).max(R::from_f64(DIFFERENTIAL_VARIANCE_MIN));
    let ratio = (b * delta_a - R::HALF * a * delta_b) / (variance * variance.sqrt());
    clip(ratio, DIFFERENTIAL_MAX)
}

fn clip<R: Real>(value: R, bound: f64) -> R {
    let bound = R::from_f64(bound);
    value.max(-bound).min(bound)
}

#[cfg(test)]
mod tests;
