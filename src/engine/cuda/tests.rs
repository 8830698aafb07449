//! What needs no device.

use super::testing::source_digest;

#[test]
fn no_gpu_is_an_error_and_no_panic() {
    // On a machine with a GPU this opens it; both answers are fine, a panic is not.
    let _ = super::devices();
}

#[test]
fn what_runs_on_gpus_is_what_passed_there() {
    let record = include_str!("../../../tests/gpu/passed.json");
    let record: serde_json::Value = serde_json::from_str(record).unwrap();
    assert_eq!(
        record["sources"],
        source_digest(),
        "kernels or the CUDA backend changed since tests/gpu passed on a device; run it there and \
         commit tests/gpu/passed.json"
    );
}
