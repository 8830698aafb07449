use super::*;
use crate::study::{Direction, Domain, Metric, ParamSchema, Params, Precision, Scale, Value, When};

/// A model with one parameter of each form.
fn toy() -> ModelSchema {
    let param = |name, legal, default| ParamSchema {
        name,
        legal,
        suggested: None,
        default,
        when: None,
        structural: false,
        off: None,
        spans_run: false,
        doc: "",
    };
    let float = |low, high| Domain::Float {
        low,
        high,
        scale: Scale::Linear,
        step: None,
    };
    let int = |low, high| Domain::Int {
        low,
        high,
        scale: Scale::Linear,
        step: None,
    };
    let switch = || Domain::Choice(vec![Value::Bool(false), Value::Bool(true)]);
    ModelSchema {
        kind: "toy",
        doc: "",
        params: vec![
            param("model.rate", float(0.0, 1.0), Value::Float(0.5)),
            ParamSchema {
                structural: true,
                ..param("model.width", int(1, 512), Value::Int(8))
            },
            ParamSchema {
                off: Some(Value::Float(0.0)),
                ..param("model.norm", float(0.0, 10.0), Value::Float(3.0))
            },
            param("model.gate", switch(), Value::Bool(true)),
            ParamSchema {
                when: Some(When {
                    name: "model.gate".to_owned(),
                    values: vec![Value::Bool(true)],
                }),
                ..param("model.gate_rate", float(0.0, 1.0), Value::Float(0.1))
            },
            ParamSchema {
                spans_run: true,
                ..param("train.warmup", float(0.0, 1.0), Value::Float(0.0))
            },
            param("train.size", int(1, i64::MAX), Value::Int(100)),
            param("train.size_max", int(1, i64::MAX), Value::Int(100)),
            param("train.steps", int(1, i64::MAX), Value::Int(96)),
            param("train.part", int(1, 256), Value::Int(8)),
        ],
        presets: vec![("big", vec![("model.width", Value::Int(256))])],
        at_most: vec![("train.size", "train.size_max")],
        multiple_of: vec![("train.steps", "train.part")],
    }
}

const BASE: &str = r#"
[study]
name = "toy"
seed = 17
[data]
source = "synthetic"
bars = 5_000
bar = "1d"
[split]
folds = 2
validation_bars = 500
holdout_bars = 500
[model]
kind = "toy"
[space]
"model.rate" = { float = [0.1, 0.9] }
[budget]
configurations = 8
epochs = 3
[sampler]
kind = "sobol"
"#;

fn read(text: &str) -> Result<StudySpec, Diagnostics> {
    parse(text, Path::new("sweeps/toy.toml"), &[toy()])
}

fn valid(text: &str) -> StudySpec {
    read(text).unwrap_or_else(|faults| panic!("{}", faults.render(false)))
}

/// Reads a file with faults and returns their titles.
fn faults(text: &str) -> Vec<String> {
    let faults = read(text).expect_err("the sweep has a fault");
    faults.items().iter().map(ToString::to_string).collect()
}

/// Reads a file that may have faults and returns their titles.
fn faults_or_none(text: &str) -> Vec<String> {
    let items = |faults: Diagnostics| faults.items().iter().map(ToString::to_string).collect();
    read(text).err().map(items).unwrap_or_default()
}

fn with(from: &str, to: &str) -> String {
    assert!(BASE.contains(from), "{from}");
    BASE.replace(from, to)
}

const SPACE: &str = "\"model.rate\" = { float = [0.1, 0.9] }";

#[test]
fn defaults_are_filled_in() {
    let spec = valid(BASE);
    assert_eq!(spec.objective.metric, Metric::ValidationSharpeLower);
    assert_eq!(spec.objective.direction, Direction::Maximize);
    assert_eq!(spec.objective.min_trades, 10);
    assert_eq!(spec.precision.arms, [Arm::Auto]);
    assert_eq!(Arm::Auto.resolve(Precision::F32), Precision::F32);
    assert_eq!(spec.market.capital, 1_000_000.0);
    assert_eq!(spec.market.cost.maker_fee_bp, 0.5);
    assert!(!spec.market.flatten, "daily bars are never flattened");
    assert_eq!(spec.scheduler.cohort, 16);
    assert_eq!(spec.executors.devices, Devices::Auto);
    assert_eq!(spec.split.purge_bars, None);
    assert_eq!(spec.budget.wall_s, None);
    let DataSource::Synthetic { rho, shuffled, .. } = spec.data.source else {
        panic!("the source is synthetic");
    };
    assert_eq!((rho, shuffled), (0.2, false));
    assert_eq!(spec.fixed.len(), toy().params.len() - 1);
    assert_eq!(spec.fixed["model.width"], Value::Int(8));
    assert_eq!(spec.n_trials(), 8);
}

