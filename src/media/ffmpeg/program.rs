//! Running the program.
//!
//! Invariant: it is given the one file as `file:` and its absolute path, so that no name can be an option or a
//! protocol; only formats that hold their own data are read, so that no file can name another one. It never outlives
//! the value that stands for it, and its log is always drained.
//!
//! When this process is killed, that value is not dropped. On Linux the program then dies too, if `setpriv` of
//! util-linux is there to ask the system for it. Elsewhere it ends with its file, or by the limit on processor time
//! that it inherits.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt::Display;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::ops::RangeInclusive;
use std::path::{self, Path, PathBuf};
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::thread::{self, JoinHandle};

use super::MediaError;
use super::form::Form;
use super::listing::read_line;
use super::log::{Log, Version};

/// The formats that are read: those that hold their own data. Playlists, sequences of images and descriptions of
/// streams are not among them, and neither are formats that go on in other files.
const FORMATS: &str = "3dostr,4xm,apng,asf,av1,avi,avs,avs2,avs3,bethsoftvid,bfi,bink,bmv,c93,cavsvideo,cdxl,cine,\
    dhav,dirac,dnxhd,dsicin,dv,dxa,ea,evc,film_cpk,filmstrip,flic,flv,gdv,gif,gxf,h261,h263,h264,hevc,hnm,idcin,iff,\
    ifv,ipmovie,ipu,iv8,ivf,ivr,jv,kux,live_flv,lmlm4,lvf,lxf,m4v,matroska,mjpeg,mjpeg_2000,mm,mods,moflex,mov,\
    mpeg,mpegts,mpegvideo,mpjpeg,mtv,mv,mvi,mxf,mxg,nsv,nut,nuv,obu,ogg,paf,pmp,psxstr,pva,r3d,rl2,rm,roq,rpl,\
    ser,siff,simbiosis_imx,smjpeg,smk,smush,swf,thp,tiertexseq,tmv,ty,vc1,vc1test,viv,vivo,vmd,vvc,wc3movie,webm,\
    webp_pipe,wsvqa,wtv,xmv,yop,yuv4mpegpipe";

/// The most runs of frames that the program is told of. All have to fit on a command line, which is short on Windows.
pub(super) const MOST_RUNS: usize = 512;

/// The file.
pub(super) struct Input {
    /// As the program is given it.
    pub(super) name: OsString,
    pub(super) bytes: u64,
}

impl Input {
    pub(super) fn new(path: &Path) -> Result<Self, MediaError> {
        let bytes = super::regular(path)?;
        let absolute = path::absolute(path).map_err(|error| MediaError::io(path, &error))?;
        Ok(Self { name: file_name(&absolute), bytes })
    }
}

/// The program.
pub(super) struct Program {
    path: PathBuf,
    /// What starts it so that it dies with this process, if there is such a program.
    tie: Option<PathBuf>,
    /// Its version, which is a high one as long as it is not known.
    pub(super) version: Version,
}

/// What `setpriv` is told: the program that follows gets this signal when the thread that started it ends.
const TIE: [&str; 3] = ["--pdeathsig", "KILL", "--"];

/// The program that ties another to this process; `None` if there is none, or only one that does not know how.
fn tie() -> Option<PathBuf> {
    static TIED: OnceLock<Option<PathBuf>> = OnceLock::new();
    let find = || {
        let tie = super::on_path("setpriv").filter(|_| cfg!(target_os = "linux"))?;
        let mut command = Command::new(&tie);
        command.args(TIE).arg(&tie).arg("--version");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success()).then_some(tie)
    };
    TIED.get_or_init(find).clone()
}

/// Where decoded pictures go.
pub(super) struct Outputs<'a> {
    /// The times, in ticks, of frames that are not shown and do not count.
    pub(super) hidden: &'a [RangeInclusive<i64>],
    /// Their form.
    pub(super) form: &'a Form,
    /// The file for the wanted ones; the pipe if there is none.
    pub(super) raw: Option<File>,
    /// The file for the listing of all frames, and the most that there may be.
    pub(super) list: Option<(&'a Path, u64)>,
}

