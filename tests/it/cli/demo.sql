-- A finished study of three configurations in two arms, two folds each: two pairs with values,
-- one configuration whose bf16 trial failed. Figures are chosen so that they are exact.
WITH s AS (
    INSERT INTO study (name, seed, spec, digest, metric, direction, arms, n_configurations, n_replicates, state, ended_at)
    VALUES ('demo', 17, '{}', 'none', 'validation.sharpe', 'maximize', '{f32,bf16}', 3, 1, 'complete', now())
    RETURNING study_id
), w AS (
    INSERT INTO worker (host, process_id, program_version) VALUES ('host', 1, '0.0.0') RETURNING worker_id
), c AS (
    INSERT INTO configuration (study_id, number, cohort, watermark, is_enqueued, params)
    SELECT study_id, number, 0, 0, false, json_build_object('model.double', true, 'train.lr', 0.0001 * (number + 1))
    FROM s, generate_series(0, 2) AS number
    RETURNING configuration_id, study_id, number
), plan (number, precision, state, sharpe) AS (
    VALUES
        (0, 'f32'::precision_arm, 'complete'::trial_state, 0.5::float8),
        (0, 'bf16', 'complete', 0.75),
        (1, 'f32', 'complete', 1.25),
        (1, 'bf16', 'complete', 1.75),
        (2, 'f32', 'complete', 2.0),
        (2, 'bf16', 'failed', NULL)
), t AS (
    INSERT INTO trial (
        study_id, configuration_id, precision, replicate, state, value, best_epoch, failure_kind,
        failure_text, plan_key, seeds, started_at, ended_at
    )
    SELECT
        c.study_id, c.configuration_id, plan.precision, 0, plan.state, plan.sharpe,
        CASE WHEN plan.state = 'complete' THEN 1 END,
        CASE WHEN plan.state = 'failed' THEN 'diverged'::failure_kind END,
        CASE WHEN plan.state = 'failed' THEN 'the loss became NaN in epoch 1 of fold 0' END,
        'key', '{1,2}', now(), now()
    FROM c JOIN plan USING (number)
    ORDER BY c.number, plan.precision
    RETURNING trial_id, precision, state, value
), a AS (
    INSERT INTO attempt (
        trial_id, number, state, worker_id, device, driver, n_lanes, kernel_digest, data_digest,
        program_version, arena_bytes, bytes_per_lane, failure_kind, failure_text, ended_at
    )
    SELECT
        trial_id, 0, state::text::attempt_state, worker_id, 'cpu', '', 2, 'k', 'd', '0.0.0', 2048,
        CASE precision WHEN 'bf16' THEN 768 ELSE 1024 END,
        CASE WHEN state = 'failed' THEN 'diverged'::failure_kind END,
        CASE WHEN state = 'failed' THEN 'the loss became NaN in epoch 1 of fold 0' END,
        now()
    FROM t, w
    RETURNING attempt_id, trial_id, state
), e AS (
    INSERT INTO epoch (
        attempt_id, fold, epoch, n_lanes, overlap, is_emulated, is_warmup, pack_wall_ms,
        pack_device_ms, steps, env_steps
    )
    SELECT
        a.attempt_id, fold, epoch, 2, false, t.precision = 'bf16', epoch = 0, 20, 17,
        100 * (epoch + 1), 400 * (epoch + 1)
    FROM a JOIN t USING (trial_id), generate_series(0, 1) AS fold, generate_series(0, 1) AS epoch
    WHERE a.state = 'complete'
)
INSERT INTO result (
    trial_id, fold, split, sharpe, sharpe_annual, n_observations, max_drawdown, n_trades, net_returns
)
SELECT trial_id, fold, 'validation', value / 16, value, 500, 0.125, 20, '{}'
FROM t, generate_series(0, 1) AS fold
WHERE state = 'complete';