#[test]
fn a_preset_yields_to_explicit_keys() {
    let preset = with("kind = \"toy\"", "kind = \"toy\"\npreset = \"big\"");
    assert_eq!(valid(&preset).fixed["model.width"], Value::Int(256));
    let explicit = preset.replace("preset = \"big\"", "preset = \"big\"\nwidth = 16");
    assert_eq!(valid(&explicit).fixed["model.width"], Value::Int(16));
}

#[test]
fn integers_serve_as_floats_but_floats_never_as_integers() {
    let spec = valid(&with("kind = \"toy\"", "kind = \"toy\"\nnorm = 1"));
    assert_eq!(spec.fixed["model.norm"], Value::Float(1.0));
    let titles = faults(&with("kind = \"toy\"", "kind = \"toy\"\nwidth = 16.0"));
    assert_eq!(titles, ["`model.width` must be an integer"]);
}

#[test]
fn integers_are_exact_in_64_bits() {
    let range = r#""train.size_max" = { int = [9_007_199_254_740_993, 9223372036854775807] }"#;
    let spec = valid(&with(SPACE, range));
    let domain = &spec.space[0].domain;
    // 2^53 + 1 has no double.
    assert!(matches!(
        domain,
        Domain::Int {
            low: 9_007_199_254_740_993,
            high: i64::MAX,
            ..
        }
    ));
}

#[test]
fn the_order_of_the_space_means_nothing() {
    let one = format!("{SPACE}\n\"model.norm\" = {{ float = [1, 2] }}");
    let other = format!("\"model.norm\" = {{ float = [1, 2] }}\n{SPACE}");
    let (one, other) = (valid(&with(SPACE, &one)), valid(&with(SPACE, &other)));
    assert_eq!(one, other);
    assert_eq!(digest(&one), digest(&other));
}

#[test]
fn a_part_that_may_be_off_is_structural() {
    let space = |range: &str| valid(&with(SPACE, &format!("\"model.norm\" = {range}"))).space;
    assert!(space("{ choice = [0, 3] }")[0].structural);
    assert!(!space("{ float = [1, 10], scale = \"log\" }")[0].structural);
    assert!(space("{ float = [0, 10] }")[0].structural);
    let both = "\"model.norm\" = { float = [0, 10] }\n\"model.width\" = { int = [8, 10] }";
    assert_eq!(valid(&with(SPACE, both)).n_structural_combinations(), 6);
}

#[test]
fn conditions_of_the_schema_are_taken_over_where_they_can_fail() {
    let rate = "\"model.gate_rate\" = { float = [0.1, 0.2] }";
    assert_eq!(valid(&with(SPACE, rate)).space[0].when, None);
    let gated = format!("{rate}\n\"model.gate\" = {{ choice = [true, false] }}");
    let spec = valid(&with(SPACE, &gated));
    let when = spec
        .space
        .iter()
        .find_map(|param| param.when.clone())
        .unwrap();
    assert_eq!(
        (when.name.as_str(), when.values),
        ("model.gate", vec![Value::Bool(true)])
    );
    // Where the gate is shut, the default stands in.
    let sampled = Params::from([("model.gate".to_owned(), Value::Bool(false))]);
    let complete = spec.complete(&sampled);
    assert_eq!(complete["model.gate_rate"], Value::Float(0.1));
    assert_eq!(complete.len(), toy().params.len());
    let idle = with(
        "kind = \"toy\"",
        "kind = \"toy\"\ngate = false\ngate_rate = 0.2",
    );
    assert_eq!(faults(&idle), ["`model.gate_rate` does nothing here"]);
}

#[test]
fn an_enqueued_point_may_leave_parameters_out() {
    let both =
        format!("{SPACE}\n\"model.norm\" = {{ float = [1, 2] }}\n[[enqueue]]\n\"model.norm\" = 1");
    let spec = valid(&with(SPACE, &both));
    let expected = Params::from([("model.norm".to_owned(), Value::Float(1.0))]);
    assert_eq!(spec.enqueue, [expected]);
}

