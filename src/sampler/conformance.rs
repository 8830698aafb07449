//! What every sampler must do, whatever its method.

use super::Sampler;
use crate::spec::SpaceParam;
use crate::study::{
    ConfigurationNumber, Domain, History, Observation, Params, Scale, TrialState, Value, When,
};
use std::collections::BTreeSet;

/// Runs the whole suite.
///
/// - `is_model_free`: whether the history is ignored, so that the marginals follow the scales.
pub(super) fn check(sampler: &dyn Sampler, is_model_free: bool) {
    stays_inside(sampler);
    reaches_ends(sampler);
    is_deterministic(sampler);
    ignores_the_order_of_history(sampler);
    first_ten_differ(sampler);
    respects_conditions(sampler);
    keeps_integers_exact(sampler);
    if is_model_free {
        follows_scales(sampler);
        counts_grid_cells(sampler);
    }
}

pub(super) fn param(name: &str, domain: Domain) -> SpaceParam {
    let default = match &domain {
        Domain::Float { low, .. } => Value::Float(*low),
        Domain::Int { low, .. } => Value::Int(*low),
        Domain::Choice(values) => values[0].clone(),
    };
    SpaceParam {
        name: name.to_owned(),
        domain,
        when: None,
        structural: false,
        default,
    }
}

pub(super) fn float(low: f64, high: f64, scale: Scale, step: Option<f64>) -> Domain {
    Domain::Float {
        low,
        high,
        scale,
        step,
    }
}

pub(super) fn int(low: i64, high: i64, scale: Scale, step: Option<i64>) -> Domain {
    Domain::Int {
        low,
        high,
        scale,
        step,
    }
}

/// One parameter of every form, sorted by name.
pub(super) fn mixed_space() -> Vec<SpaceParam> {
    let text = |text: &str| Value::Text(text.to_owned());
    vec![
        param("a.linear", float(-2.0, 3.0, Scale::Linear, None)),
        param("b.log", float(1e-5, 3e-3, Scale::Log, None)),
        param("c.one_minus", float(0.9, 0.999, Scale::LogOneMinus, None)),
        param("d.stepped", float(0.1, 0.7, Scale::Linear, Some(0.2))),
        param("e.log_stepped", float(0.5, 8.0, Scale::Log, Some(0.5))),
        param("f.int", int(1, 10, Scale::Linear, None)),
        param("g.int_stepped", int(32, 256, Scale::Linear, Some(32))),
        param("h.int_log", int(1, 1000, Scale::Log, None)),
        param(
            "i.switch",
            Domain::Choice(vec![Value::Bool(false), Value::Bool(true)]),
        ),
        param(
            "j.text",
            Domain::Choice(vec![text("x"), text("y"), text("z")]),
        ),
    ]
}

fn history(space: &[SpaceParam], n: u32) -> History {
    let observations = (0..n).map(|number| {
        let params = super::Random.suggest(space, 99, number, &History::default());
        let state = match number % 5 {
            0 => TrialState::Failed,
            1 => TrialState::Running,
            _ => TrialState::Complete,
        };
        Observation {
            number: ConfigurationNumber(number),
            params,
            state,
            value: (state == TrialState::Complete).then(|| f64::from(number % 7)),
        }
    });
    History {
        observations: observations.collect(),
    }
}

fn stays_inside(sampler: &dyn Sampler) {
    let space = mixed_space();
    for seed in 0..3 {
        for number in 0..500 {
            let point = sampler.suggest(&space, seed, number, &History::default());
            assert_eq!(point.len(), space.len());
            for param in &space {
                let value = &point[&param.name];
                assert!(param.domain.contains(value), "{} = {value}", param.name);
            }
        }
    }
}

