-- The public interface: what people read in SQL, and what the program prints. Columns are only
-- ever added.

CREATE VIEW trial_overview AS
SELECT
    study.name AS study,
    study.study_id,
    configuration.configuration_id,
    configuration.number,
    configuration.cohort,
    trial.trial_id,
    trial.precision,
    trial.replicate,
    trial.state,
    trial.value,
    trial.best_epoch,
    trial.degenerate_reason,
    trial.failure_kind,
    trial.failure_text,
    validation.n_folds,
    validation.sharpe,
    validation.max_drawdown,
    validation.n_trades,
    execution.n_attempts,
    execution.device,
    trial.plan_key,
    trial.started_at,
    trial.ended_at,
    configuration.params
FROM trial
JOIN configuration USING (configuration_id)
JOIN study ON study.study_id = trial.study_id
CROSS JOIN LATERAL (
    SELECT
        count(*) AS n_folds,
        CASE WHEN count(*) = count(result.sharpe_annual) THEN avg(result.sharpe_annual) END AS sharpe,
        max(result.max_drawdown) AS max_drawdown,
        sum(result.n_trades)::bigint AS n_trades
    FROM result
    WHERE result.trial_id = trial.trial_id AND result.split = 'validation'
) AS validation
CROSS JOIN LATERAL (
    SELECT
        count(*) AS n_attempts,
        (array_agg(attempt.device ORDER BY attempt.number DESC))[1] AS device
    FROM attempt
    WHERE attempt.trial_id = trial.trial_id
) AS execution;
COMMENT ON VIEW trial_overview IS 'One row per trial, with its configuration and its validation figures at the best epoch.';
COMMENT ON COLUMN trial_overview.sharpe IS 'Mean over the folds of the annualised validation Sharpe ratio; NULL if a fold has none.';
COMMENT ON COLUMN trial_overview.max_drawdown IS 'Worst of the folds.';
COMMENT ON COLUMN trial_overview.n_trades IS 'All validation folds together.';
COMMENT ON COLUMN trial_overview.device IS 'That of the newest attempt.';

