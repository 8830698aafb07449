//! Waiting for the database.
//!
//! # Invariants
//! - Only errors that time can mend are waited for: lost connections, restarts, deadlocks,
//!   serialization failures, too many connections.
//! - A private server that died meanwhile is started again.

use super::connect::Store;
use super::error::StoreError;
use std::time::{Duration, Instant};
use tracing::{info, warn};

/// Pauses double from here …
const PAUSE_MIN: Duration = Duration::from_millis(20);
/// … up to here.
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// Runs a statement until it succeeds or fails for good.
///
/// Evaluates `$attempt`, a future of `Result<_, sqlx::Error>`, again after each pause; it must be
/// idempotent.
macro_rules! persist {
    ($store:expr, $action:literal, $attempt:expr) => {{
        let mut patience = $crate::store::retry::Patience::new($store, $action);
        loop {
            match $attempt.await {
                Ok(value) => {
                    patience.report();
                    break Ok(value);
                }
                Err(error) => {
                    if let Err(error) = patience.wait(error).await {
                        break Err(error);
                    }
                }
            }
        }
    }};
}
pub(super) use persist;

/// The state of one wait.
pub(super) struct Patience<'a> {
    store: &'a Store,
    action: &'static str,
    began_at: Instant,
    n_waits: u32,
}

impl<'a> Patience<'a> {
    pub(super) fn new(store: &'a Store, action: &'static str) -> Self {
        Self {
            store,
            action,
            began_at: Instant::now(),
            n_waits: 0,
        }
    }

    /// Pauses after an error that time can mend; hands any other back.
    pub(super) async fn wait(&mut self, error: sqlx::Error) -> Result<(), StoreError> {
        if !is_transient(&error) {
            return Err(StoreError::Statement {
                action: self.action,
                source: error,
            });
        }
        let pause = PAUSE_MAX.min(PAUSE_MIN * 2_u32.saturating_pow(self.n_waits.min(16)));
        self.n_waits += 1;
        warn!(
            action = self.action,
            waited_s = self.began_at.elapsed().as_secs(),
            %error,
            "waiting for the database"
        );
        tokio::time::sleep(pause).await;
        if is_lost(&error) {
            self.store.release_writer().await;
            self.store.revive().await;
        }
        Ok(())
    }

    /// Says that a wait is over.
    pub(super) fn report(&self) {
        if self.n_waits > 0 {
            info!(
                action = self.action,
                n_waits = self.n_waits,
                waited_ms = self.began_at.elapsed().as_millis() as u64,
                "the database answers again"
            );
        }
    }
}

/// Decides whether the server, or the way to it, is gone.
pub(super) fn is_lost(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Io(_)
        | sqlx::Error::PoolTimedOut
        | sqlx::Error::WorkerCrashed
        | sqlx::Error::BeginFailed => true,
        sqlx::Error::Database(error) => error.code().is_some_and(|code| {
            // Connection exceptions; shutdown, crash, "the database system is starting up".
            code.starts_with("08") || matches!(&*code, "57P01" | "57P02" | "57P03")
        }),
        _ => false,
    }
}

/// Decides whether waiting can mend an error.
pub(super) fn is_transient(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(|error| error.code());
    is_lost(error)
        || code.is_some_and(|code| {
            // Serialization failure, deadlock, too many connections, disk or memory full, lock.
            matches!(
                &*code,
                "40001" | "40P01" | "53000" | "53100" | "53200" | "53300" | "55P03"
            )
        })
}
