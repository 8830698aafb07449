use super::*;

fn objective(metric: Metric) -> Objective {
    Objective {
        metric,
        direction: Direction::Maximize,
        min_trades: 10,
    }
}

fn fold(sharpe: f64, n_trades: u64) -> FoldScore {
    FoldScore {
        sharpe: Some(sharpe),
        n_trades,
    }
}

#[test]
fn sharpe_lower_is_the_mean_less_half_a_standard_error() {
    // mean 2, sd (ddof 1) 1, standard error 1/√3.
    let folds = [Some(1.0), Some(2.0), Some(3.0)];
    let expected = 2.0 - 0.5 / 3.0_f64.sqrt();
    let value = Metric::ValidationSharpeLower.aggregate(&folds);
    // A handful of roundings.
    assert!((value.unwrap() - expected).abs() < 1e-15);
    assert_eq!(Metric::ValidationSharpe.aggregate(&folds), Some(2.0));
}

#[test]
fn a_missing_fold_or_too_few_folds_give_no_value() {
    for metric in Metric::ALL {
        assert_eq!(metric.aggregate(&[Some(1.0), None]), None);
        assert_eq!(metric.aggregate(&[]), None);
        assert_eq!(metric.aggregate(&[Some(1.0), Some(f64::NAN)]), None);
        assert_eq!(metric.aggregate(&[Some(1.0), Some(f64::INFINITY)]), None);
    }
    assert_eq!(Metric::ValidationSharpeLower.aggregate(&[Some(1.0)]), None);
    assert_eq!(Metric::ValidationSharpe.aggregate(&[Some(1.0)]), Some(1.0));
}

#[test]
fn trades_are_counted_over_all_folds() {
    let objective = objective(Metric::ValidationSharpe);
    assert_eq!(
        objective.epoch_value(&[fold(1.0, 0), fold(2.0, 10)]),
        Ok(1.5)
    );
    assert_eq!(
        objective.epoch_value(&[fold(1.0, 4), fold(2.0, 5)]),
        Err(DegenerateReason::TooFewTrades)
    );
}

#[test]
fn each_degenerate_epoch_has_its_reason() {
    let objective = objective(Metric::ValidationSharpe);
    let flat = FoldScore {
        sharpe: None,
        n_trades: 0,
    };
    assert_eq!(
        objective.epoch_value(&[fold(1.0, 50), flat]),
        Err(DegenerateReason::ZeroVariance)
    );
    assert_eq!(
        objective.epoch_value(&[fold(f64::NAN, 50), fold(1.0, 50)]),
        Err(DegenerateReason::NotFinite)
    );
}

#[test]
fn best_epoch_goes_by_the_aggregate_and_ties_go_to_the_earliest() {
    let mut objective = objective(Metric::ValidationSharpe);
    let epochs = [
        Err(DegenerateReason::TooFewTrades),
        Ok(1.0),
        Ok(3.0),
        Ok(3.0),
        Ok(2.0),
    ];
    let best = |epoch_idx, value| Ok(BestEpoch { epoch_idx, value });
    assert_eq!(objective.best_epoch(&epochs), best(2, 3.0));
    objective.direction = Direction::Minimize;
    assert_eq!(objective.best_epoch(&epochs), best(1, 1.0));
    assert_eq!(
        objective.best_epoch(&[
            Err(DegenerateReason::ZeroVariance),
            Err(DegenerateReason::TooFewTrades)
        ]),
        Err(DegenerateReason::TooFewTrades)
    );
    assert_eq!(objective.best_epoch(&[]), Err(DegenerateReason::NotFinite));
}

#[test]
fn a_configuration_with_a_lost_trial_has_no_value() {
    assert_eq!(configuration_value(&[Some(1.0), Some(2.0)]), Some(1.5));
    assert_eq!(configuration_value(&[Some(1.0), None]), None);
    assert_eq!(configuration_value(&[]), None);
}