#[test]
fn bounds_between_parameters_hold_for_every_point() {
    let titles = faults(&with(SPACE, "\"train.size\" = { int = [10, 101] }"));
    assert_eq!(titles, ["`train.size` may exceed `train.size_max`"]);
    valid(&with(SPACE, "\"train.size\" = { int = [10, 100] }"));
    let titles = faults(&with(SPACE, "\"train.size_max\" = { choice = [500, 99] }"));
    assert_eq!(titles, ["`train.size` may exceed `train.size_max`"]);
}

#[test]
fn multiples_hold_for_every_point() {
    let title = "`train.steps` must be a multiple of `train.part`";
    for (param, n_faults) in [
        ("\"train.steps\" = { choice = [104, 112] }", 0),
        ("\"train.steps\" = { choice = [104, 113] }", 1),
        ("\"train.steps\" = { int = [104, 120], step = 8 }", 0),
        ("\"train.steps\" = { int = [104, 120], step = 4 }", 1),
        ("\"train.steps\" = { int = [100, 116], step = 8 }", 1),
        ("\"train.part\" = { choice = [2, 48] }", 0),
        ("\"train.part\" = { int = [1, 5] }", 1),
    ] {
        let found = faults_or_none(&with(SPACE, param));
        assert_eq!(found, vec![title; n_faults], "{param}");
    }
}

#[test]
fn sobol_refuses_what_its_sequence_does_not_have() {
    let many = with("configurations = 8", "configurations = 65_537");
    assert_eq!(faults(&many), ["sampler `sobol` has 65536 points"]);
    valid(&many.replace("sobol", "random"));
    valid(&with("configurations = 8", "configurations = 65_536"));
}

#[test]
fn names_follow_the_file_and_may_end_in_a_date() {
    let name = |name: &str| with("name = \"toy\"", &format!("name = \"{name}\""));
    assert_eq!(valid(&name("toy_{date}")).name, "toy_{date}");
    assert_eq!(expand_date("toy_{date}", "2026-11-30"), "toy_2026-11-30");
    assert_eq!(expand_date("toy", "2026-11-30"), "toy");
    valid(&name("toy{date}"));
    for wrong in [
        "other",
        "{date}_toy",
        "to y",
        "",
        "toy_{day}",
        "toy/../x",
        "tøy",
    ] {
        assert_eq!(faults(&name(wrong)).len(), 1, "{wrong}");
    }
}

#[test]
fn durations_add_up() {
    let seconds = ["8h", "30m", "90s", "1h30m", "1d2h3m4s"].map(running::duration_s);
    let expected = [28_800, 1_800, 90, 5_400, 93_784].map(Some);
    assert_eq!(seconds, expected);
    for wrong in [
        "",
        "8",
        "h",
        "8 h",
        "0s",
        "30m1h",
        "1h1h",
        "-1h",
        "1.5h",
        "99999999999999999999h",
        "1ħ",
    ] {
        assert_eq!(running::duration_s(wrong), None, "{wrong}");
    }
}

#[test]
fn bars_a_year_are_as_published() {
    let per_year = |bar: &str, calendar: &str| {
        let data = format!("bar = \"{bar}\"\ncalendar = {calendar}");
        valid(&with("bar = \"1d\"", &data)).data.bars_per_year()
    };
    assert_eq!(per_year("1d", "\"us_equity\""), 252.0);
    assert_eq!(per_year("1m", "\"us_equity\""), 98_280.0);
    assert_eq!(per_year("5m", "\"us_equity\""), 19_656.0);
    let custom = "{ custom = { bars_per_year = 8_760 } }";
    assert_eq!(per_year("1h", custom), 8_760.0);
}

#[test]
fn paths_are_relative_to_the_sweep() {
    let text = with(
        "source = \"synthetic\"\nbars = 5_000",
        "source = \"csv\"\npath = \"data/x.csv\"",
    );
    let source = valid(&text).data.source;
    let path = source.path_from(Path::new("sweeps/toy.toml"));
    assert_eq!(path.as_deref(), Some(Path::new("sweeps/data/x.csv")));
}

