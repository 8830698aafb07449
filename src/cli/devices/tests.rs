//! Names and devices.

use super::{Device, best, describe, named, pool_devices};
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::engine::backend::{Backend, DeviceInfo, DeviceMemory, EngineError, Session, Tables};
use crate::engine::cpu::Cpu;
use crate::engine::graph::DType;
use crate::engine::plan::Plan;
use crate::engine::program::Program;
use std::num::NonZeroUsize;
use std::sync::Arc;

/// A GPU that is one by name only.
struct Gpu {
    ordinal: u32,
    name: &'static str,
    major: u32,
    total_bytes: u64,
}

impl Backend for Gpu {
    fn device(&self) -> String {
        self.name.to_owned()
    }

    fn info(&self) -> DeviceInfo {
        DeviceInfo {
            id: format!("cuda:{}", self.ordinal),
            uuid: Some(format!("GPU-0000000{}", self.ordinal)),
            compute_capability: Some((self.major, 0)),
        }
    }

    fn memory(&self) -> Option<DeviceMemory> {
        Some(DeviceMemory {
            total_bytes: self.total_bytes,
            free_bytes: self.total_bytes / 2,
        })
    }

    fn is_emulated(&self, _: DType) -> bool {
        false
    }

    fn lower(&self, program: &Program) -> Plan {
        Cpu::<f32>::new(NonZeroUsize::MIN).lower(program)
    }

    fn open(&self, _: Arc<Plan>, _: &Tables, _: usize) -> Result<Box<dyn Session>, EngineError> {
        Err(EngineError::Device {
            device: self.device(),
            what: "opening".to_owned(),
            cause: "it is none".to_owned(),
            is_sticky: false,
        })
    }
}

fn gpu(ordinal: u32, name: &'static str, major: u32, total_bytes: u64) -> Device {
    Arc::new(Gpu {
        ordinal,
        name,
        major,
        total_bytes,
    })
}

/// An old one and two equal new ones, and one that is as new and smaller.
fn machine() -> Vec<Device> {
    vec![
        gpu(0, "old", 7, 1000),
        gpu(1, "large", 9, 800),
        gpu(2, "small", 9, 400),
        gpu(3, "large", 9, 800),
    ]
}

fn ids(devices: &[Device]) -> Vec<String> {
    devices.iter().map(|device| device.info().id).collect()
}

fn find(names: &[&str]) -> Result<Vec<Device>, CliError> {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    named(&names, &machine())
}

fn refused(names: &[&str]) -> CliError {
    match find(names) {
        Ok(found) => panic!("{:?}", ids(&found)),
        Err(error) => error,
    }
}

#[test]
fn auto_is_all_of_the_best_class_or_the_cpu() {
    assert_eq!(ids(&best(machine())), ["cuda:1", "cuda:3"]);
    assert_eq!(ids(&best(Vec::new())), ["cpu"]);
}

#[test]
fn names_are_numbers_and_uuids() {
    let found = find(&["cuda:3", "GPU-00000001"]).unwrap();
    assert_eq!(ids(&found), ["cuda:3", "cuda:1"]);
    let twice = find(&["cuda:2", "gpu-00000002"]).unwrap();
    assert_eq!(ids(&twice), ["cuda:2"], "one device by two names");
}

#[test]
fn what_is_not_there_is_told_with_what_is() {
    let error = refused(&["cuda:7"]);
    assert_eq!(error.exit(), Exit::Usage);
    let text = error.render();
    for part in ["cuda:7", "cpu", "cuda:1 (large, GPU-00000001)", "doctor"] {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn classes_do_not_mix() {
    let error = refused(&["cuda:1", "cuda:2"]);
    assert_eq!(error.exit(), Exit::Usage);
    assert!(error.render().contains("large, small"));
}

#[test]
fn a_device_brings_its_own_memory() {
    let devices = pool_devices(&find(&["cuda:1", "cuda:3"]).unwrap(), 0.5);
    assert!(devices.iter().all(|device| device.memory_bytes_max == 200));
    assert_eq!(describe(&devices), "2 × large (cuda:1, cuda:3)");
    let cpu = pool_devices(&best(Vec::new()), 1e-3);
    assert!(cpu[0].memory_bytes_max > 0);
    assert_eq!(describe(&cpu), "cpu");
}
