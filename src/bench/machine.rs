//! The machine: what it is, and how it feels while it works.
//!
//! Invariant: nothing is guessed. What the system does not tell is absent.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::result::{Peak, Since};

/// What a machine is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Machine {
    /// The processor's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<String>,
    /// Threads that the system runs at a time.
    pub logical_cores: usize,
    /// Threads that the kernels use unless told otherwise: one for each physical core.
    pub physical_cores: usize,
    /// Sizes of the first core's caches by name, such as `L2`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub caches: BTreeMap<String, String>,
    /// Bytes of memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// The system and its kernel.
    pub os: String,
    /// The kind of processor.
    pub architecture: String,
    /// Whether it is a virtual machine, as far as the processor says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub virtual_machine: Option<bool>,
    /// How the system chooses the processor's speed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub governor: Option<String>,
    /// Programs that wanted to run in the last minute, before anything was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_average: Option<f64>,
}

impl Machine {
    /// This one, now.
    pub fn here() -> Self {
        let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let field = |name: &str| {
            let line = info.lines().find(|line| line.split(':').next().is_some_and(|key| key.trim() == name))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        };
        Self {
            cpu: field("model name"),
            logical_cores: std::thread::available_parallelism().map_or(1, usize::from),
            physical_cores: candle_core::utils::get_num_threads().max(1),
            caches: caches(Path::new("/sys/devices/system/cpu/cpu0/cache")),
            memory_bytes: kilobytes("/proc/meminfo", "MemTotal:"),
            os: os(),
            architecture: std::env::consts::ARCH.to_owned(),
            virtual_machine: field("flags").map(|flags| flags.split_whitespace().any(|flag| flag == "hypervisor")),
            governor: line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
            load_average: line("/proc/loadavg").and_then(|text| text.split(' ').next()?.parse().ok()),
        }
    }

    /// Whether two are the same kind of machine: all but what changes from minute to minute.
    pub fn is_like(&self, other: &Self) -> bool {
        Self { load_average: None, ..self.clone() } == Self { load_average: None, ..other.clone() }
    }
}

fn os() -> String {
    let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let name = release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    let name = name.map_or(std::env::consts::OS, |name| name.trim_matches('"'));
    match line("/proc/sys/kernel/osrelease") {
        Some(kernel) => format!("{name}, {kernel}"),
        None => name.to_owned(),
    }
}

fn caches(folder: &Path) -> BTreeMap<String, String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let of = |folder: &Path| {
        let read = |name: &str| Some(fs::read_to_string(folder.join(name)).ok()?.trim().to_owned());
        let kind = match read("type")?.as_str() {
            "Data" => "d",
            "Instruction" => "i",
            _ => "",
        };
        Some((format!("L{}{kind}", read("level")?), read("size")?))
    };
    entries.filter_map(|entry| of(&entry.path())).collect()
}

/// The first line of a file.
fn line(path: &str) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.lines().next()?.trim().to_owned()).filter(|line| !line.is_empty())
}

/// A value in kB of a file of the system, in bytes.
fn kilobytes(path: &str, name: &str) -> Option<u64> {
    let text = fs::read_to_string(path).ok()?;
    let value = text.lines().find_map(|line| line.strip_prefix(name))?;
    value.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kilobytes| kilobytes * 1024)
}

/// Counters that only go up.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Pulse {
    /// How often a core or package was slowed down because it was hot.
    pub throttled: Option<u64>,
    /// Time that other guests of the same host took, and all time, in the system's ticks.
    pub stolen: Option<(u64, u64)>,
    /// Energy of each package, with where its counter begins anew, in microjoules.
    energy: Vec<(u64, u64)>,
}

impl Pulse {
    /// The counters now.
    pub fn now() -> Self {
        Self { throttled: throttled(), stolen: stolen(), energy: energy(Path::new("/sys/class/powercap")) }
    }

    /// Joules of all packages since `before`; `None` where the system does not tell.
    pub fn joules_since(&self, before: &Self) -> Option<f64> {
        if self.energy.is_empty() || self.energy.len() != before.energy.len() {
            return None;
        }
        let spent = self.energy.iter().zip(&before.energy).map(|((now, range), (then, _))| match now >= then {
            true => now - then,
            // The counter began anew.
            false => (range - then.min(range)) + now,
        });
        Some(spent.sum::<u64>() as f64 / 1e6)
    }
}

fn throttled() -> Option<u64> {
    let cpus = fs::read_dir("/sys/devices/system/cpu").ok()?.flatten();
    let count = |folder: &Path, name: &str| {
        fs::read_to_string(folder.join("thermal_throttle").join(name)).ok()?.trim().parse::<u64>().ok()
    };
    let counts = cpus.flat_map(|cpu| {
        ["core_throttle_count", "package_throttle_count"].map(|name| count(&cpu.path(), name)).into_iter().flatten()
    });
    counts.reduce(|sum, count| sum + count)
}

fn stolen() -> Option<(u64, u64)> {
    let cpu = line("/proc/stat")?;
    let ticks: Vec<u64> = cpu.split_whitespace().skip(1).map_while(|word| word.parse().ok()).collect();
    // user, nice, system, idle, iowait, irq, softirq, steal; guests are in user already.
    Some((*ticks.get(7)?, ticks.iter().take(8).sum()))
}

/// The packages of Intel's and AMD's energy counters (RAPL). Often only root may read them.
fn energy(folder: &Path) -> Vec<(u64, u64)> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let package = |path: &Path| {
        let read = |name: &str| Some(fs::read_to_string(path.join(name)).ok()?.trim().to_owned());
        read("name").filter(|name| name.starts_with("package"))?;
        Some((read("energy_uj")?.parse().ok()?, read("max_energy_range_uj")?.parse().ok()?))
    };
    let mut packages: Vec<_> = entries.collect();
    packages.sort();
    packages.iter().filter_map(|path| package(path)).collect()
}

/// Lets the peak of memory begin anew; `false` if the system does not.
pub fn forget_peak() -> bool {
    fs::write("/proc/self/clear_refs", "5").is_ok()
}

/// The most memory since the last [`forget_peak`] that worked, or since the start.
pub fn peak(since: Since) -> Option<Peak> {
    peak_memory().map(|bytes| Peak { bytes, since })
}

/// The most memory that this process ever had, where the system tells.
pub fn peak_memory() -> Option<u64> {
    kilobytes("/proc/self/status", "VmHWM:")
}
