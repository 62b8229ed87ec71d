//! Devices: where a model computes, by name.
//!
//! ```text
//!  auto ─▶ cuda, if compiled in and it opens ─▶ metal, likewise ─▶ cpu, and why no GPU
//! ```
//!
//! Invariant: a device that was asked for by name is used, or it is an error that says why not. Only `auto` may fall
//! back to the CPU, and it never does so in silence where the program was built for a GPU.

use std::str::FromStr;

use candle_core::{DType, Device, Error, Tensor};

use super::ModelError;
use super::linear::Compute;

/// A device by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DeviceChoice {
    /// The best one that works.
    #[default]
    Auto,
    /// The CPU.
    Cpu,
    /// An NVIDIA GPU, by its number.
    Cuda(usize),
    /// The GPU of a Mac.
    Metal,
}

impl FromStr for DeviceChoice {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let unknown = || format!("{name:?} is no device; there are auto, cpu, cuda, cuda:N (N is a number) and metal");
        match name.split_once(':') {
            None => match name {
                "auto" => Ok(Self::Auto),
                "cpu" => Ok(Self::Cpu),
                "cuda" => Ok(Self::Cuda(0)),
                "metal" => Ok(Self::Metal),
                _ => Err(unknown()),
            },
            Some(("cuda", number)) if number.bytes().all(|byte| byte.is_ascii_digit()) => {
                number.parse().map(Self::Cuda).map_err(|_| unknown())
            }
            Some(_) => Err(unknown()),
        }
    }
}

/// Opens a device; with a remark for the user where `auto` could not have a GPU that the program was built for.
pub fn open(choice: DeviceChoice) -> Result<(Compute, Option<String>), ModelError> {
    let (name, opened) = match choice {
        DeviceChoice::Auto => return Ok(best()),
        DeviceChoice::Cpu => return Ok((Compute::cpu(), None)),
        DeviceChoice::Cuda(number) => (format!("cuda:{number}"), cuda(number)),
        DeviceChoice::Metal => ("metal".to_owned(), metal()),
    };
    let error = |why| ModelError::Option(format!("--device {name}: {why}, or use --device cpu"));
    opened.map(|compute| (compute, None)).map_err(error)
}

fn best() -> (Compute, Option<String>) {
    let gpus = [("cuda", CUDA.then(|| cuda(0))), ("metal", METAL.then(metal))];
    let mut failed = Vec::new();
    for (name, opened) in gpus {
        match opened {
            None => {}
            Some(Ok(compute)) => return (compute, None),
            Some(Err(why)) => failed.push(format!("{name}: {why}")),
        }
    }
    let remark = || format!("no GPU is used; {}", failed.join("; "));
    (Compute::cpu(), (!failed.is_empty()).then(remark))
}

const CUDA: bool = cfg!(feature = "cuda");
const METAL: bool = cfg!(feature = "metal");

fn cuda(number: usize) -> Result<Compute, String> {
    if !CUDA {
        return Err(missing("cuda"));
    }
    let device = Device::new_cuda(number).map_err(|error| closed(&error))?;
    Ok(Compute::candle(device))
}

fn metal() -> Result<Compute, String> {
    if !METAL {
        return Err(missing("metal"));
    }
    // Candle takes the first device without looking whether there is one.
    #[cfg(feature = "metal")]
    if candle_metal_kernels::metal::Device::all().is_empty() {
        return Err(closed(&Error::Msg("there is none".to_owned())));
    }
    let device = Device::new_metal(0).map_err(|error| closed(&error))?;
    Ok(Compute::candle(device))
}

fn missing(feature: &str) -> String {
    let command = format!("cargo build --release --features {feature}");
    format!("this program was built without it; build it with `{command}` (docs/gpu.md)")
}

fn closed(error: &Error) -> String {
    format!("the device cannot be opened ({}); check its driver", reason(error))
}

/// What failed, without the places in the program that it passed.
fn reason(error: &Error) -> String {
    match error {
        Error::WithBacktrace { inner, .. } | Error::WithPath { inner, .. } => reason(inner),
        error => error.to_string(),
    }
}

/// What is wrong with a model that cannot be put on a device: a GPU that is too small is no mistake of this program.
pub fn explain(error: ModelError, compute: &Compute) -> ModelError {
    let ModelError::Tensor(cause) = &error else { return error };
    let cause = reason(cause);
    let full = ["out of memory", "OUT_OF_MEMORY", "ALLOC_FAILED", "Failed to create metal resource"];
    if compute.device.is_cpu() || !full.iter().any(|sign| cause.contains(sign)) {
        return error;
    }
    ModelError::Option(format!(
        "the model does not fit into the memory of the GPU ({cause}); take a smaller or a quantised one (--quant q4k), or \
         use --device cpu"
    ))
}

/// What a device is called in a run's fingerprint. Two GPUs of one model have the same name: they give the same bits.
pub(super) fn name(device: &Device) -> String {
    match device {
        Device::Cpu => "cpu".to_owned(),
        #[cfg(feature = "cuda")]
        Device::Cuda(cuda) => {
            let name = cuda.cuda_stream().context().name();
            format!("cuda {}", name.as_deref().unwrap_or("of an unknown model"))
        }
        #[cfg(feature = "metal")]
        Device::Metal(metal) => format!("metal {}", metal.metal_device().architecture_name()),
        #[allow(unreachable_patterns)]
        Device::Cuda(_) | Device::Metal(_) => "a device that is not compiled in".to_owned(),
    }
}

/// Whether a device computes with brain floats of 16 bits. NVIDIA's do from compute capability 8.0 on, if the program
/// was built for it too; so it is tried.
pub(super) fn has_brain_floats(device: &Device) -> bool {
    let product = || {
        let one = Tensor::ones((1, 1), DType::F32, device)?.to_dtype(DType::BF16)?;
        one.matmul(&one)?.to_dtype(DType::F32)
    };
    !device.is_cpu() && product().is_ok()
}