fn reaches_ends(sampler: &dyn Sampler) {
    let space = mixed_space();
    let points: Vec<_> = (0..2_000)
        .map(|number| sampler.suggest(&space, 5, number, &History::default()))
        .collect();
    for param in &space {
        let seen = |value: &Value| points.iter().any(|point| &point[&param.name] == value);
        match &param.domain {
            Domain::Choice(values) => assert!(values.iter().all(seen), "{}", param.name),
            // The rarest end, 1000 of a log range, has a mass of 7e-5 and may be missed.
            Domain::Int { high: 1000, .. } => assert!(seen(&Value::Int(1))),
            Domain::Int { low, high, .. } => {
                assert!(
                    seen(&Value::Int(*low)) && seen(&Value::Int(*high)),
                    "{}",
                    param.name
                );
            }
            Domain::Float {
                low,
                high,
                step: Some(_),
                ..
            } => {
                assert!(
                    seen(&Value::Float(*low)) && seen(&Value::Float(*high)),
                    "{}",
                    param.name
                );
            }
            // Of a continuum the outermost hundredths.
            Domain::Float {
                low,
                high,
                step: None,
                ..
            } => {
                let near = |end: f64| {
                    points.iter().any(|point| {
                        let value = point[&param.name].as_f64().unwrap();
                        (value - end).abs() < 0.01 * (high - low)
                    })
                };
                assert!(near(*low) && near(*high), "{}", param.name);
            }
        }
    }
}

fn is_deterministic(sampler: &dyn Sampler) {
    let space = mixed_space();
    let history = history(&space, 40);
    let all = |seed| -> Vec<Params> {
        (0..50)
            .map(|number| sampler.suggest(&space, seed, number, &history))
            .collect()
    };
    assert_eq!(all(17), all(17));
    assert_ne!(all(17), all(18), "the study's seed must matter");
    // Asked in another order, the answers are the same.
    let first = sampler.suggest(&space, 17, 0, &history);
    let _ = sampler.suggest(&space, 17, 49, &history);
    assert_eq!(sampler.suggest(&space, 17, 0, &history), first);
}

fn ignores_the_order_of_history(sampler: &dyn Sampler) {
    let space = mixed_space();
    let forward = history(&space, 40);
    let mut backward = forward.clone();
    backward.observations.reverse();
    let mut rotated = forward.clone();
    rotated.observations.rotate_left(13);
    for number in 60..80 {
        let point = sampler.suggest(&space, 3, number, &forward);
        assert_eq!(sampler.suggest(&space, 3, number, &backward), point);
        assert_eq!(sampler.suggest(&space, 3, number, &rotated), point);
    }
}

fn first_ten_differ(sampler: &dyn Sampler) {
    let space = mixed_space();
    for seed in 0..20 {
        let points: BTreeSet<_> = (0..10)
            .map(|number| {
                let point = sampler.suggest(&space, seed, number, &History::default());
                serde_json::to_string(&point).unwrap()
            })
            .collect();
        assert_eq!(points.len(), 10, "seed {seed}");
    }
}

fn respects_conditions(sampler: &dyn Sampler) {
    let when = |name: &str, value| {
        Some(When {
            name: name.to_owned(),
            values: vec![value],
        })
    };
    let mut space = vec![
        param(
            "a.on",
            Domain::Choice(vec![Value::Bool(false), Value::Bool(true)]),
        ),
        param("b.depth", int(1, 2, Scale::Linear, None)),
        param("c.width", int(1, 100, Scale::Linear, None)),
        param("d.free", float(0.0, 1.0, Scale::Linear, None)),
    ];
    let unconditional = space.clone();
    space[1].when = when("a.on", Value::Bool(true));
    space[2].when = when("b.depth", Value::Int(2));
    let mut n_full = 0;
    for number in 0..200 {
        let point = sampler.suggest(&space, 7, number, &History::default());
        let is_on = point["a.on"] == Value::Bool(true);
        assert_eq!(point.contains_key("b.depth"), is_on);
        let is_deep = point.get("b.depth") == Some(&Value::Int(2));
        assert_eq!(point.contains_key("c.width"), is_deep);
        n_full += usize::from(is_deep);
        // What is dropped does not move what stays.
        let whole = sampler.suggest(&unconditional, 7, number, &History::default());
        assert_eq!(point["d.free"], whole["d.free"]);
    }
    // A quarter of 200 is expected; 20 is five standard deviations below.
    assert!(n_full > 20, "{n_full} of 200 points are full");
}