#[test]
fn auto_beside_the_arm_it_may_become_is_refused() {
    let arms = |arms: &str| format!("{BASE}\n[precision]\narms = {arms}\n");
    let spec = valid(&arms("[\"auto\", \"tf32\"]"));
    let resolved = spec.arms(Precision::F32);
    assert_eq!(resolved, [Precision::F32, Precision::Tf32]);
    for wrong in [
        "[\"auto\", \"f32\"]",
        "[\"bf16\", \"auto\"]",
        "[\"f32\", \"f32\"]",
        "[]",
    ] {
        assert_eq!(faults(&arms(wrong)).len(), 1, "{wrong}");
    }
}

#[test]
fn positions_count_lines_and_characters_from_one() {
    let text = with("seed = 17", "seed = 17\n\"é\" = \"é\"  \r");
    let faults = read(&text).unwrap_err();
    assert_eq!(faults.items().len(), 1);
    assert_eq!(faults.position(&faults.items()[0]), (5, 1));
    assert_eq!(
        faults.to_string(),
        "sweeps/toy.toml is not a valid sweep: 1 error(s)"
    );
}

#[test]
fn a_spec_survives_json() {
    let text = format!("{BASE}\n[[enqueue]]\n\"model.rate\" = 0.1\n")
        .replace("seed = 17", "seed = 9223372036854775807");
    let csv = text.replace(
        "source = \"synthetic\"\nbars = 5_000",
        "source = \"csv\"\npath = \"x.csv\"\ncolumns = { close = \"Adj Close\" }",
    );
    assert_ne!(csv, text);
    for text in [text, csv] {
        let spec = valid(&text);
        let json = serde_json::to_string(&spec).unwrap();
        assert_eq!(serde_json::from_str::<StudySpec>(&json).unwrap(), spec);
    }
}

/// Names of the changes, with an exclamation mark where one is refused.
fn changed(old: &str, new: &str) -> Vec<String> {
    let (old, new) = (valid(old), valid(new));
    let marks = changes(&old, &new).into_iter();
    let marks =
        marks.map(|change| format!("{}{}", change.key, if change.allowed { "" } else { "!" }));
    let marks: Vec<_> = marks.collect();
    if marks.iter().any(|mark| mark.ends_with('!')) {
        assert_ne!(digest(&old), digest(&new));
    }
    marks
}

#[test]
fn budget_and_executors_may_change_and_nothing_else() {
    assert!(changed(BASE, BASE).is_empty());
    let larger = BASE
        .replace("configurations = 8", "configurations = 16\nwall = \"1h\"")
        .replace("epochs = 3", "epochs = 5")
        + "[executors]\nlanes = 4\n";
    assert_eq!(
        changed(BASE, &larger),
        [
            "budget.configurations",
            "budget.epochs",
            "budget.wall_s",
            "executors.lanes"
        ]
    );
    assert_eq!(digest(&valid(BASE)), digest(&valid(&larger)));
    for (from, to, key) in [
        ("seed = 17", "seed = 18", "seed"),
        ("bars = 5_000", "bars = 6_000", "data.bars"),
        ("folds = 2", "folds = 3", "split.folds"),
        ("[0.1, 0.9]", "[0.1, 0.8]", "model.rate"),
        ("kind = \"toy\"", "kind = \"toy\"\nwidth = 9", "model.width"),
        ("\"sobol\"", "\"random\"", "sampler"),
    ] {
        assert_eq!(changed(BASE, &with(from, to)), [format!("{key}!")]);
    }
    let fixed = with(SPACE, "\"model.norm\" = { float = [1, 2] }");
    let refused = changed(BASE, &fixed);
    assert_eq!(refused, ["model.norm!", "model.rate!"]);
}

fn devices(value: &str) -> String {
    format!("{BASE}[executors]\ndevices = {value}\n")
}