impl Program {
    pub(super) fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), tie: tie(), version: Version::NEW }
    }

    /// The packets of the video, none decoded, as a listing.
    pub(super) fn packets(&self, input: &Input) -> Result<Running, MediaError> {
        let mut command = self.open(input, true);
        command.args(["-map", "0:V:0", "-c", "copy", "-copyinkf", "-f", "framecrc", "pipe:1"]);
        self.start(command)
    }

    /// The first frame to nowhere, with a line on it in the log.
    pub(super) fn show(&self, input: &Input) -> Result<Running, MediaError> {
        let mut command = self.open(input, true);
        command.args(["-map", "0:V:0", "-frames:v", "1", "-vf", "showinfo", "-f", "null", "-"]);
        self.start(command)
    }

    /// The first frame in gray, turned by the program or not.
    pub(super) fn gray(&self, input: &Input, turned: bool) -> Result<Running, MediaError> {
        let mut command = self.open(input, !turned);
        command.args(["-map", "0:V:0", "-frames:v", "1", "-f", "rawvideo", "-pix_fmt", "gray", "pipe:1"]);
        self.start(command)
    }

    /// The frames of the runs as raw pictures, and a listing of all frames.
    pub(super) fn decode(
        &self,
        input: &Input,
        runs: &[RangeInclusive<u64>],
        threads: usize,
        outputs: Outputs<'_>,
    ) -> Result<Running, MediaError> {
        // The program leaves these out itself, but not with every decoder.
        let shown = match outputs.hidden {
            [] => String::new(),
            hidden => format!("select='not({})',", within("pts", hidden)),
        };
        // Raw pictures have no times, but the program wants them to rise.
        let wanted = format!("select='{}',setpts=N{}", within("n", runs), outputs.form.filter());
        // Frames are listed by a corner of theirs, so that this costs nothing. Each tells its colours in the log.
        let listed = "crop='min(16,iw)':'min(16,ih)':0:0,showinfo";
        let filter = match (runs.is_empty(), outputs.list) {
            (true, _) => format!("[0:V:0]{shown}{listed}[all]"),
            (false, None) => format!("[0:V:0]{shown}{wanted}[wanted]"),
            (false, Some(_)) => format!("[0:V:0]{shown}split[a][b];[a]{wanted}[wanted];[b]{listed}[all]"),
        };
        let rate = if self.version < Version(5, 1) { "-vsync" } else { "-fps_mode" };
        // The stream's own ticks. `filter` is known since 6.1, -1 was still known to 8.1.
        let tick = if self.version < Version(7, 0) { "-1" } else { "filter" };
        let mut command = self.open_with(input, true, threads);
        command.args(["-filter_complex", &filter]);
        // Raw pictures are only copied: threads for that would cost more than they give.
        let shared = ["-threads", "1", rate, "passthrough", "-enc_time_base", tick, "-y"];
        if !runs.is_empty() {
            command.args(["-map", "[wanted]"]).args(shared).args(["-f", "rawvideo", "pipe:1"]);
        }
        if let Some((list, most)) = outputs.list {
            let most = most.saturating_add(1).to_string();
            command.args(["-map", "[all]"]).args(shared).args(["-frames:v", &most, "-f", "framecrc"]);
            command.arg(file_name(list));
        }
        self.start_into(command, outputs.raw)
    }

    /// A command up to its input; with one thread, which is enough for one frame.
    fn open(&self, input: &Input, as_stored: bool) -> Command {
        self.open_with(input, as_stored, 1)
    }

    /// A command up to its input.
    fn open_with(&self, input: &Input, as_stored: bool, threads: usize) -> Command {
        let mut command = match &self.tie {
            Some(tie) => {
                let mut command = Command::new(tie);
                command.args(TIE).arg(&self.path);
                command
            }
            None => Command::new(&self.path),
        };
        // `level` marks each line with its level. With `repeat`, no line stands for several.
        command.args(["-nostdin", "-nostats", "-loglevel", "repeat+level+verbose", "-copyts"]);
        command.args(["-protocol_whitelist", "file", "-format_whitelist", FORMATS]);
        command.args(["-err_detect", "crccheck+bitstream+buffer", "-threads", &threads.to_string()]);
        // Without this, some decoders (that of MPEG-4, for one) are not exact on processors that are faster so. With
        // it, their pictures are those of the plain code whatever the processor has. Other programs decode without it,
        // so that their samples may differ a little.
        command.args(["-flags", "+bitexact"]);
        if as_stored {
            command.arg("-noautorotate");
        }
        command.arg("-i").arg(&input.name);
        command
    }

    fn start(&self, command: Command) -> Result<Running, MediaError> {
        self.start_into(command, None)
    }

    /// Starts it; what it writes goes to a file, or comes back through a pipe if there is none.
    fn start_into(&self, mut command: Command, file: Option<File>) -> Result<Running, MediaError> {
        if !super::executable(&self.path) {
            return Err(MediaError::Io {
                path: self.path.clone(),
                what: "is no program that can be started".to_owned(),
            });
        }
        command.stdin(Stdio::null()).stdout(file.map_or_else(Stdio::piped, Stdio::from)).stderr(Stdio::piped());
        // Its messages are read by this program, and must be the same everywhere.
        command.env("AV_LOG_FORCE_NOCOLOR", "1").env("LC_ALL", "C").env_remove("FFREPORT");
        let mut child = command.spawn().map_err(|error| cannot_start(&self.path, &error))?;
        let stdout: Box<dyn Read> = match child.stdout.take() {
            Some(pipe) => Box::new(pipe),
            None => Box::new(io::empty()),
        };
        let log = child.stderr.take().map(|stderr| thread::spawn(move || drain(stderr)));
        Ok(Running { child, stdout, log })
    }
}

