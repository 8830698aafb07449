use super::conformance::{check, float, int, mixed_space, param};
use super::*;
use crate::spec;
use crate::study::{ModelSchema, ParamSchema, Scale};
use proptest::prelude::*;
use std::path::Path;

#[test]
fn random_conforms() {
    check(&Random, true);
}

#[test]
fn sobol_conforms() {
    check(&Sobol, true);
}

#[test]
fn adding_a_parameter_leaves_random_values_as_they_were() {
    let space = mixed_space();
    let mut larger = space.clone();
    larger.insert(3, param("c.zz_new", float(0.0, 1.0, Scale::Linear, None)));
    for number in 0..20 {
        let before = Random.suggest(&space, 17, number, &History::default());
        let mut after = Random.suggest(&larger, 17, number, &History::default());
        after.remove("c.zz_new");
        assert_eq!(before, after);
    }
}

#[test]
fn sobol_points_fill_every_interval_once() {
    let space = [
        param("a", float(0.0, 1.0, Scale::Linear, None)),
        param("b", float(0.0, 1.0, Scale::Linear, None)),
    ];
    // The defining property: of 2^k points each of 2^k equal intervals holds one, per dimension.
    for seed in 0..5 {
        for name in ["a", "b"] {
            let mut cells: Vec<_> = (0..64)
                .map(|number| Sobol.suggest(&space, seed, number, &History::default()))
                .map(|point| (point[name].as_f64().unwrap() * 64.0) as u32)
                .collect();
            cells.sort_unstable();
            assert_eq!(cells, (0..64).collect::<Vec<_>>());
        }
    }
}

#[test]
fn sobol_serves_its_last_point_and_dimension() {
    let space: Vec<_> = (0..256)
        .map(|at| param(&format!("p{at:03}"), float(0.0, 1.0, Scale::Linear, None)))
        .collect();
    let point = Sobol.suggest(&space, 1, (1 << 16) - 1, &History::default());
    assert_eq!(point.len(), 256);
}

#[test]
fn words_map_to_ends_and_stay_monotone() {
    for domain in mixed_space().into_iter().map(|param| param.domain) {
        let (first, last) = match &domain {
            Domain::Float { low, high, .. } => (Value::Float(*low), Value::Float(*high)),
            Domain::Int { low, high, .. } => (Value::Int(*low), Value::Int(*high)),
            Domain::Choice(values) => (values[0].clone(), values[values.len() - 1].clone()),
        };
        assert_eq!(place::place(&domain, 0), first);
        assert_eq!(place::place(&domain, u64::MAX), last);
        let mut before = f64::NEG_INFINITY;
        for word in (0..200).map(|k| k * (u64::MAX / 199)) {
            let Some(value) = place::place(&domain, word).as_f64() else {
                continue;
            };
            assert!(before <= value, "{domain}");
            before = value;
        }
    }
}

proptest! {
    #[test]
    fn any_word_lands_on_any_integer_grid(
        low in any::<i64>(),
        n_cells in 1_i64..1_000_000,
        step in 1_i64..1_000_000,
        word in any::<u64>(),
    ) {
        prop_assume!(low.checked_add(n_cells * step).is_some());
        let high = low + n_cells * step;
        let linear = int(low, high, Scale::Linear, Some(step));
        prop_assert!(linear.contains(&place::place(&linear, word)));
        if low > 0 {
            let log = int(low, high, Scale::Log, Some(step));
            prop_assert!(log.contains(&place::place(&log, word)));
        }
    }

    #[test]
    fn any_word_lands_in_any_float_range(
        low in 1e-12..0.9_f64,
        width in 1e-9..0.09_f64,
        n_cells in 1_u32..1000,
        word in any::<u64>(),
    ) {
        let high = low + width;
        let step = width / f64::from(n_cells);
        for scale in [Scale::Linear, Scale::Log, Scale::LogOneMinus] {
            for step in [None, Some(step)] {
                let domain = float(low, high, scale, step);
                let value = place::place(&domain, word);
                prop_assert!(domain.contains(&value), "{value} in {domain}");
            }
        }
    }
}

/// A study of a small model with a gate, and two points to run first.
fn study(sampler: &str) -> StudySpec {
    let schema = |name, domain: Domain, default| ParamSchema {
        name,
        legal: domain,
        suggested: None,
        default,
        when: None,
        structural: false,
        off: None,
        spans_run: false,
        doc: "",
    };
    let switch = Domain::Choice(vec![Value::Bool(false), Value::Bool(true)]);
    let share = || float(0.0, 1.0, Scale::Linear, None);
    let toy = ModelSchema {
        kind: "toy",
        doc: "",
        params: vec![
            schema("model.gate", switch, Value::Bool(false)),
            schema("model.rate", share(), Value::Float(0.5)),
            schema("model.size", share(), Value::Float(0.5)),
        ],
        presets: Vec::new(),
        at_most: Vec::new(),
        multiple_of: Vec::new(),
    };
    let text = format!(
        r#"
        study = {{ name = "toy", seed = 17 }}
        data = {{ source = "synthetic", bars = 5000, bar = "1d" }}
        split = {{ folds = 2, validation_bars = 500, holdout_bars = 500 }}
        model = {{ kind = "toy" }}
        budget = {{ configurations = 64, epochs = 3 }}
        sampler = {{ kind = "{sampler}" }}
        enqueue = [{{ "model.gate" = true, "model.rate" = 0.125 }}, {{ "model.size" = 1 }}]
        [space]
        "model.gate" = {{ choice = [true, false] }}
        "model.rate" = {{ float = [0, 1], when = {{ "model.gate" = [true] }} }}
        "model.size" = {{ float = [0, 1] }}
        "#
    );
    spec::parse(&text, Path::new("toy.toml"), &[toy]).expect("the sweep is valid")
}

#[test]
fn enqueued_points_come_first_and_once() {
    for kind in ["random", "sobol"] {
        let spec = study(kind);
        let at = |number| propose(&spec, ConfigurationNumber(number), &History::default());
        let plain = |number| {
            let sampler = sampler(spec.sampler);
            sampler.suggest(&spec.space, spec.seed, number, &History::default())
        };
        assert_eq!(at(0)["model.gate"], Value::Bool(true));
        assert_eq!(at(0)["model.rate"], Value::Float(0.125));
        // What a point leaves out is what the sampler says there.
        assert_eq!(at(0)["model.size"], plain(0)["model.size"]);
        assert_eq!(at(1)["model.size"], Value::Float(1.0));
        assert_eq!(at(1)["model.gate"], plain(1)["model.gate"]);
        for number in 2..64 {
            assert_eq!(at(number), plain(number));
            assert_ne!(at(number)["model.size"], Value::Float(1.0));
        }
    }
}
