-- The vocabulary of a study as tables: what was asked, what ran, and what came of it.
-- Views, the public interface, follow in the next file.

CREATE TYPE study_state AS ENUM ('running', 'stopped', 'complete');
CREATE TYPE objective_direction AS ENUM ('maximize', 'minimize');
CREATE TYPE precision_arm AS ENUM ('f32', 'tf32', 'bf16');
CREATE TYPE trial_state AS ENUM ('waiting', 'running', 'complete', 'pruned', 'failed');
CREATE TYPE attempt_state AS ENUM ('running', 'complete', 'pruned', 'failed', 'abandoned');
CREATE TYPE degenerate_reason AS ENUM ('zero_variance', 'too_few_trades', 'not_finite');
CREATE TYPE failure_kind AS ENUM ('diverged', 'out_of_memory', 'device', 'cancelled', 'bug');
CREATE TYPE split_kind AS ENUM ('train', 'validation', 'holdout');
CREATE TYPE artifact_kind AS ENUM ('best_weights');

CREATE TABLE study (
    study_id         bigint GENERATED ALWAYS AS IDENTITY,
    name             text NOT NULL,
    series           text,
    seed             bigint NOT NULL,
    spec             json NOT NULL,
    digest           text NOT NULL,
    metric           text NOT NULL,
    direction        objective_direction NOT NULL,
    arms             precision_arm[] NOT NULL,
    n_configurations integer NOT NULL,
    n_replicates     integer NOT NULL,
    state            study_state NOT NULL DEFAULT 'running',
    stop_reason      text,
    created_at       timestamptz NOT NULL DEFAULT now(),
    ended_at         timestamptz,
    CONSTRAINT study_has_one_key PRIMARY KEY (study_id),
    CONSTRAINT study_name_is_unique UNIQUE (name),
    CONSTRAINT study_name_is_not_empty CHECK (name <> ''),
    CONSTRAINT study_has_an_arm CHECK (cardinality(arms) >= 1),
    CONSTRAINT study_budget_is_not_negative CHECK (n_configurations >= 0 AND n_replicates >= 1),
    CONSTRAINT study_only_a_stopped_one_has_a_reason CHECK (stop_reason IS NULL OR state = 'stopped'),
    CONSTRAINT study_has_end_unless_running CHECK ((state = 'running') = (ended_at IS NULL))
);
CREATE INDEX study_series_idx ON study (series, study_id) WHERE series IS NOT NULL;
COMMENT ON TABLE study IS 'One row per study: one sweep file under one name.';
COMMENT ON COLUMN study.series IS 'Joins the nights of one dated sweep; NULL for a study on its own.';
COMMENT ON COLUMN study.seed IS 'Bit pattern of the unsigned 64-bit seed.';
COMMENT ON COLUMN study.spec IS 'The resolved sweep. json, not jsonb, because jsonb rewrites numbers (1e16 becomes an integer, -0.0 loses its sign).';
COMMENT ON COLUMN study.digest IS 'Digest of everything in the sweep that may not change on resuming; that of the data is in spec.';
COMMENT ON COLUMN study.arms IS 'Precisions; the first is the reference.';
COMMENT ON COLUMN study.n_configurations IS 'Budget; trials = configurations x arms x replicates.';

CREATE TABLE configuration (
    configuration_id bigint GENERATED ALWAYS AS IDENTITY,
    study_id         bigint NOT NULL,
    number           integer NOT NULL,
    cohort           integer NOT NULL,
    watermark        integer NOT NULL,
    is_enqueued      boolean NOT NULL,
    params           json NOT NULL,
    created_at       timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT configuration_has_one_key PRIMARY KEY (configuration_id),
    CONSTRAINT configuration_number_is_unique_in_its_study UNIQUE (study_id, number),
    CONSTRAINT configuration_belongs_to_one_study UNIQUE (configuration_id, study_id),
    CONSTRAINT configuration_has_a_study FOREIGN KEY (study_id) REFERENCES study ON DELETE CASCADE,
    CONSTRAINT configuration_counts_from_zero CHECK (number >= 0 AND cohort >= 0),
    CONSTRAINT configuration_learns_from_earlier_ones CHECK (watermark BETWEEN 0 AND number),
    CONSTRAINT configuration_params_are_an_object CHECK (json_typeof(params) = 'object')
);
COMMENT ON TABLE configuration IS 'One row per sampled point of a study.';
COMMENT ON COLUMN configuration.number IS '0-based index in the study.';
COMMENT ON COLUMN configuration.watermark IS 'The sampler learned from the configurations with a smaller number than this.';
COMMENT ON COLUMN configuration.is_enqueued IS 'Whether the sweep file named the point, instead of the sampler.';
COMMENT ON COLUMN configuration.params IS 'Parameter name to value. json, not jsonb, so that true, 1 and 1.0 stay three values to the last bit.';

