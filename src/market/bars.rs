//! Bars: the prices and volumes that everything else is made of.
//!
//! # Invariants
//! - All columns have the same length; times increase strictly.
//! - Prices are finite and positive; volumes are finite and not negative.

use chrono::NaiveDateTime;

/// A series of bars, column by column; `[N]` each.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Bars {
    /// Start of the bar, milliseconds since 1970 in UTC.
    pub time_utc_ms: Vec<i64>,
    /// Start of the bar on the exchange's clock.
    pub local: Vec<NaiveDateTime>,
    /// First price.
    pub open: Vec<f64>,
    /// Highest price.
    pub high: Vec<f64>,
    /// Lowest price.
    pub low: Vec<f64>,
    /// Last price.
    pub close: Vec<f64>,
    /// Traded quantity.
    pub volume: Vec<f64>,
    /// SHA-256 of the raw bytes that the bars came from, in hexadecimal.
    pub digest: String,
}

impl Bars {
    /// Number of bars.
    #[must_use]
    pub fn len(&self) -> usize {
        self.close.len()
    }

    /// Whether there is no bar.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.close.is_empty()
    }

    /// Copies the first `n_bars` bars; the digest stays that of the source.
    #[must_use]
    pub fn prefix(&self, n_bars: usize) -> Self {
        Self {
            time_utc_ms: self.time_utc_ms[..n_bars].to_vec(),
            local: self.local[..n_bars].to_vec(),
            open: self.open[..n_bars].to_vec(),
            high: self.high[..n_bars].to_vec(),
            low: self.low[..n_bars].to_vec(),
            close: self.close[..n_bars].to_vec(),
            volume: self.volume[..n_bars].to_vec(),
            digest: self.digest.clone(),
        }
    }

    /// Log return of bar `t` on bar `t − 1`, close to close; 0 for the first bar.
    #[must_use]
    pub fn log_return(&self, t: usize) -> f64 {
        if t == 0 {
            0.0
        } else {
            (self.close[t] / self.close[t - 1]).ln()
        }
    }
}

/// SHA-256 of bytes, in hexadecimal.
#[must_use]
pub fn digest_hex(bytes: &[u8]) -> String {
    use sha2::Digest;
    let hash = sha2::Sha256::digest(bytes);
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}