#[test]
fn devices_are_named_by_number_or_uuid() {
    let read = |value: &str| valid(&devices(value)).executors.devices;
    assert_eq!(read("\"auto\""), Devices::Auto);
    assert_eq!(read("\"cpu\""), Devices::Cpu);
    assert_eq!(read("[\"cpu\"]"), Devices::Cpu);
    let gpus = |names: &[&str]| Devices::Gpus(names.iter().map(|n| (*n).to_owned()).collect());
    assert_eq!(read("\"cuda:0\""), gpus(&["cuda:0"]));
    let uuid = "GPU-0a1b2c3d-0000-1111-2222-333344445555";
    let both = read(&format!("[\"cuda:12\", \"{uuid}\"]"));
    assert_eq!(both, gpus(&["cuda:12", uuid]));
    for (value, title) in [
        ("[]", "`executors.devices` is empty"),
        (
            "[\"cuda:0\", \"cuda:1\", \"cuda:0\"]",
            "`executors.devices` must name each device once",
        ),
        (
            "[\"cuda:0\", \"cpu\"]",
            "`executors.devices` may not mix the CPU with GPUs",
        ),
        ("[\"auto\"]", "unknown device `auto`"),
        ("\"cuda\"", "unknown device `cuda`"),
        ("\"cuda:00\"", "unknown device `cuda:00`"),
        ("\"GPU-\"", "unknown device `GPU-`"),
        ("[\"gpu0\"]", "unknown device `gpu0`"),
    ] {
        assert_eq!(faults(&devices(value)), [title]);
    }
}

#[test]
fn a_study_may_go_on_on_other_devices() {
    let (cpu, gpus) = (devices("\"cpu\""), devices("[\"cuda:0\", \"cuda:1\"]"));
    assert_eq!(changed(&cpu, &gpus), ["executors.devices"]);
    assert_eq!(digest(&valid(&cpu)), digest(&valid(&gpus)));
}

#[test]
fn epochs_stay_where_a_schedule_is_a_fraction_of_the_run() {
    let scheduled = format!("{BASE}[train]\nwarmup = 0.1\n");
    assert_eq!(valid(&scheduled).spans_run.as_deref(), Some("train.warmup"));
    let longer = scheduled.replace("epochs = 3", "epochs = 5");
    assert_eq!(changed(&scheduled, &longer), ["budget.epochs!"]);
    let searched = with(SPACE, "\"train.warmup\" = { choice = [0, 0.1] }");
    assert!(valid(&searched).spans_run.is_some());
}

#[test]
fn choice_lists_may_grow_at_their_end() {
    let widths = |list: &str| with(SPACE, &format!("\"model.width\" = {{ choice = {list} }}"));
    let old = widths("[8, 16]");
    assert_eq!(changed(&old, &widths("[8, 16, 32]")), ["model.width"]);
    for refused in ["[8]", "[16, 8]", "[32, 8, 16]"] {
        assert_eq!(changed(&old, &widths(refused)), ["model.width!"]);
    }
}

#[test]
fn several_faults_are_found_in_one_pass() {
    let text = BASE
        .replace("seed = 17", "seed = 1.5")
        .replace("folds = 2", "fold = 2")
        .replace("\"sobol\"", "\"tpe\"");
    assert_eq!(
        faults(&text),
        [
            "`study.seed` must be an integer",
            "`split.folds` is missing",
            "unknown key `split.fold`",
            "sampler `tpe` is not yet supported",
        ]
    );
}

#[test]
fn a_point_may_not_set_what_its_own_condition_switches_off() {
    let space = format!(
        "{SPACE}\n\"model.gate\" = {{ choice = [true, false] }}\n\
         \"model.gate_rate\" = {{ float = [0.1, 0.2] }}\n[[enqueue]]\n\"model.gate_rate\" = 0.1\n"
    );
    let point = |gate: &str| with(SPACE, &format!("{space}{gate}"));
    let idle = ["`model.gate_rate` does nothing in this point"];
    assert_eq!(faults(&point("")), idle);
    assert_eq!(faults(&point("\"model.gate\" = false")), idle);
    valid(&point("\"model.gate\" = true"));
}

#[test]
fn one_fault_causes_no_second() {
    // The range is faulty, so neither its condition, its point nor the empty space is judged.
    let space = "\"model.gate\" = { choice = [] }\n\
                 \"model.rate\" = { float = [0.1, 0.9], when = { \"model.gate\" = [true] } }\n\
                 [[enqueue]]\n\"model.gate\" = true";
    assert_eq!(
        faults(&with(SPACE, space)),
        ["the choices of `model.gate` are empty"]
    );
    let inverted = with("[0.1, 0.9]", "[0.9, 0.1]");
    assert_eq!(faults(&inverted), ["the range of `model.rate` is inverted"]);
}

#[test]
fn deep_nesting_is_a_fault_and_no_overflow() {
    for opening in ["[", "{a=", "a."] {
        let text = format!("x = {}", opening.repeat(100_000));
        assert!(!faults(&text).is_empty());
    }
}