#[test]
fn cohorts_see_whole_cohorts_up_to_two_before() {
    let seen = |number| watermark(ConfigurationNumber(number), 4);
    // Cohorts 0 and 1 see nothing, cohort 2 sees cohort 0, cohort 3 sees cohorts 0 and 1.
    assert_eq!([seen(0), seen(3), seen(4), seen(7)], [0; 4]);
    assert_eq!([seen(8), seen(11), seen(12)], [4, 4, 8]);
    assert_eq!(cohort_of(ConfigurationNumber(11), 4), 2);
    for number in 0..100 {
        let cohort = cohort_of(ConfigurationNumber(number), 4);
        let last_seen = watermark(ConfigurationNumber(number), 4).checked_sub(1);
        let last_cohort = last_seen.map(|seen| cohort_of(ConfigurationNumber(seen), 4));
        assert_eq!(last_cohort, cohort.checked_sub(2));
    }
}

#[test]
fn trials_move_only_where_a_life_allows() {
    use TrialState::{Complete, Failed, Pruned, Running, Waiting};
    let allowed: Vec<_> = TrialState::ALL
        .into_iter()
        .flat_map(|from| TrialState::ALL.map(|to| (from, to)))
        .filter(|(from, to)| from.can_become(*to))
        .collect();
    assert_eq!(
        allowed,
        [
            (Waiting, Running),
            (Waiting, Pruned),
            (Waiting, Failed),
            (Running, Waiting),
            (Running, Complete),
            (Running, Pruned),
            (Running, Failed),
            (Complete, Waiting),
            (Failed, Waiting),
        ]
    );
}

#[test]
fn run_seeds_differ_in_every_part_and_never_change() {
    let seed = |study, configuration, fold, replicate| {
        run_seed(study, ConfigurationNumber(configuration), fold, replicate)
    };
    let mut seeds = std::collections::BTreeSet::new();
    for study in 0..3 {
        for configuration in 0..10 {
            for fold in 0..4 {
                for replicate in 0..3 {
                    seeds.insert(seed(study, configuration, fold, replicate));
                }
            }
        }
    }
    assert_eq!(seeds.len(), 3 * 10 * 4 * 3);
    // Stored studies resume only if this value stays; computed with another SHA-256.
    assert_eq!(seed(17, 3, 1, 0), 18_404_563_902_867_216_391);
}

#[test]
fn values_of_different_types_differ_and_survive_json() {
    let values = [
        Value::Bool(true),
        Value::Int(1),
        Value::Float(1.0),
        Value::Text("1".to_owned()),
        Value::Int(i64::MAX),
        Value::Int(i64::MIN),
        Value::Float(0.1),
        Value::Float(1e300),
    ];
    for (at, value) in values.iter().enumerate() {
        let text = serde_json::to_string(value).unwrap();
        let back: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(&back, value, "{text}");
        assert!(values[at + 1..].iter().all(|other| other != value));
    }
}

#[test]
fn domains_hold_their_grid_and_type() {
    let stepped = Domain::Float {
        low: 0.1,
        high: 0.7,
        scale: Scale::Linear,
        step: Some(0.2),
    };
    // 0.1 + 2 · 0.2 is not 0.5 in binary.
    assert!(stepped.contains(&Value::Float(0.1 + 2.0 * 0.2)));
    assert!(stepped.contains(&Value::Float(0.5)));
    assert!(!stepped.contains(&Value::Float(0.4)));
    assert!(!stepped.contains(&Value::Float(0.9)));
    assert!(!stepped.contains(&Value::Int(0)));
    assert_eq!(stepped.n_values(), Some(4));
    let wide = Domain::Int {
        low: i64::MIN,
        high: i64::MAX,
        scale: Scale::Linear,
        step: None,
    };
    assert!(wide.contains(&Value::Int(i64::MAX)));
    assert!(!wide.contains(&Value::Float(0.0)));
    assert_eq!(wide.n_values(), Some(1 << 64));
    let choice = Domain::Choice(vec![Value::Bool(true), Value::Int(1)]);
    assert!(choice.contains(&Value::Int(1)));
    assert!(!choice.contains(&Value::Float(1.0)));
}