CREATE TABLE trial (
    trial_id          bigint GENERATED ALWAYS AS IDENTITY,
    study_id          bigint NOT NULL,
    configuration_id  bigint NOT NULL,
    precision         precision_arm NOT NULL,
    replicate         integer NOT NULL,
    state             trial_state NOT NULL DEFAULT 'waiting',
    value             float8,
    best_epoch        integer,
    degenerate_reason degenerate_reason,
    failure_kind      failure_kind,
    failure_text      text,
    plan_key          text,
    seeds             bigint[],
    created_at        timestamptz NOT NULL DEFAULT now(),
    started_at        timestamptz,
    ended_at          timestamptz,
    CONSTRAINT trial_has_one_key PRIMARY KEY (trial_id),
    CONSTRAINT trial_is_unique_in_its_configuration UNIQUE (configuration_id, precision, replicate),
    CONSTRAINT trial_has_a_configuration_of_its_study FOREIGN KEY (configuration_id, study_id)
        REFERENCES configuration (configuration_id, study_id) ON DELETE CASCADE,
    CONSTRAINT trial_replicate_counts_from_zero CHECK (replicate >= 0),
    CONSTRAINT trial_best_epoch_counts_from_zero CHECK (best_epoch >= 0),
    CONSTRAINT trial_value_is_finite CHECK (value > '-Infinity' AND value < 'Infinity'),
    CONSTRAINT trial_complete_has_value_or_reason
        CHECK (state <> 'complete' OR num_nonnulls(value, degenerate_reason) = 1),
    CONSTRAINT trial_degenerate_is_complete
        CHECK (degenerate_reason IS NULL OR state = 'complete'),
    CONSTRAINT trial_value_has_its_epoch CHECK (value IS NULL OR best_epoch IS NOT NULL),
    CONSTRAINT trial_failed_has_kind_and_text CHECK (
        (state = 'failed') = (failure_kind IS NOT NULL)
        AND (failure_kind IS NULL) = (failure_text IS NULL)
    ),
    CONSTRAINT trial_unfinished_has_no_outcome CHECK (
        state NOT IN ('waiting', 'running') OR num_nonnulls(value, best_epoch, degenerate_reason) = 0
    ),
    CONSTRAINT trial_failed_has_no_value CHECK (state <> 'failed' OR value IS NULL),
    CONSTRAINT trial_has_end_if_it_ended
        CHECK ((state IN ('complete', 'pruned', 'failed')) = (ended_at IS NOT NULL)),
    CONSTRAINT trial_started_has_plan_and_seeds
        CHECK (state <> 'running' OR num_nulls(started_at, plan_key, seeds) = 0)
);
CREATE INDEX trial_configuration_idx ON trial (configuration_id, study_id);
CREATE INDEX trial_state_idx ON trial (study_id, state);
CREATE INDEX trial_value_idx ON trial (study_id, value) WHERE state = 'complete' AND value IS NOT NULL;
COMMENT ON TABLE trial IS 'One row per configuration, precision arm and replicate: the unit of evidence.';
COMMENT ON COLUMN trial.study_id IS 'That of the configuration, repeated so that a study''s trials are found by one index.';
COMMENT ON COLUMN trial.value IS 'The objective at the best epoch; NULL unless complete or pruned.';
COMMENT ON COLUMN trial.best_epoch IS '0-based epoch with the best aggregate over the folds.';
COMMENT ON COLUMN trial.plan_key IS 'Digest of everything structural; trials with equal keys may share a pack.';
COMMENT ON COLUMN trial.seeds IS 'Seed of each fold''s run, in the order of the folds, as bit patterns of unsigned 64-bit numbers.';

CREATE TABLE worker (
    worker_id       bigint GENERATED ALWAYS AS IDENTITY,
    host            text NOT NULL,
    process_id      integer NOT NULL,
    program_version text NOT NULL,
    started_at      timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT worker_has_one_key PRIMARY KEY (worker_id)
);
COMMENT ON TABLE worker IS 'One row per process that ran trials.';
COMMENT ON COLUMN worker.process_id IS 'Of the operating system; meaningful on its host while it lives.';

