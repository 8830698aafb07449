//! A user's folder with sweep files and a private cluster.

use serde_json::Value;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Longest that a test waits for something that takes a second.
const PATIENCE: Duration = Duration::from_secs(120);

/// A sweep of small agents on real bars: four configurations in two arms.
#[derive(Debug, Clone)]
pub(super) struct Sweep {
    pub(super) name: String,
    pub(super) data: PathBuf,
    pub(super) min_trades: u64,
    pub(super) model: String,
    pub(super) space: String,
    pub(super) configurations: u32,
    pub(super) epochs: u32,
    pub(super) steps: u32,
    pub(super) cohort: u32,
    pub(super) wall: Option<&'static str>,
    pub(super) executors: u32,
    pub(super) lanes: u32,
}

impl Sweep {
    pub(super) fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            data: Path::new(env!("CARGO_MANIFEST_DIR")).join("sweeps/data/sp500_1d.csv"),
            min_trades: 1,
            model: String::new(),
            space: "\"train.lr\" = { float = [1e-4, 1e-2], scale = \"log\" }\n\
                    \"model.n_step\" = { int = [1, 5] }"
                .to_owned(),
            configurations: 4,
            epochs: 2,
            steps: 64,
            cohort: 2,
            wall: None,
            executors: 2,
            lanes: 4,
        }
    }

    /// Long enough to be interrupted: six configurations of a fifth of a second and more an arm.
    pub(super) fn long(name: &str) -> Self {
        Self {
            configurations: 6,
            epochs: 3,
            steps: 320,
            executors: 1,
            lanes: 2,
            ..Self::new(name)
        }
    }

    // tidy: long, because it is one sweep file, key by key.
    fn text(&self) -> String {
        let Self {
            name,
            min_trades,
            model,
            space,
            configurations,
            epochs,
            steps,
            ..
        } = self;
        let Self {
            cohort,
            executors,
            lanes,
            ..
        } = self;
        let data = self.data.display();
        let mut text = format!(
            r#"
            [study]
            name = "{name}"
            seed = 17
            [objective]
            metric = "validation.sharpe_lower"
            min_trades = {min_trades}
            [data]
            source = "csv"
            path = "{data}"
            bar = "1d"
            time_zone = "America/New_York"
            calendar = "us_equity"
            [split]
            folds = 2
            validation_bars = 120
            holdout_bars = 250
            [model]
            kind = "dqn"
            trunk_width = 8
            trunk_layers = 1
            head_width = 8
            atoms = 11
            n_step_max = 5
            {model}
            [train]
            batch_size = 8
            environments = 4
            steps_per_epoch = {steps}
            replay_capacity = 256
            replay_capacity_max = 256
            replay_warmup = 16
            [space]
            {space}
            [precision]
            arms = ["f32", "bf16"]
            [sampler]
            kind = "sobol"
            [scheduler]
            cohort = {cohort}
            [executors]
            per_device = {executors}
            lanes = {lanes}
            [budget]
            configurations = {configurations}
            epochs = {epochs}
            "#
        );
        if let Some(wall) = self.wall {
            writeln!(text, "wall = \"{wall}\"").unwrap();
        }
        text
    }
}

/// A user's data folder with a running private Postgres.
pub(super) struct Home {
    folder: TempDir,
}

impl Home {
    /// Returns the folder that all tests share.
    pub(super) fn shared() -> Arc<Self> {
        static SHARED: Mutex<Weak<Home>> = Mutex::new(Weak::new());
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        shared.upgrade().unwrap_or_else(|| {
            let home = Arc::new(Self {
                folder: tempfile::tempdir().unwrap(),
            });
            *shared = Arc::downgrade(&home);
            home
        })
    }