fn keeps_integers_exact(sampler: &dyn Sampler) {
    let top = i64::MAX - 2;
    let space = vec![
        param("a.top", int(top, i64::MAX, Scale::Linear, None)),
        param("b.all", int(i64::MIN, i64::MAX, Scale::Linear, None)),
        param(
            "c.stepped",
            int(i64::MIN, i64::MIN + 14, Scale::Linear, Some(7)),
        ),
        param("d.log", int(1, i64::MAX, Scale::Log, None)),
    ];
    let mut tops = BTreeSet::new();
    let mut steps = BTreeSet::new();
    let mut low_bits = BTreeSet::new();
    for number in 0..300 {
        let point = sampler.suggest(&space, 1, number, &History::default());
        for param in &space {
            assert!(param.domain.contains(&point[&param.name]));
        }
        tops.insert(point["a.top"].as_int().unwrap() - top);
        steps.insert(point["c.stepped"].as_int().unwrap().wrapping_sub(i64::MIN));
        low_bits.insert(point["b.all"].as_int().unwrap() & 0x3ff);
    }
    // A round trip through 53 bits would collapse these to one value each.
    assert_eq!(tops, BTreeSet::from([0, 1, 2]));
    assert_eq!(steps, BTreeSet::from([0, 7, 14]));
    // 300 draws of 1024 residues leave some 260 distinct ones.
    assert!(low_bits.len() > 200, "{} residues", low_bits.len());
}

/// Kolmogorov–Smirnov distance of the draws to the uniform law along each scale.
fn follows_scales(sampler: &dyn Sampler) {
    let space = mixed_space();
    let n = 2_000;
    let points: Vec<_> = (0..n)
        .map(|number| sampler.suggest(&space, 11, number, &History::default()))
        .collect();
    for param in &space {
        let Domain::Float {
            low,
            high,
            scale,
            step: None,
        } = param.domain
        else {
            continue;
        };
        let along = |x: f64| match scale {
            Scale::Linear => x,
            Scale::Log => x.ln(),
            Scale::LogOneMinus => -(-x).ln_1p(),
        };
        let mut shares: Vec<f64> = points
            .iter()
            .map(|point| point[&param.name].as_f64().unwrap())
            .map(|x| (along(x) - along(low)) / (along(high) - along(low)))
            .collect();
        shares.sort_by(f64::total_cmp);
        let distance = shares.iter().enumerate().map(|(at, share)| {
            let below = at as f64 / f64::from(n);
            (share - below)
                .abs()
                .max((share - below - 1.0 / f64::from(n)).abs())
        });
        let distance = distance.fold(0.0, f64::max);
        // The 99.9 % quantile of the statistic is 1.95 / √n; the seed is fixed.
        assert!(
            distance < 1.95 / f64::from(n).sqrt(),
            "{}: {distance}",
            param.name
        );
    }
}

/// Every cell of a linear grid is as likely as any other, the ends included.
fn counts_grid_cells(sampler: &dyn Sampler) {
    let space = mixed_space();
    let n = 4_000;
    for name in ["d.stepped", "f.int", "g.int_stepped", "j.text"] {
        let mut counts = std::collections::BTreeMap::new();
        for number in 0..n {
            let point = sampler.suggest(&space, 23, number, &History::default());
            *counts.entry(point[name].to_string()).or_insert(0_u32) += 1;
        }
        let expected = f64::from(n) / counts.len() as f64;
        for (value, count) in counts {
            // Five standard deviations of a binomial count, rounded up.
            let slack = 5.0 * expected.sqrt();
            assert!(
                (f64::from(count) - expected).abs() < slack,
                "{name} = {value}: {count} of {n}"
            );
        }
    }
}