CREATE TABLE attempt (
    attempt_id      bigint GENERATED ALWAYS AS IDENTITY,
    trial_id        bigint NOT NULL,
    number          integer NOT NULL,
    state           attempt_state NOT NULL DEFAULT 'running',
    worker_id       bigint NOT NULL,
    device          text NOT NULL,
    driver          text NOT NULL,
    n_lanes         integer NOT NULL,
    kernel_digest   text NOT NULL,
    data_digest     text NOT NULL,
    program_version text NOT NULL,
    arena_bytes     bigint NOT NULL,
    bytes_per_lane  bigint NOT NULL,
    failure_kind    failure_kind,
    failure_text    text,
    bytes_asked     bigint,
    bytes_free      bigint,
    started_at      timestamptz NOT NULL DEFAULT now(),
    ended_at        timestamptz,
    CONSTRAINT attempt_has_one_key PRIMARY KEY (attempt_id),
    CONSTRAINT attempt_number_is_unique_in_its_trial UNIQUE (trial_id, number),
    CONSTRAINT attempt_has_a_trial FOREIGN KEY (trial_id) REFERENCES trial ON DELETE CASCADE,
    CONSTRAINT attempt_has_a_worker FOREIGN KEY (worker_id) REFERENCES worker,
    CONSTRAINT attempt_sizes_are_not_negative
        CHECK (number >= 0 AND n_lanes >= 1 AND arena_bytes >= 0 AND bytes_per_lane >= 0),
    CONSTRAINT attempt_failed_has_kind_and_text CHECK (
        (state = 'failed') = (failure_kind IS NOT NULL)
        AND (failure_kind IS NULL) = (failure_text IS NULL)
    ),
    CONSTRAINT attempt_has_end_unless_running CHECK ((state = 'running') = (ended_at IS NULL))
);
CREATE UNIQUE INDEX attempt_one_counts_per_trial_idx ON attempt (trial_id) WHERE state IN ('running', 'complete');
CREATE INDEX attempt_worker_idx ON attempt (worker_id);
COMMENT ON TABLE attempt IS 'One row per execution of a trial, with all that a rerun needs.';
COMMENT ON COLUMN attempt.state IS 'abandoned: its process died or a newer attempt replaced it; what it still reports is refused.';
COMMENT ON COLUMN attempt.n_lanes IS 'Lanes of the pack when the attempt began, dead ones included.';
COMMENT ON COLUMN attempt.kernel_digest IS 'Digest of the code that computed; on the CPU that of the program''s file.';
COMMENT ON COLUMN attempt.arena_bytes IS 'Memory of all lanes of the pack.';
COMMENT ON COLUMN attempt.bytes_per_lane IS 'Share of one run.';
COMMENT ON COLUMN attempt.bytes_asked IS 'After out_of_memory: what the device was asked for.';
COMMENT ON COLUMN attempt.bytes_free IS 'After out_of_memory: what the device had.';

CREATE TABLE epoch (
    attempt_id              bigint NOT NULL,
    fold                    integer NOT NULL,
    epoch                   integer NOT NULL,
    n_lanes                 integer NOT NULL,
    overlap                 boolean NOT NULL,
    is_emulated             boolean NOT NULL,
    is_warmup               boolean NOT NULL,
    pack_wall_ms            float8 NOT NULL,
    pack_device_ms          float8 NOT NULL,
    steps                   bigint NOT NULL,
    env_steps               bigint NOT NULL,
    loss                    float8,
    loss_terms              json,
    gradient_norm           float8,
    q_mean                  float8,
    q_max                   float8,
    td_error                float8,
    edge_atom_mass          float8,
    validation_sharpe       float8,
    validation_return       float8,
    validation_max_drawdown float8,
    validation_turnover     float8,
    validation_exposure     float8,
    validation_trades       bigint,
    recorded_at             timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT epoch_is_unique_in_its_run PRIMARY KEY (attempt_id, fold, epoch),
    CONSTRAINT epoch_has_an_attempt FOREIGN KEY (attempt_id) REFERENCES attempt ON DELETE CASCADE,
    CONSTRAINT epoch_counts_from_zero CHECK (fold >= 0 AND epoch >= 0 AND steps >= 0 AND env_steps >= 0),
    CONSTRAINT epoch_has_a_live_lane CHECK (n_lanes >= 1),
    CONSTRAINT epoch_times_are_durations CHECK (
        pack_wall_ms >= 0 AND pack_wall_ms < 'Infinity'
        AND pack_device_ms >= 0 AND pack_device_ms < 'Infinity'
    ),
    CONSTRAINT epoch_sharpe_is_finite
        CHECK (validation_sharpe > '-Infinity' AND validation_sharpe < 'Infinity')
);
COMMENT ON TABLE epoch IS 'One row per epoch of a run. Diagnostics keep NaN and infinities as they were measured; NULL means not measured by this model.';
COMMENT ON COLUMN epoch.n_lanes IS 'Live lanes of the pack in this epoch.';
COMMENT ON COLUMN epoch.overlap IS 'Whether another pack ran on the device at the same time: then its times compare with nothing.';
COMMENT ON COLUMN epoch.is_emulated IS 'Whether the precision was emulated by rounding: right in value, not in speed.';
COMMENT ON COLUMN epoch.is_warmup IS 'Whether it is the first epoch of its plan, left out of comparisons.';
COMMENT ON COLUMN epoch.pack_device_ms IS 'Device time of the whole pack''s epoch; divide by n_lanes for that of one run.';
COMMENT ON COLUMN epoch.steps IS 'Optimizer updates of the run so far.';
COMMENT ON COLUMN epoch.env_steps IS 'Simulator ticks of the run so far.';
COMMENT ON COLUMN epoch.q_mean IS 'Mean greedy value of the sampled next states; q_max is the largest.';
COMMENT ON COLUMN epoch.loss_terms IS 'Terms of the loss by name, where the model has more than one.';
COMMENT ON COLUMN epoch.edge_atom_mass IS 'Probability on the two outermost atoms of a distributional value.';
COMMENT ON COLUMN epoch.validation_sharpe IS 'Annualised; NULL where the returns have no variance.';