/// The program while it runs.
pub(super) struct Running {
    child: Child,
    stdout: Box<dyn Read>,
    log: Option<JoinHandle<Log>>,
}

impl Running {
    /// What it writes; nothing if that goes to a file.
    pub(super) fn stdout(&mut self) -> &mut dyn Read {
        self.stdout.as_mut()
    }

    /// Waits for its end: its log, and what is wrong with how it ended.
    pub(super) fn finish(mut self) -> Result<(Log, Option<String>), MediaError> {
        // What is not read yet is not wanted, but the program must not wait for a reader.
        let mut rest = [0; 1 << 16];
        while matches!(self.stdout.read(&mut rest), Ok(read) if read > 0) {}
        let status = self.child.wait().map_err(|error| MediaError::Crashed(format!("ffmpeg is lost: {error}")))?;
        let log = self.join();
        if status.success() {
            return Ok((log, None));
        }
        let Some(code) = status.code() else {
            return Err(MediaError::Crashed(format!("ffmpeg was ended: {}", by_signal(status))));
        };
        // The system's own words for a program that it cannot load, for want of a library or of memory.
        if matches!(code, 126 | 127) {
            return Err(MediaError::Crashed(format!("ffmpeg could not be loaded (exit code {code})")));
        }
        // What it says when a signal that it knows has stopped it.
        if code == 255 {
            return Err(MediaError::Crashed("ffmpeg was stopped before its end".to_owned()));
        }
        // Then it is not the video that is wrong. Filters that are refused for other reasons also speak of memory.
        if log.mentions("nitializing filter") {
            return Err(MediaError::Crashed(format!("ffmpeg could not set up its filters (exit code {code})")));
        }
        for (words, what) in [
            (" allocate ", "ffmpeg has run out of its memory (--max-decode-memory)"),
            ("No space left on device", "there is no space left for the pictures in the temporary folder"),
        ] {
            if log.mentions(words) {
                return Err(MediaError::Crashed(what.to_owned()));
            }
        }
        Ok((log, Some(format!("ffmpeg failed with exit code {code}"))))
    }

