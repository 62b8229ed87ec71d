//! The worker's side: limits first, then the file.

use std::io::{self, BufWriter, Read, Write};

use super::wire;
use crate::media::decode::{Job, decode};
use crate::media::{Limits, MediaError};

/// Reads a job from standard input, does it, and writes frames to standard output.
pub fn serve() -> io::Result<()> {
    let mut job = Vec::new();
    io::stdin().lock().read_to_end(&mut job)?;
    let mut out = BufWriter::with_capacity(1 << 16, io::stdout().lock());
    let result = match serde_json::from_slice::<Job>(&job) {
        Err(error) => Err(MediaError::Usage(format!("this verb is for capjudge's own use: {error}"))),
        Ok(job) => {
            confine(&job.limits, job.threads);
            decode(&job, &mut |frame| {
                // The parent has gone, or wants no more.
                wire::write_frame(&mut out, &frame).map_err(|error| MediaError::Crashed(error.to_string()))
            })
        }
    };
    wire::write_done(&mut out, result)?;
    out.flush()
}

/// Puts the limits on this process and what it starts. A system that has no such limits leaves the parent's clock.
fn confine(limits: &Limits, threads: usize) {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, Rlimit, setrlimit};
        let set = |resource, value: u64| {
            let _ = setrlimit(resource, Rlimit { current: Some(value), maximum: Some(value) });
        };
        set(Resource::Core, 0);
        // Not the address space: that counts what is only reserved, and threads reserve much.
        set(Resource::Data, limits.memory);
        set(Resource::Cpu, limits.seconds.saturating_mul(threads.max(1) as u64).saturating_add(1));
        #[cfg(target_os = "linux")]
        let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    }
    #[cfg(not(unix))]
    let _ = (limits, threads);
}