CREATE TABLE result (
    trial_id         bigint NOT NULL,
    fold             integer NOT NULL,
    split            split_kind NOT NULL,
    sharpe           float8,
    sharpe_annual    float8,
    n_observations   bigint NOT NULL,
    skew             float8,
    kurtosis         float8,
    total_return     float8,
    max_drawdown     float8,
    turnover         float8,
    n_trades         bigint NOT NULL,
    hit_rate         float8,
    exposure         float8,
    cost             float8,
    net_returns      float8[] NOT NULL,
    CONSTRAINT result_is_unique_in_its_trial PRIMARY KEY (trial_id, fold, split),
    CONSTRAINT result_has_a_trial FOREIGN KEY (trial_id) REFERENCES trial ON DELETE CASCADE,
    CONSTRAINT result_counts_from_zero CHECK (fold >= 0 AND n_observations >= 0 AND n_trades >= 0),
    CONSTRAINT result_sharpe_is_finite CHECK (
        sharpe > '-Infinity' AND sharpe < 'Infinity'
        AND sharpe_annual > '-Infinity' AND sharpe_annual < 'Infinity'
    ),
    CONSTRAINT result_has_both_sharpes_or_none CHECK ((sharpe IS NULL) = (sharpe_annual IS NULL))
);
ALTER TABLE result ALTER COLUMN net_returns SET STORAGE EXTERNAL;
COMMENT ON TABLE result IS 'One row per fold and split of a trial, at the trial''s best epoch, net of costs.';
COMMENT ON COLUMN result.sharpe IS 'Per period (mean / standard deviation, ddof 1); NULL where the returns have no variance.';
COMMENT ON COLUMN result.n_observations IS 'Returns that the Sharpe ratio rests on.';
COMMENT ON COLUMN result.kurtosis IS 'Raw: 3 for a normal distribution.';
COMMENT ON COLUMN result.turnover IS 'Traded value over equity, summed over the block.';
COMMENT ON COLUMN result.exposure IS 'Mean absolute position, as a fraction of equity.';
COMMENT ON COLUMN result.cost IS 'Sum of all costs, as a fraction of equity.';
COMMENT ON COLUMN result.net_returns IS 'Net return of each bar, in order.';

CREATE TABLE holdout (
    study_id        bigint NOT NULL,
    trial_ids       bigint[] NOT NULL,
    program_version text NOT NULL,
    opened_at       timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT holdout_is_opened_once PRIMARY KEY (study_id),
    CONSTRAINT holdout_has_a_study FOREIGN KEY (study_id) REFERENCES study ON DELETE CASCADE,
    CONSTRAINT holdout_has_a_finalist CHECK (cardinality(trial_ids) >= 1)
);
COMMENT ON TABLE holdout IS 'One row per study whose holdout has been opened; there is no second time.';
COMMENT ON COLUMN holdout.trial_ids IS 'The finalists, best first; their figures are rows of result with split holdout.';

CREATE TABLE artifact (
    artifact_id bigint GENERATED ALWAYS AS IDENTITY,
    trial_id    bigint NOT NULL,
    fold        integer NOT NULL,
    kind        artifact_kind NOT NULL,
    sha256      bytea NOT NULL,
    content     bytea NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT artifact_has_one_key PRIMARY KEY (artifact_id),
    CONSTRAINT artifact_is_unique_in_its_run UNIQUE (trial_id, fold, kind),
    CONSTRAINT artifact_has_a_trial FOREIGN KEY (trial_id) REFERENCES trial ON DELETE CASCADE,
    CONSTRAINT artifact_fold_counts_from_zero CHECK (fold >= 0),
    CONSTRAINT artifact_digest_is_that_of_its_content CHECK (sha256(content) = sha256)
);
ALTER TABLE artifact ALTER COLUMN content SET STORAGE EXTERNAL;
COMMENT ON TABLE artifact IS 'One row per file that a run left, kept in the database so that backups and deletes are whole.';
COMMENT ON COLUMN artifact.kind IS 'best_weights: safetensors of the best epoch.';