    /// Returns a folder with a cluster for one test.
    pub(super) fn apart() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
        }
    }

    /// Writes a file into a folder of its own.
    pub(super) fn write(&self, name: &str, text: &[u8]) -> PathBuf {
        static N_FILES: AtomicU32 = AtomicU32::new(0);
        let n = N_FILES.fetch_add(1, Ordering::Relaxed);
        let folder = self.folder.path().join(format!("files-{n}"));
        std::fs::create_dir(&folder).unwrap();
        let path = folder.join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// The program with a data folder and nothing else: no HOME, no PATH, no terminal.
    pub(super) fn hyperopt(&self, args: &[&str]) -> Command {
        let mut command = Command::new(assert_cmd::cargo::cargo_bin!("hyperopt"));
        command
            .env_clear()
            .env("XDG_DATA_HOME", self.folder.path())
            .args(args);
        // Where the machine names Postgres explicitly, so do the tests.
        if let Some(bin) = std::env::var_os("HYPEROPT_POSTGRES_BIN") {
            command.env("HYPEROPT_POSTGRES_BIN", bin);
        }
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    pub(super) fn call(&self, args: &[&str]) -> Output {
        self.hyperopt(args).output().unwrap()
    }

    /// The command `run` on a sweep, written as a file of its own.
    pub(super) fn command(&self, sweep: &Sweep, more: &[&str]) -> Command {
        let stem = sweep.name.trim_end_matches("-{date}");
        let path = self.write(&format!("{stem}.toml"), sweep.text().as_bytes());
        let mut args = vec!["run", path.to_str().unwrap()];
        args.extend(more);
        self.hyperopt(&args)
    }

    pub(super) fn run(&self, sweep: &Sweep, more: &[&str]) -> Output {
        self.command(sweep, more).output().unwrap()
    }

    /// Runs a sweep to its end and returns its results, see [`Home::results`].
    pub(super) fn complete(&self, sweep: &Sweep) -> String {
        let output = self.run(sweep, &[]);
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        self.results(&sweep.name)
    }

    /// Starts a sweep and leaves it running.
    pub(super) fn spawn(&self, sweep: &Sweep) -> Child {
        self.command(sweep, &[]).spawn().unwrap()
    }

    /// What a query prints, unaligned and without headings.
    pub(super) fn sql(&self, query: &str) -> String {
        let output = self.call(&["db", "psql", "-X", "-q", "-t", "-A", "-c", query]);
        assert_eq!(code(&output), 0, "{query}: {}", stderr(&output));
        stdout(&output).trim_end().to_owned()
    }

    pub(super) fn count(&self, query: &str) -> u64 {
        self.sql(query).parse().unwrap()
    }

    pub(super) fn json(&self, args: &[&str]) -> Vec<Value> {
        let mut all = args.to_vec();
        all.push("--json");
        let output = self.call(&all);
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        serde_json::from_str(&stdout(&output)).unwrap()
    }

    /// Everything stored of a study that its file decides, one line a row, to the last bit: keys,
    /// times and the state of the packs are left out.
    pub(super) fn results(&self, study: &str) -> String {
        const OF_TRIALS: &str = "JOIN configuration AS c USING (configuration_id) \
            JOIN study AS s ON s.study_id = c.study_id";
        let queries = [
            format!(
                "SELECT c.number, cohort, watermark, is_enqueued, params, precision, replicate, \
                    t.state, value, best_epoch, degenerate_reason, failure_kind, plan_key, seeds \
                FROM trial AS t {OF_TRIALS} WHERE name = '{study}' ORDER BY c.number, precision"
            ),
            format!(
                "SELECT c.number, precision, fold, split, sharpe, sharpe_annual, n_observations, \
                    skew, kurtosis, total_return, max_drawdown, turnover, n_trades, hit_rate, \
                    exposure, cost, net_returns \
                FROM result JOIN trial USING (trial_id) {OF_TRIALS} \
                WHERE name = '{study}' ORDER BY c.number, precision, fold"
            ),
            format!(
                "SELECT c.number, precision, fold, epoch, steps, env_steps, loss, gradient_norm, \
                    q_mean, q_max, td_error, edge_atom_mass, validation_sharpe, \
                    validation_return, validation_max_drawdown, validation_turnover, \
                    validation_exposure, validation_trades \
                FROM epoch JOIN attempt AS a USING (attempt_id) JOIN trial USING (trial_id) \
                {OF_TRIALS} WHERE name = '{study}' AND a.state = 'complete' \
                ORDER BY c.number, precision, fold, epoch"
            ),
            format!(
                "SELECT c.number, precision, fold, kind, sha256 \
                FROM artifact JOIN trial USING (trial_id) {OF_TRIALS} \
                WHERE name = '{study}' ORDER BY c.number, precision, fold"
            ),
        ];
        // psql prints floats with all their digits; before version 15 it shows only the last of
        // several queries in one string.
        let answers = queries.iter().map(|query| self.sql(query));
        answers.collect::<Vec<_>>().join("\n\n")
    }

    /// Asserts that a study holds each of its trials once, all ended.
    pub(super) fn assert_exact(&self, sweep: &Sweep) {
        let n = u64::from(sweep.configurations);
        let of = format!("JOIN study USING (study_id) WHERE name = '{}'", sweep.name);
        assert_eq!(
            self.count(&format!("SELECT count(*) FROM configuration {of}")),
            n
        );
        let ended = format!("SELECT count(*) FROM trial {of} AND trial.state = 'complete'");
        assert_eq!(self.count(&ended), 2 * n);
        assert_eq!(
            self.count(&format!("SELECT count(*) FROM trial {of}")),
            2 * n
        );
        let counting = format!(
            "SELECT count(*) FROM attempt JOIN trial USING (trial_id) {of} \
            AND attempt.state IN ('complete', 'running')"
        );
        assert_eq!(
            self.count(&counting),
            2 * n,
            "one attempt of each trial counts"
        );
    }

    /// Waits until a query counts at least `n`.
    pub(super) fn wait_for(&self, query: &str, n: u64) {
        let started = Instant::now();
        while self.count(query) < n {
            assert!(
                started.elapsed() < PATIENCE,
                "still waiting for {query} to reach {n}"
            );
            sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let output = self.call(&["db", "stop"]);
        if !std::thread::panicking() {
            assert_eq!(code(&output), 0, "{}", stderr(&output));
        }
    }
}

/// A study's finished epochs, as a query.
pub(super) fn epochs_of(study: &str) -> String {
    format!(
        "SELECT count(*) FROM epoch JOIN attempt USING (attempt_id) JOIN trial USING (trial_id) \
        JOIN study USING (study_id) WHERE name = '{study}'"
    )
}

/// A study's ended trials, as a query.
pub(super) fn ended_of(study: &str) -> String {
    format!(
        "SELECT count(*) FROM trial JOIN study USING (study_id) \
        WHERE name = '{study}' AND trial.state = 'complete'"
    )
}

/// Exit code; a signal that nobody handled is none.
pub(super) fn code(output: &Output) -> i32 {
    output.status.code().unwrap_or(-1)
}

pub(super) fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub(super) fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}
