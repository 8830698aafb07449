//! What this machine says of itself where a device has nothing of its own to say.

use sha2::{Digest, Sha256};
use std::fmt::Write as _;
use std::sync::OnceLock;

/// Returns the widest instruction set that the CPU's kernels use here: its "driver".
pub fn instruction_set() -> String {
    #[cfg(target_arch = "x86_64")]
    {
        for (name, found) in [
            ("avx512f", std::arch::is_x86_feature_detected!("avx512f")),
            ("avx2", std::arch::is_x86_feature_detected!("avx2")),
        ] {
            if found {
                return format!("x86_64 {name}");
            }
        }
    }
    std::env::consts::ARCH.to_owned()
}

/// Returns the digest of this program's own file, read once, as 64 hexadecimal digits: on the CPU
/// the kernels are part of it. `unknown` where the file cannot be read.
pub fn program_digest() -> &'static str {
    static DIGEST: OnceLock<String> = OnceLock::new();
    DIGEST.get_or_init(|| {
        let Ok(bytes) = std::env::current_exe().and_then(std::fs::read) else {
            return "unknown".to_owned();
        };
        let mut text = String::new();
        for byte in Sha256::digest(bytes) {
            let _ = write!(text, "{byte:02x}");
        }
        text
    })
}

/// Returns the bytes that new allocations may use: what the system has, or what a container's
/// limit leaves; as if there were no bound where neither says.
pub fn memory_available_bytes() -> u64 {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let text = read("/proc/meminfo");
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|line| {
        line.trim()
            .trim_end_matches("kB")
            .trim()
            .parse::<u64>()
            .ok()
    });
    let system = kib.map_or(u64::MAX, |kib| kib * 1024);
    let bytes = |path: &str| read(path).trim().parse::<u64>().ok();
    let limit = bytes("/sys/fs/cgroup/memory.max");
    let used = bytes("/sys/fs/cgroup/memory.current").unwrap_or(0);
    system.min(limit.map_or(u64::MAX, |limit| limit.saturating_sub(used)))
}
