//! From the names of a sweep file to devices of this machine.
//!
//! # Invariants
//! - The devices of a study are of one class, so that no result depends on where a trial ran.

use super::error::CliError;
use super::setup;
use crate::engine::backend::Backend;
use crate::engine::graph::DType;
use crate::engine::host;
use crate::executor::PoolDevice;
use crate::spec::Devices;
use crate::study::Precision;
use std::collections::BTreeSet;
use std::sync::Arc;

/// A device of any kind.
pub(super) type Device = Arc<dyn Backend>;

/// Resolves what a sweep names to devices of one class, in the order of the file.
///
/// # Errors
/// [`CliError::Device`] for what is not there, [`CliError::DeviceClasses`] if they differ,
/// [`CliError::Gpus`] if GPUs are named and do not work.
pub(super) fn resolve(wanted: &Devices) -> Result<Vec<Device>, CliError> {
    match wanted {
        Devices::Cpu => Ok(vec![setup::cpu()]),
        Devices::Auto => Ok(best(setup::gpus().unwrap_or_else(|cause| {
            // What works is used; `hyperopt doctor` says how to mend the rest.
            tracing::warn!(cause, "there is a GPU, and it cannot be used");
            Vec::new()
        }))),
        Devices::Gpus(names) => {
            let gpus = setup::gpus().map_err(|cause| CliError::Gpus { cause })?;
            named(names, &gpus)
        }
    }
}

/// The devices of the best class; the CPU where there is no GPU.
///
/// Best is the highest compute capability, then the largest memory, then the first.
fn best(gpus: Vec<Device>) -> Vec<Device> {
    let rank = |gpu: &Device| {
        let memory = gpu.memory().map_or(0, |memory| memory.total_bytes);
        (gpu.info().compute_capability, memory)
    };
    let first_best = gpus.iter().rev().max_by_key(|gpu| rank(gpu));
    let Some(class) = first_best.map(|gpu| gpu.class()) else {
        return vec![setup::cpu()];
    };
    let mut gpus = gpus;
    gpus.retain(|gpu| gpu.class() == class);
    gpus
}

/// Finds devices by number or UUID.
fn named(names: &[String], gpus: &[Device]) -> Result<Vec<Device>, CliError> {
    let mut found: Vec<Device> = Vec::new();
    for name in names {
        let is_it = |gpu: &&Device| {
            let info = gpu.info();
            let is_uuid = |uuid: &String| uuid.eq_ignore_ascii_case(name);
            info.id == *name || info.uuid.as_ref().is_some_and(is_uuid)
        };
        let Some(gpu) = gpus.iter().find(is_it) else {
            return Err(CliError::Device {
                device: name.clone(),
                known: known(gpus),
            });
        };
        // A number and a UUID may be the same device.
        if !found.iter().any(|other| Arc::ptr_eq(other, gpu)) {
            found.push(gpu.clone());
        }
    }
    let classes: BTreeSet<String> = found.iter().map(|gpu| gpu.class()).collect();
    if classes.len() > 1 {
        let classes = classes.into_iter().collect::<Vec<_>>().join(", ");
        return Err(CliError::DeviceClasses { classes });
    }
    Ok(found)
}

/// Names what there is.
fn known(gpus: &[Device]) -> String {
    let name = |gpu: &Device| {
        let info = gpu.info();
        let uuid = info
            .uuid
            .map_or_else(String::new, |uuid| format!(", {uuid}"));
        format!("{} ({}{uuid})", info.id, gpu.device())
    };
    let mut names = vec!["cpu".to_owned()];
    names.extend(gpus.iter().map(name));
    names.join(", ")
}

/// Gives each device its share of the memory that is free now.
///
/// - `memory_fraction`: share to use, of the device's memory or of the system's.
pub(super) fn pool_devices(devices: &[Device], memory_fraction: f64) -> Vec<PoolDevice> {
    let share = |device: &Device| {
        let memory = device.memory();
        let free_bytes = memory.map_or_else(host::memory_available_bytes, |m| m.free_bytes);
        PoolDevice {
            backend: device.clone(),
            memory_bytes_max: (free_bytes as f64 * memory_fraction) as u64,
        }
    };
    devices.iter().map(share).collect()
}

/// Says whether devices are GPUs.
pub(super) fn is_gpu(device: &dyn Backend) -> bool {
    device.info().compute_capability.is_some()
}

/// What the arm `"auto"` stands for on a device.
pub(super) fn auto_precision(device: &dyn Backend) -> Precision {
    match device.auto_precision() {
        DType::Bf16 => Precision::Bf16,
        DType::Tf32 => Precision::Tf32,
        DType::F32 | DType::F64 | DType::I32 => Precision::F32,
    }
}

/// Describes devices on one line: `2 × NVIDIA H200 (cuda:0, cuda:1)`.
pub(super) fn describe(devices: &[PoolDevice]) -> String {
    let ids: Vec<String> = devices.iter().map(|d| d.backend.info().id).collect();
    let name = devices
        .first()
        .map_or_else(String::new, |d| d.backend.device());
    if ids == [name.clone()] {
        return name;
    }
    format!("{} × {name} ({})", ids.len(), ids.join(", "))
}

#[cfg(test)]
mod tests;