    /// Ends it at once.
    pub(super) fn stop(mut self) -> (Log, Option<String>) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        (self.join(), None)
    }

    fn join(&mut self) -> Log {
        self.log.take().and_then(|log| log.join().ok()).unwrap_or_default()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail if it has ended, which is fine.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads a log to its end.
fn drain(stderr: ChildStderr) -> Log {
    let mut log = Log::default();
    let mut lines = BufReader::new(stderr);
    let mut line = Vec::new();
    loop {
        line.clear();
        match read_line(&mut lines, &mut line) {
            Ok(true) => log.line(&String::from_utf8_lossy(&line)),
            Ok(false) | Err(_) => return log,
        }
    }
}

/// Wanted frames as runs of frames that follow each other.
pub(super) fn runs(wanted: &BTreeSet<u64>) -> Vec<RangeInclusive<u64>> {
    let mut runs: Vec<RangeInclusive<u64>> = Vec::new();
    for frame in wanted {
        match runs.last_mut() {
            Some(run) if run.end().checked_add(1) == Some(*frame) => *run = *run.start()..=*frame,
            _ => runs.push(*frame..=*frame),
        }
    }
    joined(&runs, MOST_RUNS)
}

/// Runs, joined where the gaps are smallest until there are few enough.
fn joined(runs: &[RangeInclusive<u64>], most: usize) -> Vec<RangeInclusive<u64>> {
    let gap = |pair: &[RangeInclusive<u64>]| match pair {
        [one, next] => next.start().saturating_sub(*one.end()),
        _ => 0,
    };
    let mut gaps: Vec<(u64, usize)> = runs.windows(2).enumerate().map(|(at, pair)| (gap(pair), at)).collect();
    gaps.sort_unstable();
    let closed: BTreeSet<usize> = gaps.iter().take(runs.len().saturating_sub(most)).map(|(_, at)| *at).collect();
    let mut joined: Vec<RangeInclusive<u64>> = Vec::new();
    for (at, run) in runs.iter().enumerate() {
        match joined.last_mut().filter(|_| at > 0 && closed.contains(&(at - 1))) {
            Some(last) => *last = *last.start()..=*run.end(),
            None => joined.push(run.clone()),
        }
    }
    joined
}

/// An expression that is 1 where a variable is within one of the runs, which rise, and 0 elsewhere. It is a tree,
/// because the program knows no sum of more than a hundred terms, and because each frame then costs only a few
/// comparisons.
fn within<N: Display + PartialEq>(variable: &str, runs: &[RangeInclusive<N>]) -> String {
    match runs {
        [] => "0".to_owned(),
        [run] if run.start() == run.end() => format!("eq({variable},{})", run.start()),
        [run] => format!("between({variable},{},{})", run.start(), run.end()),
        _ => {
            let (below, above) = runs.split_at(runs.len() / 2);
            let Some(border) = above.first().map(RangeInclusive::start) else { return "0".to_owned() };
            format!("if(lt({variable},{border}),{},{})", within(variable, below), within(variable, above))
        }
    }
}

/// A file as the program is given it.
fn file_name(path: &Path) -> OsString {
    let mut name = OsString::from("file:");
    name.push(path);
    name
}

fn cannot_start(path: &Path, error: &io::Error) -> MediaError {
    MediaError::Io { path: path.to_owned(), what: format!("cannot be started: {error}") }
}

#[cfg(unix)]
fn by_signal(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt;
    status.signal().map_or_else(|| "for no known reason".to_owned(), |signal| format!("by signal {signal}"))
}

#[cfg(not(unix))]
fn by_signal(_: ExitStatus) -> String {
    "for no known reason".to_owned()
}
