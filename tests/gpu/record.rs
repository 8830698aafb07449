//! The record of what passed on a device.

use hyperopt::engine::backend::Backend;
use hyperopt::engine::cuda;
use std::path::Path;

/// Writes `tests/gpu/passed.json`.
pub(crate) fn write(gpu: &dyn Backend, passed: &[&str]) {
    let record = serde_json::json!({
        "sources": cuda::testing::source_digest(),
        "device": gpu.class(),
        "driver": gpu.driver(),
        "date": chrono::Utc::now().format("%Y-%m-%d").to_string(),
        "passed": passed,
    });
    let folder = std::env::var_os("OUT").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/gpu"),
        std::path::PathBuf::from,
    );
    let text = serde_json::to_string_pretty(&record).unwrap() + "\n";
    std::fs::write(folder.join("passed.json"), text).unwrap();
}
