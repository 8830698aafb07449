//! Sections about how a study is run: `[precision]`, `[budget]`, `[sampler]`, `[pruner]`,
//! `[scheduler]` and `[executors]`.

use super::cursor::{Item, Table};
use super::data::auto_or_count;
use super::diagnostic::Report;
use super::types::{
    Arm, BudgetSpec, Devices, EvaluateIn, ExecutorsSpec, PrecisionSpec, PrunerKind, SamplerKind,
    SchedulerSpec,
};

const ARMS: [(&str, Arm); 4] = [
    ("auto", Arm::Auto),
    ("f32", Arm::F32),
    ("tf32", Arm::Tf32),
    ("bf16", Arm::Bf16),
];

/// Samplers that later work adds.
const SAMPLERS_LATER: [&str; 6] = ["auto", "tpe", "gp", "cma_es", "grid", "nsga2"];

/// Pruners that later work adds.
const PRUNERS_LATER: [&str; 6] = ["median", "asha", "hyperband", "bohb", "wilcoxon", "pbt"];

pub(super) fn read_precision(mut table: Table<'_>, report: &mut Report) -> Option<PrecisionSpec> {
    let arms = table.or("arms", vec![Arm::Auto], |item| read_arms(item, report));
    let only_arm = match arms.as_deref() {
        Some([arm]) => Some(*arm),
        Some(_) | None => None,
    };
    let mut margin = |key, default, report: &mut Report| {
        let item: Option<Item<'_>> = table.get(key);
        let Some(item) = item else {
            return Some(default);
        };
        if only_arm.is_some() {
            let title = format!("`precision.{key}` does nothing with one arm");
            let help = "remove it, or add an arm to compare with";
            report.error(&item.key_span, title, "nothing is compared", help);
            return None;
        }
        item.float_in(1e-9..=100.0, report)
    };
    let margin_sharpe = margin("margin_sharpe", 0.05, report);
    let margin_time = margin("margin_time", 0.02, report);
    let evaluations = [("arm", EvaluateIn::Arm), ("f32", EvaluateIn::F32)];
    let evaluate_in = table.or("evaluate_in", EvaluateIn::Arm, |item| {
        let picked = item.pick("arithmetic", &evaluations, &[], report)?;
        if picked == EvaluateIn::F32 && only_arm == Some(Arm::F32) {
            let title = "`precision.evaluate_in` does nothing where every arm is f32";
            report.error(&item.key_span, title, "already so", "remove it");
            return None;
        }
        Some(picked)
    });
    table.finish(report);
    Some(PrecisionSpec {
        arms: arms?,
        margin_sharpe: margin_sharpe?,
        margin_time: margin_time?,
        evaluate_in: evaluate_in?,
    })
}

fn read_arms(item: &Item<'_>, report: &mut Report) -> Option<Vec<Arm>> {
    let items = item.list(report)?;
    if items.is_empty() {
        let title = "`precision.arms` is empty";
        let help = "write arms = [\"f32\"], or several to compare";
        report.error(&item.span(), title, "no arm", help);
        return None;
    }
    let mut arms = Vec::new();
    let mut valid = true;
    for item in &items {
        let Some(arm) = item.pick("precision arm", &ARMS, &[], report) else {
            valid = false;
            continue;
        };
        // On a device `auto` is f32 or bf16, so beside either it could be the same arm twice.
        let is_twin = |other: &Arm| match (*other, arm) {
            (Arm::Auto, Arm::F32 | Arm::Bf16) | (Arm::F32 | Arm::Bf16, Arm::Auto) => true,
            (other, arm) => other == arm,
        };
        if arms.iter().any(is_twin) {
            let title = "`precision.arms` must be distinct";
            let label = format!("\"{}\" may be there already", arm.as_str());
            report.error(&item.span(), title, label, "name each arm once");
            valid = false;
        }
        arms.push(arm);
    }
    valid.then_some(arms)
}

pub(super) fn read_budget(mut table: Table<'_>, report: &mut Report) -> Option<BudgetSpec> {
    let configurations = table.required("configurations", report);
    let configurations = configurations.and_then(|item| item.count(1..=10_000_000, report));
    let replicates = table.or("replicates", 1, |item| {
        let replicates = item.count(1..=1_000, report)?;
        if replicates > 1 {
            let title = "more than one replicate is not yet supported";
            let help = "write replicates = 1, or leave it out";
            report.error(&item.span(), title, "not yet supported", help);
            return None;
        }
        Some(replicates)
    });
    let epochs = table.required("epochs", report);
    let epochs = epochs.and_then(|item| item.count(1..=1_000_000, report));
    let wall_s = table.or("wall", None, |item| read_duration(item, report).map(Some));
    table.finish(report);
    Some(BudgetSpec {
        configurations: configurations?,
        replicates: replicates?,
        epochs: epochs?,
        wall_s: wall_s?,
    })
}

fn read_duration(item: &Item<'_>, report: &mut Report) -> Option<u64> {
    let text = item.text(report)?;
    let seconds = duration_s(text);
    if seconds.is_none() {
        let title = format!("`{}` is not a duration", item.name);
        let help = "write for example \"8h\", \"1h30m\" or \"90s\"";
        report.error(&item.span(), title, "not a duration above zero", help);
    }
    seconds
}

/// Reads `8h`, `1h30m` or `90s`: days, hours, minutes, seconds, in this order, each at most once.
pub(super) fn duration_s(text: &str) -> Option<u64> {
    let mut units = [('d', 86_400), ('h', 3_600), ('m', 60), ('s', 1)].iter();
    let mut rest = text;
    let mut total = 0_u64;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let number: u64 = rest[..digits].parse().ok()?;
        let unit = rest[digits..].chars().next()?;
        let (_, seconds) = units.find(|(name, _)| *name == unit)?;
        total = total.checked_add(number.checked_mul(*seconds)?)?;
        rest = &rest[digits + unit.len_utf8()..];
    }
    // The store counts milliseconds in 64 bits.
    (total > 0 && total < 1 << 40).then_some(total)
}

