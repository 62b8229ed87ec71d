//! Decoding in a child process with limits.
//!
//! A codec may crash, abort, hang or eat memory on a file that somebody made for that. Here it does so alone: the parent
//! reads frames from a pipe, and whatever else happens becomes a [`MediaError`] for that one video.
//!
//! Invariant: a call ends in the time that the limits allow, plus a moment, and leaves no process behind.

mod child;
pub(super) mod path;
mod wire;

pub use child::serve;

use std::collections::VecDeque;
use std::io::{BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::decode::{Job, Report};
use super::{Frame, MediaError};
use wire::Message;

/// The verb by which the program is told to be a worker.
pub const VERB: &str = "decode-worker";

/// How often the parent looks whether it was interrupted.
const TICK: Duration = Duration::from_millis(50);
/// How much of what a worker wrote to its error output is kept.
const STDERR_BYTES: usize = 64 << 10;

/// Starts worker processes.
#[derive(Debug, Clone)]
pub struct Worker {
    program: PathBuf,
}

impl Worker {
    /// Workers that are this same program.
    pub fn this_program() -> Result<Self, MediaError> {
        // On Linux this name holds even if the file was replaced since.
        if cfg!(target_os = "linux") && std::path::Path::new("/proc/self/exe").exists() {
            return Ok(Self::new("/proc/self/exe".into()));
        }
        match std::env::current_exe() {
            Ok(program) => Ok(Self::new(program)),
            Err(error) => Err(MediaError::Crashed(format!("cannot find this program to start a decoder: {error}"))),
        }
    }

    /// Workers that are the `capjudge` program at that path.
    pub fn new(program: PathBuf) -> Self {
        Self { program }
    }

    /// Decodes in a worker. Each frame goes to `out` once, in any order. `Ok(None)` if the user interrupted it.
    pub fn decode(
        &self,
        job: &Job,
        interrupt: &AtomicBool,
        out: &mut dyn FnMut(Frame) -> Result<(), MediaError>,
    ) -> Result<Option<Report>, MediaError> {
        // A limit beyond all time is none.
        let deadline = Instant::now().checked_add(Duration::from_secs(job.limits.seconds));
        let mut running = Running::start(&self.program, job)?;
        loop {
            match running.messages.recv_timeout(TICK) {
                Ok(Message::Frame(frame)) => out(frame)?,
                Ok(Message::Done(result)) => return result.map(Some),
                Ok(Message::Broken(what)) => return Err(MediaError::Crashed(what)),
                Err(RecvTimeoutError::Disconnected) => return Err(running.post_mortem(job)),
                Err(RecvTimeoutError::Timeout) => {}
            }
            if interrupt.load(Ordering::Relaxed) {
                return Ok(None);
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Err(MediaError::Limit(format!(
                    "decoding took longer than {} seconds (--max-seconds)",
                    job.limits.seconds
                )));
            }
        }
    }
}

/// A worker at work. Dropped, it is killed.
struct Running {
    child: Child,
    messages: Receiver<Message>,
    stderr: Option<thread::JoinHandle<String>>,
    ended: bool,
    /// Where the worker puts what it cannot hold; a worker that is killed does not clean up itself.
    _scratch: TempDir,
}

impl Running {
    fn start(program: &std::path::Path, job: &Job) -> Result<Self, MediaError> {
        let failed = |error: std::io::Error| {
            MediaError::Crashed(format!("cannot start a decoder process ({}): {error}", program.display()))
        };
        let mut command = Command::new(program);
        let scratch = tempfile::Builder::new().prefix("capjudge-").tempdir().map_err(failed)?;
        for variable in ["TMPDIR", "TMP", "TEMP"] {
            command.env(variable, scratch.path());
        }
        // A backtrace of a failed allocation allocates, and waits for itself for ever.
        command.env("RUST_BACKTRACE", "0");
        command.arg(VERB).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // Its own group, so that what it starts itself ends with it.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut child = command.spawn().map_err(failed)?;
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (sender, messages) = sync_channel(2);
        thread::spawn(move || {
            let Some(stdout) = stdout else { return };
            let mut stdout = BufReader::with_capacity(1 << 16, stdout);
            while let Some(message) = wire::read(&mut stdout) {
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        let stderr = stderr.map(|stderr| thread::spawn(move || tail(stderr)));
        let running = Self { child, messages, stderr, ended: false, _scratch: scratch };
        let job = serde_json::to_vec(job).map_err(|error| MediaError::Usage(error.to_string()))?;
        // A worker that died already is found out below, by its silence.
        if let Some(mut stdin) = stdin {
            let _ = stdin.write_all(&job);
        }
        Ok(running)
    }

    /// Why a worker fell silent before it was done.
    fn post_mortem(&mut self, job: &Job) -> MediaError {
        let status = self.end();
        let said = self.stderr.take().and_then(|thread| thread.join().ok()).unwrap_or_default();
        let last = said.lines().map(str::trim).rfind(|line| !line.is_empty() && !line.starts_with("note: "));
        // A thread that cannot be had is memory for its stack that cannot be had.
        if said.contains("memory allocation of") || said.contains("failed to spawn thread") {
            return MediaError::Limit(format!(
                "decoding needs more memory than the {} MB that are allowed (--max-decode-memory)",
                job.limits.memory >> 20
            ));
        }
        if status.as_ref().is_ok_and(out_of_time) {
            return MediaError::Limit("decoding took more processor time than is allowed (--max-seconds)".to_owned());
        }
        let how = status.map_or_else(|error| error.to_string(), |status| status.to_string());
        let words = panic_message(&said).or(last.map(str::to_owned));
        let words = words.map_or(String::new(), |words| format!(": {words}"));
        MediaError::Crashed(format!("the decoder crashed ({how}){words}"))
    }
}

impl Running {
    /// Ends the worker and all that it started. One that is dead already keeps the status that it died with.
    fn end(&mut self) -> std::io::Result<ExitStatus> {
        self.ended = true;
        // Before it is waited for: until then nobody else can have its number.
        #[cfg(unix)]
        if let Some(group) = rustix::process::Pid::from_raw(self.child.id().cast_signed()) {
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
        #[cfg(not(unix))]
        let _ = self.child.kill();
        self.child.wait()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.ended {
            let _ = self.end();
        }
    }
}

/// Whether the system ended a process for its use of the processor.
fn out_of_time(status: &ExitStatus) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::process::ExitStatusExt;
        status.signal() == Some(rustix::process::Signal::XCPU.as_raw())
    }
    #[cfg(not(unix))]
    {
        let _ = status;
        false
    }
}

/// The message of a panic, without the place in the source: it differs from build to build, and verdicts must not.
fn panic_message(said: &str) -> Option<String> {
    let mut lines = said.lines().skip_while(|line| !line.contains("panicked at"));
    lines.next()?;
    lines.next().map(|line| line.trim().to_owned())
}

/// The last of what a worker says on its error output.
fn tail(mut stderr: ChildStderr) -> String {
    let mut kept = VecDeque::new();
    let mut buffer = [0; 4096];
    while let Ok(read @ 1..) = stderr.read(&mut buffer) {
        kept.extend(&buffer[..read]);
        let excess = kept.len().saturating_sub(STDERR_BYTES);
        kept.drain(..excess);
    }
    String::from_utf8_lossy(kept.make_contiguous()).into_owned()
}
