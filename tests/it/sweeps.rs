//! Sweep files: those shipped are valid, malformed ones are explained, none makes us panic.

use hyperopt::models;
use hyperopt::spec::{self, StudySpec};
use hyperopt::study::{Domain, ModelSchema, Params, Scale, Value};
use proptest::prelude::*;
use std::fs;
use std::path::{Path, PathBuf};

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn toml_files(name: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder(name)).expect("the folder is part of the repository");
    let mut files: Vec<_> = entries
        .map(|entry| entry.expect("the folder is readable").path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "toml"))
        .collect();
    files.sort();
    files
}

#[test]
fn every_shipped_sweep_is_valid() {
    let files = toml_files("sweeps");
    assert!(!files.is_empty());
    for path in files {
        let text = fs::read_to_string(&path).unwrap();
        let spec = spec::parse(&text, &path, &models::catalogue())
            .unwrap_or_else(|faults| panic!("{}", faults.render(false)));
        if let Some(data) = spec.data.source.path_from(&path) {
            assert!(data.is_file(), "{} is not shipped", data.display());
        }
        let mut lines = text.lines();
        for opening in ["# Asks: ", "# Expects: ", "# Costs: "] {
            let mut comments = lines.by_ref().take_while(|line| line.starts_with('#'));
            assert!(
                comments.any(|line| line.starts_with(opening)),
                "{} opens with `{opening}`",
                path.display()
            );
        }
    }
}

#[test]
fn malformed_sweeps_are_explained() {
    let files = toml_files("tests/data/sweep_bad");
    assert!(files.len() >= 10);
    for path in files {
        let text = fs::read_to_string(&path).unwrap();
        let shown = Path::new(path.file_name().unwrap());
        let faults = spec::parse(&text, shown, &models::catalogue())
            .expect_err("the file is malformed on purpose");
        let stem = path.file_stem().unwrap().to_str().unwrap();
        insta::with_settings!({
            snapshot_path => folder("tests/golden/sweep_bad"),
            prepend_module_to_snapshot => false,
            omit_expression => true,
        }, {
            insta::assert_snapshot!(stem, faults.render(false));
        });
        // Colours change nothing but the colours.
        assert!(faults.render(true).len() > faults.render(false).len());
    }
}

fn quickstart() -> String {
    fs::read_to_string(folder("sweeps/quickstart.toml")).expect("the sweep is shipped")
}

fn parse(text: &str) -> Result<StudySpec, spec::Diagnostics> {
    spec::parse(text, Path::new("quickstart.toml"), &models::catalogue())
}

/// A part of a legal domain, from two shares in [0, 1] of it.
fn part_of(legal: &Domain, from: f64, to: f64, is_log: bool) -> Option<Domain> {
    let (from, to) = (from.min(to), from.max(to));
    match legal {
        Domain::Float { low, high, .. } => {
            let at = |share: f64| low + share * (high - low);
            let scale = if is_log && at(from) > 0.0 {
                Scale::Log
            } else {
                Scale::Linear
            };
            (at(from) < at(to)).then(|| Domain::Float {
                low: at(from),
                high: at(to),
                scale,
                step: None,
            })
        }
        Domain::Int {
            low, high, step, ..
        } => {
            let cell = step.unwrap_or(1);
            let n_cells = (high - low) / cell;
            let at = |share: f64| low + (share * n_cells as f64) as i64 * cell;
            (at(from) < at(to)).then(|| Domain::Int {
                low: at(from),
                high: at(to),
                scale: Scale::Linear,
                step: *step,
            })
        }
        Domain::Choice(values) => Some(Domain::Choice(values.clone())),
    }
}