CREATE VIEW trial_param AS
SELECT
    study.name AS study,
    study.study_id,
    configuration.number,
    trial.trial_id,
    trial.precision,
    trial.replicate,
    param.key AS name,
    CASE WHEN json_typeof(param.value) = 'number' THEN (param.value #>> '{}')::float8 END AS numeric_value,
    CASE WHEN json_typeof(param.value) <> 'number' THEN param.value #>> '{}' END AS text_value
FROM trial
JOIN configuration USING (configuration_id)
JOIN study ON study.study_id = trial.study_id
CROSS JOIN LATERAL json_each(configuration.params) AS param;
COMMENT ON VIEW trial_param IS 'One row per trial and sampled parameter.';
COMMENT ON COLUMN trial_param.numeric_value IS 'NULL for strings and booleans.';
COMMENT ON COLUMN trial_param.text_value IS 'NULL for numbers; booleans are true and false.';

CREATE VIEW epoch_time AS
SELECT
    study.name AS study,
    study.study_id,
    configuration.number,
    trial.trial_id,
    trial.precision,
    trial.replicate,
    attempt.attempt_id,
    attempt.state AS attempt_state,
    attempt.device,
    trial.plan_key,
    epoch.fold,
    epoch.epoch,
    epoch.n_lanes,
    epoch.pack_wall_ms,
    epoch.pack_device_ms,
    epoch.pack_wall_ms / epoch.n_lanes AS wall_ms_per_lane,
    epoch.pack_device_ms / epoch.n_lanes AS device_ms_per_lane,
    epoch.overlap,
    epoch.is_emulated,
    epoch.is_warmup,
    NOT (epoch.overlap OR epoch.is_emulated OR epoch.is_warmup) AS is_comparable,
    epoch.recorded_at
FROM epoch
JOIN attempt USING (attempt_id)
JOIN trial USING (trial_id)
JOIN configuration USING (configuration_id)
JOIN study ON study.study_id = trial.study_id;
COMMENT ON VIEW epoch_time IS 'One row per epoch of a run, with the time of its pack shared among the live lanes.';
COMMENT ON COLUMN epoch_time.is_comparable IS 'Whether the time means the speed of the precision: no warm-up, no overlap, no emulation.';

CREATE VIEW study_progress AS
SELECT
    study.name AS study,
    study.study_id,
    study.series,
    study.state,
    study.stop_reason,
    study.metric,
    study.direction,
    study.arms,
    study.n_configurations,
    study.n_configurations::bigint * cardinality(study.arms) * study.n_replicates AS n_trials,
    sampled.n_sampled,
    counts.n_waiting,
    counts.n_running,
    counts.n_complete,
    counts.n_degenerate,
    counts.n_pruned,
    counts.n_failed,
    CASE study.direction
        WHEN 'maximize' THEN counts.value_max
        WHEN 'minimize' THEN counts.value_min
    END AS best_value,
    study.created_at,
    study.ended_at
FROM study
CROSS JOIN LATERAL (
    SELECT count(*) AS n_sampled FROM configuration WHERE configuration.study_id = study.study_id
) AS sampled
CROSS JOIN LATERAL (
    SELECT
        count(*) FILTER (WHERE trial.state = 'waiting') AS n_waiting,
        count(*) FILTER (WHERE trial.state = 'running') AS n_running,
        count(*) FILTER (WHERE trial.state = 'complete') AS n_complete,
        count(*) FILTER (WHERE trial.degenerate_reason IS NOT NULL) AS n_degenerate,
        count(*) FILTER (WHERE trial.state = 'pruned') AS n_pruned,
        count(*) FILTER (WHERE trial.state = 'failed') AS n_failed,
        max(trial.value) FILTER (WHERE trial.state = 'complete') AS value_max,
        min(trial.value) FILTER (WHERE trial.state = 'complete') AS value_min
    FROM trial
    WHERE trial.study_id = study.study_id
) AS counts;
COMMENT ON VIEW study_progress IS 'One row per study, with how far it is.';
COMMENT ON COLUMN study_progress.n_trials IS 'Budget: configurations x arms x replicates.';
COMMENT ON COLUMN study_progress.n_sampled IS 'Configurations sampled so far.';
COMMENT ON COLUMN study_progress.n_complete IS 'Degenerate ones included.';
COMMENT ON COLUMN study_progress.best_value IS 'Of a single trial; see leaderboard for configurations.';

CREATE VIEW leaderboard AS
SELECT
    study.name AS study,
    study.study_id,
    rank() OVER (
        PARTITION BY study.study_id
        ORDER BY CASE study.direction WHEN 'maximize' THEN -valued.value WHEN 'minimize' THEN valued.value END
    ) AS rank,
    configuration.number,
    valued.value,
    valued.reference_value,
    valued.n_trials,
    CASE study.direction
        WHEN 'maximize' THEN valued.last_trial_id
        WHEN 'minimize' THEN valued.first_trial_id
    END AS best_trial_id,
    configuration.params
FROM (
    SELECT
        trial.study_id,
        trial.configuration_id,
        count(*) AS n_trials,
        avg(trial.value) AS value,
        avg(trial.value) FILTER (WHERE trial.precision = arms.reference) AS reference_value,
        (array_agg(trial.trial_id ORDER BY trial.value, trial.trial_id))[1] AS first_trial_id,
        (array_agg(trial.trial_id ORDER BY trial.value DESC, trial.trial_id))[1] AS last_trial_id
    FROM trial
    JOIN (SELECT study_id, arms[1] AS reference FROM study) AS arms ON arms.study_id = trial.study_id
    GROUP BY trial.study_id, trial.configuration_id
    HAVING bool_and(trial.state = 'complete' AND trial.value IS NOT NULL)
) AS valued
JOIN configuration USING (configuration_id)
JOIN study ON study.study_id = valued.study_id;
COMMENT ON VIEW leaderboard IS 'One row per configuration whose trials are all complete with a value, ranked within its study.';
COMMENT ON COLUMN leaderboard.value IS 'Mean over arms and replicates: what the sampler sees.';
COMMENT ON COLUMN leaderboard.reference_value IS 'Mean over the replicates of the study''s first arm.';
COMMENT ON COLUMN leaderboard.best_trial_id IS 'The configuration''s best trial.';

CREATE VIEW precision_distribution AS
SELECT
    study.name AS study,
    study.study_id,
    study.arms[1] AS reference,
    arm.precision AS arm,
    count(trial.trial_id) AS n,
    count(*) FILTER (WHERE trial.state IN ('waiting', 'running')) AS n_unfinished,
    count(*) FILTER (WHERE trial.state = 'failed') AS n_failed,
    count(*) FILTER (WHERE trial.degenerate_reason IS NOT NULL) AS n_degenerate,
    count(*) FILTER (WHERE trial.state = 'pruned') AS n_pruned,
    count(scored.sharpe) AS n_scored,
    avg(scored.sharpe) AS sharpe_mean,
    stddev_samp(scored.sharpe) AS sharpe_sd,
    min(scored.sharpe) AS sharpe_min,
    percentile_cont(0.05) WITHIN GROUP (ORDER BY scored.sharpe) AS sharpe_p05,
    percentile_cont(0.25) WITHIN GROUP (ORDER BY scored.sharpe) AS sharpe_p25,
    percentile_cont(0.50) WITHIN GROUP (ORDER BY scored.sharpe) AS sharpe_p50,
    percentile_cont(0.75) WITHIN GROUP (ORDER BY scored.sharpe) AS sharpe_p75,
    percentile_cont(0.95) WITHIN GROUP (ORDER BY scored.sharpe) AS sharpe_p95,
    max(scored.sharpe) AS sharpe_max
FROM study
CROSS JOIN LATERAL unnest(study.arms) WITH ORDINALITY AS arm (precision, position)
LEFT JOIN trial ON trial.study_id = study.study_id AND trial.precision = arm.precision
LEFT JOIN LATERAL (
    SELECT CASE WHEN count(*) = count(result.sharpe_annual) THEN avg(result.sharpe_annual) END AS sharpe
    FROM result
    WHERE
        result.trial_id = trial.trial_id
        AND result.split = 'validation'
        AND trial.state = 'complete'
        AND trial.value IS NOT NULL
) AS scored ON true
GROUP BY study.study_id, study.name, study.arms, arm.precision, arm.position
ORDER BY study.study_id, arm.position;
COMMENT ON VIEW precision_distribution IS 'One row per study and precision arm, with percentiles of the trials'' annualised validation Sharpe ratio.';
COMMENT ON COLUMN precision_distribution.n_scored IS 'Complete trials with a value: those that the percentiles rest on.';

CREATE VIEW precision_pair AS
WITH scored AS (
    SELECT
        trial.trial_id,
        trial.study_id,
        trial.configuration_id,
        trial.precision,
        trial.replicate,
        trial.value,
        validation.sharpe,
        attempt.device,
        attempt.driver,
        attempt.bytes_per_lane,
        timing.epoch_ms,
        timing.n_lanes,
        timing.is_emulated,
        timing.overlap
    FROM trial
    JOIN attempt ON attempt.trial_id = trial.trial_id AND attempt.state = 'complete'
    CROSS JOIN LATERAL (
        SELECT avg(result.sharpe_annual) AS sharpe
        FROM result
        WHERE result.trial_id = trial.trial_id AND result.split = 'validation'
        HAVING count(*) = count(result.sharpe_annual) AND count(*) > 0
    ) AS validation
    CROSS JOIN LATERAL (
        SELECT
            percentile_cont(0.5) WITHIN GROUP (ORDER BY epoch.pack_device_ms / epoch.n_lanes) AS epoch_ms,
            percentile_disc(0.5) WITHIN GROUP (ORDER BY epoch.n_lanes) AS n_lanes,
            coalesce(bool_or(epoch.is_emulated), false) AS is_emulated,
            coalesce(bool_or(epoch.overlap), false) AS overlap
        FROM epoch
        WHERE epoch.attempt_id = attempt.attempt_id AND NOT epoch.is_warmup
    ) AS timing
    WHERE trial.state = 'complete' AND trial.value IS NOT NULL
), paired AS (
    SELECT
        study.name AS study,
        study.study_id,
        configuration.configuration_id,
        configuration.number,
        ref.replicate,
        ref.precision AS reference,
        arm.precision AS arm,
        ref.trial_id AS reference_trial_id,
        arm.trial_id AS arm_trial_id,
        ref.value AS value_reference,
        arm.value AS value_arm,
        ref.sharpe AS sharpe_reference,
        arm.sharpe AS sharpe_arm,
        ref.epoch_ms AS epoch_ms_reference,
        arm.epoch_ms AS epoch_ms_arm,
        ref.bytes_per_lane AS bytes_per_lane_reference,
        arm.bytes_per_lane AS bytes_per_lane_arm,
        CASE
            WHEN ref.is_emulated OR arm.is_emulated THEN 'precision is emulated: right in value, not in speed or memory'
            WHEN ref.epoch_ms IS NULL OR arm.epoch_ms IS NULL THEN 'no epoch after the warm-up'
            WHEN ref.overlap OR arm.overlap THEN 'packs overlapped on the device'
            WHEN (ref.device, ref.driver) <> (arm.device, arm.driver) THEN 'devices or drivers differ'
            WHEN ref.n_lanes <> arm.n_lanes THEN 'numbers of live lanes differ'
            WHEN ref.epoch_ms <= 0 THEN 'reference time is zero'
        END AS timing_note
    FROM study
    JOIN scored AS ref ON ref.study_id = study.study_id AND ref.precision = study.arms[1]
    JOIN scored AS arm
        ON arm.configuration_id = ref.configuration_id
        AND arm.replicate = ref.replicate
        AND arm.precision <> ref.precision
    JOIN configuration ON configuration.configuration_id = ref.configuration_id
)
SELECT
    study,
    study_id,
    configuration_id,
    number,
    replicate,
    reference,
    arm,
    reference_trial_id,
    arm_trial_id,
    value_reference,
    value_arm,
    sharpe_reference,
    sharpe_arm,
    sharpe_arm - sharpe_reference AS sharpe_delta,
    epoch_ms_reference,
    epoch_ms_arm,
    CASE WHEN timing_note IS NULL THEN epoch_ms_arm / epoch_ms_reference END AS epoch_time_ratio,
    bytes_per_lane_reference,
    bytes_per_lane_arm,
    timing_note
FROM paired;
COMMENT ON VIEW precision_pair IS 'One row per configuration, replicate and arm other than the reference, where both trials are complete with a value.';
COMMENT ON COLUMN precision_pair.sharpe_delta IS 'Arm minus reference of the fold-mean annualised validation Sharpe ratio at each trial''s best epoch.';
COMMENT ON COLUMN precision_pair.epoch_ms_reference IS 'Median device milliseconds per live lane, warm-up left out.';
COMMENT ON COLUMN precision_pair.epoch_time_ratio IS 'Arm / reference; NULL with a timing_note where the times do not compare.';

CREATE VIEW precision_comparison AS
WITH compared AS (
    SELECT
        study.study_id,
        study.name AS study,
        study.direction,
        study.arms[1] AS reference,
        arm.precision AS arm,
        arm.position
    FROM study
    CROSS JOIN LATERAL unnest(study.arms) WITH ORDINALITY AS arm (precision, position)
    WHERE arm.position > 1
), pairs AS (
    SELECT
        study_id,
        arm,
        count(*) AS n_pairs,
        percentile_cont(0.5) WITHIN GROUP (ORDER BY epoch_time_ratio) AS epoch_time_ratio,
        percentile_cont(0.5) WITHIN GROUP (
            ORDER BY bytes_per_lane_arm::float8 / nullif(bytes_per_lane_reference, 0)
        ) AS bytes_ratio,
        avg(sharpe_delta) AS sharpe_delta_mean,
        percentile_cont(0.5) WITHIN GROUP (ORDER BY sharpe_delta) AS sharpe_delta_median,
        count(timing_note) AS n_untimed,
        string_agg(DISTINCT timing_note, '; ' ORDER BY timing_note) AS timing_notes
    FROM precision_pair
    GROUP BY study_id, arm
), times AS (
    SELECT
        pair.study_id,
        pair.arm,
        percentile_cont(0.5) WITHIN GROUP (ORDER BY epoch.pack_device_ms / epoch.n_lanes)
            FILTER (WHERE attempt.trial_id = pair.reference_trial_id) AS epoch_ms_reference,
        percentile_cont(0.5) WITHIN GROUP (ORDER BY epoch.pack_device_ms / epoch.n_lanes)
            FILTER (WHERE attempt.trial_id = pair.arm_trial_id) AS epoch_ms_arm
    FROM precision_pair AS pair
    JOIN attempt
        ON attempt.trial_id IN (pair.reference_trial_id, pair.arm_trial_id)
        AND attempt.state = 'complete'
    JOIN epoch ON epoch.attempt_id = attempt.attempt_id AND NOT epoch.is_warmup
    GROUP BY pair.study_id, pair.arm
), lost AS (
    SELECT
        study_id,
        precision,
        count(*) AS n_lost
    FROM trial
    WHERE state IN ('complete', 'pruned', 'failed') AND (state <> 'complete' OR value IS NULL)
    GROUP BY study_id, precision
), ranked AS (
    SELECT
        mean.study_id,
        mean.arm,
        (array_agg(mean.number ORDER BY mean.sign * mean.value_reference, mean.number))[1]
        = (array_agg(mean.number ORDER BY mean.sign * mean.value_arm, mean.number))[1] AS same_winner
    FROM (
        SELECT
            pair.study_id,
            pair.arm,
            pair.number,
            avg(pair.value_reference) AS value_reference,
            avg(pair.value_arm) AS value_arm,
            CASE study.direction WHEN 'maximize' THEN -1 WHEN 'minimize' THEN 1 END AS sign
        FROM precision_pair AS pair
        JOIN study ON study.study_id = pair.study_id
        GROUP BY pair.study_id, pair.arm, pair.number, study.direction
    ) AS mean
    GROUP BY mean.study_id, mean.arm
)
SELECT
    compared.study,
    compared.reference,
    compared.arm,
    coalesce(pairs.n_pairs, 0) AS n_pairs,
    coalesce(lost_reference.n_lost, 0) AS n_lost_reference,
    coalesce(lost_arm.n_lost, 0) AS n_lost_arm,
    times.epoch_ms_reference,
    times.epoch_ms_arm,
    pairs.epoch_time_ratio,
    NULL::float8 AS ratio_lo,
    NULL::float8 AS ratio_hi,
    pairs.bytes_ratio,
    pairs.sharpe_delta_mean,
    pairs.sharpe_delta_median,
    NULL::float8 AS sharpe_delta_lo,
    NULL::float8 AS sharpe_delta_hi,
    NULL::float8 AS reseed_delta_sd,
    NULL::float8 AS p_signed_rank,
    NULL::text AS verdict,
    NULL::bigint AS pairs_needed,
    ranked.same_winner,
    CASE
        WHEN pairs.n_pairs IS NULL THEN 'no pairs'
        WHEN pairs.n_untimed = pairs.n_pairs THEN pairs.timing_notes
        WHEN pairs.n_untimed > 0 THEN
            pairs.n_untimed || ' of ' || pairs.n_pairs || ' pairs left out: ' || pairs.timing_notes
    END AS timing_note,
    'intervals, reseed_delta_sd, p_signed_rank, verdict and pairs_needed come with the evidence functions' AS note
FROM compared
LEFT JOIN pairs ON pairs.study_id = compared.study_id AND pairs.arm = compared.arm
LEFT JOIN times ON times.study_id = compared.study_id AND times.arm = compared.arm
LEFT JOIN ranked ON ranked.study_id = compared.study_id AND ranked.arm = compared.arm
LEFT JOIN lost AS lost_reference
    ON lost_reference.study_id = compared.study_id AND lost_reference.precision = compared.reference
LEFT JOIN lost AS lost_arm
    ON lost_arm.study_id = compared.study_id AND lost_arm.precision = compared.arm
ORDER BY compared.study_id, compared.position;
COMMENT ON VIEW precision_comparison IS 'One row per study and arm other than the reference: does the arm keep the Sharpe ratio, and how fast is it?';
COMMENT ON COLUMN precision_comparison.n_pairs IS 'Configurations x replicates complete with a value in both arms.';
COMMENT ON COLUMN precision_comparison.n_lost_reference IS 'Trials of the reference that ended without a value: failed, degenerate or pruned.';
COMMENT ON COLUMN precision_comparison.n_lost_arm IS 'Trials of the arm that ended without a value: failed, degenerate or pruned.';
COMMENT ON COLUMN precision_comparison.epoch_ms_reference IS 'Median device milliseconds per live lane over the epochs of the paired trials, warm-up left out.';
COMMENT ON COLUMN precision_comparison.epoch_time_ratio IS 'Median over the pairs of arm / reference; NULL with a timing_note where the times do not compare.';
COMMENT ON COLUMN precision_comparison.bytes_ratio IS 'Median over the pairs of arm / reference of the bytes per lane.';
COMMENT ON COLUMN precision_comparison.sharpe_delta_mean IS 'Arm minus reference of the fold-mean annualised validation Sharpe ratio at each trial''s best epoch.';
COMMENT ON COLUMN precision_comparison.same_winner IS 'Whether both arms rank the same configuration first, by the objective, among the pairs.';
COMMENT ON COLUMN precision_comparison.timing_note IS 'Why times are left out of the ratio; NULL if all compare.';
COMMENT ON COLUMN precision_comparison.note IS 'Why a column is NULL.';