pub(super) fn read_sampler(mut table: Table<'_>, report: &mut Report) -> Option<SamplerKind> {
    let kinds = [SamplerKind::Random, SamplerKind::Sobol].map(|kind| (kind.as_str(), kind));
    let kind = table.required("kind", report);
    let kind = kind.and_then(|item| item.pick("sampler", &kinds, &SAMPLERS_LATER, report));
    for key in ["block", "dedup"] {
        if let Some(item) = table.get_if_present(key) {
            let title = format!("`sampler.{key}` is not yet supported");
            let help = format!("remove `{key}`");
            report.error(&item.key_span, title, "not yet supported", help);
        }
    }
    table.finish(report);
    kind
}

pub(super) fn read_pruner(mut table: Table<'_>, report: &mut Report) -> Option<PrunerKind> {
    let kinds = [(PrunerKind::None.as_str(), PrunerKind::None)];
    let kind = table.or("kind", PrunerKind::None, |item| {
        item.pick("pruner", &kinds, &PRUNERS_LATER, report)
    });
    // The settings of a pruner that is not there yet are no faults of their own.
    if kind.is_some() {
        table.finish(report);
    }
    kind
}

pub(super) fn read_scheduler(mut table: Table<'_>, report: &mut Report) -> Option<SchedulerSpec> {
    let orders = [("cohort", ())];
    let order = table.or("order", (), |item| {
        item.pick("order", &orders, &["async"], report)
    });
    let cohort = table.or("cohort", 16, |item| item.count(1..=1_000_000, report));
    // Runs restart from their seed, which is always right; checkpoints would only save time.
    let checkpoint = table.get_if_present("checkpoint_s");
    if let Some(item) = &checkpoint {
        let title = "`scheduler.checkpoint_s` is not yet supported";
        let help = "remove it: an interrupted run starts again from its seed, to the same result";
        report.error(&item.key_span, title, "not yet supported", help);
    }
    table.finish(report);
    order?;
    if checkpoint.is_some() {
        return None;
    }
    Some(SchedulerSpec { cohort: cohort? })
}

pub(super) fn read_executors(mut table: Table<'_>, report: &mut Report) -> Option<ExecutorsSpec> {
    let devices = table.or("devices", Devices::Auto, |item| read_devices(item, report));
    let per_device = table.or("per_device", None, |item| {
        auto_or_count(item, 1..=64, report)
    });
    let lanes = table.or("lanes", None, |item| auto_or_count(item, 1..=4_096, report));
    let memory_fraction = table.or("memory_fraction", 0.9, |item| {
        item.float_in(0.01..=1.0, report)
    });
    let overlap = table.or("overlap", false, |item| item.boolean(report));
    table.finish(report);
    Some(ExecutorsSpec {
        devices: devices?,
        per_device: per_device?,
        lanes: lanes?,
        memory_fraction: memory_fraction?,
        overlap: overlap?,
    })
}

fn read_devices(item: &Item<'_>, report: &mut Report) -> Option<Devices> {
    if !item.is_array() {
        return match item.text(report)? {
            "auto" => Some(Devices::Auto),
            _ => match read_device(item, report)? {
                "cpu" => Some(Devices::Cpu),
                gpu => Some(Devices::Gpus(vec![gpu.to_owned()])),
            },
        };
    }
    let items = item.list(report)?;
    let names: Vec<_> = items.iter().map(|item| read_device(item, report)).collect();
    let names: Vec<&str> = names.into_iter().collect::<Option<_>>()?;
    if names == ["cpu"] {
        return Some(Devices::Cpu);
    }
    let is_twin = |i: usize| names[..i].contains(&names[i]);
    let (title, label, help) = if names.is_empty() {
        let help = "write \"auto\", \"cpu\", or a list such as [\"cuda:0\"]";
        ("`executors.devices` is empty", "no device", help)
    } else if (1..names.len()).any(is_twin) {
        let title = "`executors.devices` must name each device once";
        (title, "named twice", "remove the repetition")
    } else if names.contains(&"cpu") {
        let title = "`executors.devices` may not mix the CPU with GPUs";
        let help = "write \"cpu\", or GPUs alone: a result must not depend on where a trial ran";
        (title, "the last bits of their results differ", help)
    } else {
        let gpus = names.into_iter().map(str::to_owned).collect();
        return Some(Devices::Gpus(gpus));
    };
    report.error(&item.span(), title, label, help);
    None
}

/// Reads the name of one device: `cpu`, `cuda:0` or `GPU-…`.
fn read_device<'t>(item: &Item<'t>, report: &mut Report) -> Option<&'t str> {
    let text = item.text(report)?;
    let is_ordinal = text.strip_prefix("cuda:").is_some_and(|number| {
        // As the number is written, so that no device has two names.
        number.parse::<u16>().is_ok_and(|n| n.to_string() == number)
    });
    let is_uuid = text.strip_prefix("GPU-").is_some_and(|uuid| {
        !uuid.is_empty() && uuid.chars().all(|c| c == '-' || c.is_ascii_hexdigit())
    });
    if text == "cpu" || is_ordinal || is_uuid {
        return Some(text);
    }
    let title = format!("unknown device `{text}`");
    let help = "write `cpu`, a GPU's number as `cuda:0`, or its UUID as `GPU-…` (`hyperopt doctor` \
                lists them); `auto` stands alone";
    report.error(&item.span(), title, "not a device", help);
    None
}