/// Searches a share of the parameters that are not bound to another one, over random parts of their range.
fn searched(spec: &mut StudySpec, schema: &ModelSchema, shares: &[(f64, f64, u8)]) {
    let bounds = || schema.at_most.iter().chain(&schema.multiple_of);
    let is_free = |name: &str| bounds().all(|(a, b)| *a != name && *b != name);
    let plain = |name: &str| name != "train.risk_lambda" && name != "train.reward";
    spec.space.clear();
    spec.fixed = schema
        .params
        .iter()
        .map(|param| (param.name.to_owned(), param.default.clone()))
        .collect();
    let free = schema
        .params
        .iter()
        .filter(|p| is_free(p.name) && plain(p.name));
    for (param, (from, to, form)) in free.zip(shares.iter().cycle()) {
        let Some(domain) = part_of(&param.legal, *from, *to, form % 2 == 0) else {
            continue;
        };
        if form % 3 == 0 {
            let value = match &domain {
                Domain::Float { low, .. } => Value::Float(*low),
                Domain::Int { low, .. } => Value::Int(*low),
                Domain::Choice(values) => values[0].clone(),
            };
            spec.fixed.insert(param.name.to_owned(), value);
            continue;
        }
        spec.fixed.remove(param.name);
        let is_switch = param.off.as_ref().is_some_and(|off| domain.contains(off));
        spec.space.push(spec::SpaceParam {
            name: param.name.to_owned(),
            structural: param.structural || is_switch,
            domain,
            when: None,
            default: param.default.clone(),
        });
    }
    spec.space.sort_by(|a, b| a.name.cmp(&b.name));
    let spans = schema.params.iter().find(|param| {
        param.spans_run && spec.fixed.get(param.name).and_then(Value::as_f64) != Some(0.0)
    });
    spec.spans_run = spans.map(|param| param.name.to_owned());
    spec.enqueue = spec.space.first().map_or(Vec::new(), |param| {
        let value = match &param.domain {
            Domain::Float { high, .. } => Value::Float(*high),
            Domain::Int { high, .. } => Value::Int(*high),
            Domain::Choice(values) => values[0].clone(),
        };
        vec![Params::from([(param.name.clone(), value)])]
    });
    if spec.space.is_empty() {
        spec.budget.configurations = 1;
    }
}

proptest! {
    #[test]
    fn a_rendered_spec_reads_back_the_same(
        seed in 0..i64::MAX as u64,
        shares in prop::collection::vec((0.0..1.0_f64, 0.0..1.0_f64, any::<u8>()), 1..30),
        counts in (2_u32..64, 2_u32..1_000_000, 1_u32..60_000, 1_u32..1_000_000),
        costs in (0.0..100.0_f64, 0.0..100.0_f64, 0.0..10.0_f64),
        wall_s in prop::option::of(1_u64..1_000_000),
        lanes in prop::option::of(1_u32..4_000),
        purge_bars in prop::option::of(2_u32..1_000),
        path in "[ -~é]{1,20}",
    ) {
        let schema = models::catalogue().remove(0);
        let mut spec = parse(&quickstart()).unwrap();
        spec.seed = seed;
        spec.split.folds = counts.0;
        spec.split.validation_bars = counts.1;
        spec.split.purge_bars = purge_bars;
        spec.budget.configurations = counts.2;
        spec.budget.epochs = counts.3;
        spec.budget.wall_s = wall_s;
        spec.executors.lanes = lanes;
        spec.market.cost.fee_bp = costs.0;
        spec.market.cost.maker_fee_bp = costs.1;
        spec.market.cost.impact = costs.2;
        spec.data.source = spec::DataSource::Csv {
            path: path.clone(),
            columns: [("close".to_owned(), path)].into(),
        };
        searched(&mut spec, &schema, &shares);
        let text = spec::render(&spec, &schema);
        let back = parse(&text);
        let back = back.map_err(|faults| {
            TestCaseError::fail(format!("{text}\n{}", faults.render(false)))
        })?;
        prop_assert_eq!(&back, &spec);
        prop_assert_eq!(spec::digest(&back), spec::digest(&spec));
    }

    #[test]
    fn any_text_is_read_without_a_panic(text in "(?s).{0,200}") {
        if let Err(faults) = parse(&text) {
            prop_assert!(!faults.render(false).is_empty());
            prop_assert!(!faults.render(true).is_empty());
        }
    }

    #[test]
    fn any_damage_to_a_sweep_is_read_without_a_panic(
        file in any::<prop::sample::Index>(),
        at in any::<prop::sample::Index>(),
        n_cut in 0_usize..60,
        patch in "[\\[\\]{}=\",.#\\n\\r\u{feff}é0-9a-z_-]{0,8}",
    ) {
        let mut files = toml_files("sweeps");
        files.extend(toml_files("tests/data/sweep_bad"));
        let text = fs::read_to_string(file.get(&files)).unwrap();
        let start = at.index(text.len());
        let end = (start + n_cut).min(text.len());
        prop_assume!(text.is_char_boundary(start) && text.is_char_boundary(end));
        let damaged = format!("{}{patch}{}", &text[..start], &text[end..]);
        if let Err(faults) = parse(&damaged) {
            prop_assert!(!faults.items().is_empty());
            for item in faults.items() {
                let (line, column) = faults.position(item);
                prop_assert!(line >= 1 && column >= 1);
            }
            prop_assert!(!faults.render(false).is_empty());
        }
    }
}
