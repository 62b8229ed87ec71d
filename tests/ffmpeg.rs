//! The decoder that is the program `ffmpeg`, on clips that it makes itself. Without it, these tests say so and pass.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use capjudge::media::container::Turn;
use capjudge::media::ffmpeg::{self, Sampled, Taken};
use capjudge::media::picture::{Layout, Matrix, Picture, Planes};
use capjudge::media::{Limits, MediaError};
use tempfile::TempDir;

/// A folder for clips, and the program; `None` if there is none.
fn studio() -> Option<(TempDir, PathBuf)> {
    let Some(program) = ffmpeg::find() else {
        eprintln!("skipped: ffmpeg is not on the PATH");
        return None;
    };
    Some((tempfile::tempdir().unwrap(), program))
}

/// Makes a clip. `false`, and a word on it, if this ffmpeg cannot.
fn make(program: &Path, folder: &Path, arguments: &str) -> bool {
    let mut command = Command::new(program);
    command.args(["-v", "error", "-nostdin", "-y"]).args(arguments.split_whitespace()).current_dir(folder);
    let made = command.stdin(Stdio::null()).stderr(Stdio::null()).status().unwrap().success();
    if !made {
        eprintln!("skipped: this ffmpeg cannot make {arguments}");
    }
    made
}

const SOURCE: &str = "-f lavfi -i testsrc2=s=64x48:r=25:d=0.4";

/// Decodes all frames.
fn all(program: &Path, path: &Path) -> Result<(Sampled, BTreeMap<u64, Taken>), MediaError> {
    some(program, path, 2, &mut |times, _| Ok((0..times.len() as u64).collect()))
}

fn some(
    program: &Path,
    path: &Path,
    threads: usize,
    pick: &mut ffmpeg::Pick<'_>,
) -> Result<(Sampled, BTreeMap<u64, Taken>), MediaError> {
    let mut taken = BTreeMap::new();
    let sampled = ffmpeg::sample(program, path, &Limits::default(), threads, pick, &mut |frame| {
        assert!(taken.insert(frame.index, frame).is_none(), "a frame came twice");
        Ok(())
    })?;
    Ok((sampled, taken))
}

/// The bytes of the planes, one after the other.
fn bytes(picture: &Picture) -> Vec<u8> {
    match &picture.planes {
        Planes::U8(planes) => planes.concat(),
        Planes::U16(planes) => planes.concat().iter().flat_map(|sample| sample.to_le_bytes()).collect(),
    }
}

#[test]
fn all_frames_of_many_formats_come_with_their_own_samples() {
    let Some((folder, program)) = studio() else { return };
    let clips = [
        ("mpeg4.avi", "-c:v mpeg4 -bf 2", "yuv420p", 8, Layout::Yuv420),
        ("prores.mov", "-c:v prores_ks", "yuv422p10le", 10, Layout::Yuv422),
        ("odd.mkv", "-c:v ffv1 -vf crop=63:47:exact=1,format=yuva420p", "yuv420p", 8, Layout::Yuv420),
        ("uyvy.avi", "-c:v rawvideo -pix_fmt uyvy422", "yuv422p", 8, Layout::Yuv422),
        ("nv12.nut", "-c:v rawvideo -pix_fmt nv12", "yuv420p", 8, Layout::Yuv420),
        ("big.nut", "-c:v rawvideo -pix_fmt yuv420p12be", "yuv420p12le", 12, Layout::Yuv420),
        ("rgb.avi", "-c:v rawvideo -pix_fmt bgr24", "gbrp", 8, Layout::Yuv444),
    ];
    // Starting the program takes longer than what it does here: one makes all clips, and one decodes all.
    let outputs: String = clips.iter().map(|(name, options, ..)| format!(" {options} {name}")).collect();
    assert!(make(&program, folder.path(), &format!("{SOURCE}{outputs}")));
    let inputs: String = clips.iter().map(|(name, ..)| format!(" -noautorotate -flags +bitexact -i {name}")).collect();
    let raw = |(at, (name, _, format, ..)): (usize, &(&str, &str, &str, u8, Layout))| {
        format!(" -map {at}:v -vsync passthrough -f rawvideo -pix_fmt {format} {name}.raw")
    };
    assert!(make(
        &program,
        folder.path(),
        &format!("{inputs}{}", clips.iter().enumerate().map(raw).collect::<String>())
    ));
    for (name, _, _, depth, layout) in clips {
        let (sampled, taken) = all(&program, &folder.path().join(name)).unwrap();
        assert_eq!((sampled.times.len(), taken.len()), (10, 10), "{name}");
        assert!(sampled.faults.is_empty(), "{name}: {:?}", sampled.faults);
        assert!((sampled.duration - 0.4).abs() < 0.002, "{name}: {} s", sampled.duration);
        for (index, frame) in &taken {
            assert_eq!(frame.time, sampled.times[*index as usize], "{name}");
            assert_eq!((frame.picture.depth, frame.picture.layout), (depth, layout), "{name}");
        }
        let ours: Vec<u8> = taken.values().flat_map(|frame| bytes(&frame.picture)).collect();
        let theirs = fs::read(folder.path().join(format!("{name}.raw"))).unwrap();
        assert!(ours == theirs, "{name}: the samples differ");
    }
}

#[test]
fn any_number_of_separate_frames_is_given() {
    let Some((folder, program)) = studio() else { return };
    let source = "-f lavfi -i testsrc2=s=16x16:r=25:d=56";
    assert!(make(&program, folder.path(), &format!("{source} -c:v rawvideo -pix_fmt yuv420p a.avi")));
    let path = folder.path().join("a.avi");
    let (_, every) = all(&program, &path).unwrap();
    assert_eq!(every.len(), 1400);
    // One more than a sum may have in ffmpeg, and more than fit on a command line.
    for (step, count) in [(10, 101), (2, 700)] {
        let wanted: Vec<u64> = (0..count).map(|number| number * step + 1).collect();
        let (sampled, taken) = some(&program, &path, 1, &mut |_, _| Ok(wanted.clone())).unwrap();
        assert!(taken.keys().eq(&wanted), "{count} frames: {:?}", taken.keys());
        assert!(taken.iter().all(|(index, frame)| every[index] == *frame), "{count} frames");
        assert!(sampled.faults.is_empty(), "{:?}", sampled.faults);
    }
}

#[test]
fn what_an_edit_list_hides_is_not_shown() {
    let Some((folder, program)) = studio() else { return };
    // The first decodes AV1 without leaving out what is hidden.
    for (name, options) in [("a.mp4", "-c:v libaom-av1 -cpu-used 8 -g 20"), ("b.mp4", "-c:v mpeg4 -bf 2 -g 20")] {
        if !make(&program, folder.path(), &format!("{SOURCE} {options} {name}"))
            || !make(&program, folder.path(), &format!("-ss 0.16 -i {name} -c copy cut-{name}"))
        {
            continue;
        }
        let (_, whole) = all(&program, &folder.path().join(name)).unwrap();
        let (sampled, cut) = all(&program, &folder.path().join(format!("cut-{name}"))).unwrap();
        assert_eq!((whole.len(), cut.len()), (10, 6), "{name}");
        assert_eq!((sampled.times[0], sampled.faults), (0.0, vec![]), "{name}");
        for (index, frame) in cut {
            assert_eq!(frame.picture, whole[&(index + 4)].picture, "{name}: frame {index}");
        }
    }
}

#[test]
fn colours_that_change_midway_are_those_of_each_frame() {
    let Some((folder, program)) = studio() else { return };
    let colours = |name| format!("-colorspace {name} -color_primaries {name} -color_trc {name} -c:v mpeg2video");
    let made = format!("{SOURCE} {} a.m2v {} b.m2v", colours("smpte170m"), colours("bt709"));
    assert!(make(&program, folder.path(), &made));
    let mut both = fs::read(folder.path().join("a.m2v")).unwrap();
    both.extend(fs::read(folder.path().join("b.m2v")).unwrap());
    let path = folder.path().join("both.m2v");
    fs::write(&path, both).unwrap();
    match all(&program, &path) {
        Ok((_, taken)) => {
            let matrices: Vec<Matrix> = taken.values().map(|frame| frame.picture.colour.matrix).collect();
            assert_eq!(matrices, [[Matrix::Bt601; 10], [Matrix::Bt709; 10]].concat());
        }
        // Newer versions of ffmpeg count frames from 0 again.
        Err(MediaError::Unsupported(what)) => assert!(what.contains("colours midway"), "{what}"),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn what_is_picked_is_given_and_nothing_else() {
    let Some((folder, program)) = studio() else { return };
    assert!(make(&program, folder.path(), &format!("{SOURCE} -c:v mpeg2video -bf 2 a.ts")));
    let path = folder.path().join("a.ts");
    let (_, every) = all(&program, &path).unwrap();
    let (sampled, taken) = some(&program, &path, 1, &mut |_, _| Ok(vec![7, 2, 2, 9])).unwrap();
    assert_eq!(sampled.picked, [7, 2, 2, 9]);
    assert_eq!(taken.keys().copied().collect::<Vec<_>>(), [2, 7, 9]);
    assert!(taken.iter().all(|(index, frame)| every[index] == *frame));
    let beyond = some(&program, &path, 1, &mut |_, _| Ok(vec![10]));
    assert!(matches!(beyond, Err(MediaError::Usage(_))), "{beyond:?}");
}

#[test]
fn a_pick_that_changes_with_the_real_times_still_gives_the_right_frames() {
    let Some((folder, program)) = studio() else { return };
    // Some packets of this have no times, so that the guess is wrong.
    assert!(make(&program, folder.path(), &format!("{SOURCE} -c:v mpeg4 -bf 2 a.avi")));
    let path = folder.path().join("a.avi");
    let (_, every) = all(&program, &path).unwrap();
    let mut picks = 0;
    let (sampled, taken) = some(&program, &path, 1, &mut |_, _| {
        picks += 1;
        Ok(if picks == 1 { vec![0, 4] } else { vec![4, 8] })
    })
    .unwrap();
    assert_eq!((picks, sampled.picked), (2, vec![4, 8]));
    assert_eq!(taken.keys().copied().collect::<Vec<_>>(), [4, 8]);
    assert!(taken.iter().all(|(index, frame)| every[index] == *frame));
}

#[test]
fn times_are_the_streams_own() {
    let Some((folder, program)) = studio() else { return };
    let later = format!("{SOURCE} -c:v mpeg4 -output_ts_offset 5 later.mkv");
    assert!(make(&program, folder.path(), &later));
    let (sampled, _) = all(&program, &folder.path().join("later.mkv")).unwrap();
    assert_eq!(sampled.times[..3], [5.0, 5.04, 5.08]);
    let uneven = format!("{SOURCE} -vf select=not(mod(n\\,3))+eq(n\\,7) -vsync vfr -c:v mpeg4 uneven.mkv");
    assert!(make(&program, folder.path(), &uneven));
    let (sampled, taken) = all(&program, &folder.path().join("uneven.mkv")).unwrap();
    assert_eq!(sampled.times, [0.0, 0.12, 0.24, 0.28, 0.36]);
    assert_eq!(taken.len(), 5);
}

#[test]
fn ranges_and_matrices_are_found() {
    let Some((folder, program)) = studio() else { return };
    let clips = [
        ("a.mkv", "-c:v ffv1 -pix_fmt yuv420p -colorspace bt709 -color_range tv", Matrix::Bt709, false),
        ("b.mkv", "-c:v ffv1 -pix_fmt yuv420p -colorspace bt2020nc -color_range pc", Matrix::Bt2020, true),
        ("c.avi", "-c:v mjpeg -pix_fmt yuvj420p", Matrix::Bt601, true),
        ("e.mkv", "-c:v ffv1 -pix_fmt gray", Matrix::Bt601, true),
    ];
    let outputs: String = clips.iter().map(|(name, options, ..)| format!(" {options} {name}")).collect();
    assert!(make(&program, folder.path(), &format!("{SOURCE}{outputs}")));
    for (name, _, matrix, full_range) in clips {
        let (_, taken) = all(&program, &folder.path().join(name)).unwrap();
        let colour = taken[&0].picture.colour;
        assert_eq!((colour.matrix, colour.full_range), (matrix, full_range), "{name}");
    }
}

/// Sets the matrix of the video track of a small MP4 file, in its `tkhd` box.
fn set_matrix(path: &Path, matrix: [i32; 4]) {
    let mut file = fs::read(path).unwrap();
    let header = file.windows(4).position(|name| name == b"tkhd").unwrap();
    for (place, value) in [0, 1, 3, 4].into_iter().zip(matrix) {
        let at = header + 4 + 40 + place * 4;
        file[at..at + 4].copy_from_slice(&(value << 16).to_be_bytes());
    }
    fs::write(path, file).unwrap();
}

#[test]
fn pictures_that_are_turned_or_mirrored_say_so_and_are_given_as_stored() {
    let Some((folder, program)) = studio() else { return };
    assert!(make(&program, folder.path(), &format!("{SOURCE} -c:v mpeg4 plain.mp4")));
    let plain = folder.path().join("plain.mp4");
    let (_, stored) = all(&program, &plain).unwrap();
    // Each matrix takes (x, y) to (a x + c y, b x + d y).
    let turns = [([0, 1, -1, 0], 1, false), ([1, 0, 0, -1], 2, true)];
    for (matrix, quarters, mirrored) in turns {
        set_matrix(&plain, matrix);
        let (_, taken) = all(&program, &plain).unwrap();
        assert_eq!(taken[&0].turn, Turn { quarters, mirrored }, "{matrix:?}");
        assert_eq!(taken[&3].picture, stored[&3].picture, "{matrix:?}");
    }
}

#[test]
fn names_that_look_like_options_or_protocols_are_names() {
    let Some((folder, program)) = studio() else { return };
    assert!(make(&program, folder.path(), &format!("{SOURCE} -c:v mpeg4 a.avi")));
    for name in ["-i", "concat:it's 100%d.avi"] {
        let path = folder.path().join(name);
        if fs::copy(folder.path().join("a.avi"), &path).is_err() {
            eprintln!("skipped: no file can be named {name} here");
            continue;
        }
        assert_eq!(all(&program, &path).unwrap().1.len(), 10, "{name}");
    }
}

#[test]
fn lists_of_other_files_are_not_read() {
    let Some((folder, program)) = studio() else { return };
    assert!(make(&program, folder.path(), &format!("{SOURCE} -c:v mpeg2video a.ts")));
    let playlist = |segment: &str| format!("#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\n{segment}\n#EXT-X-ENDLIST\n");
    let session = "v=0\no=- 0 0 IN IP4 127.0.0.1\ns=x\nc=IN IP4 127.0.0.1\nt=0 0\nm=video 5004 RTP/AVP 96\n";
    let lists = [
        ("list.m3u8", playlist("a.ts")),
        ("net.m3u8", playlist("http://127.0.0.1:9/a.ts")),
        ("list.mp4", playlist("a.ts")),
        ("list.ffconcat", "ffconcat version 1.0\nfile a.ts\n".to_owned()),
        ("list.sdp", session.to_owned()),
    ];
    for (name, text) in lists {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        match all(&program, &path) {
            Err(MediaError::Unsupported(what)) => {
                assert!(what.contains("name the video file itself"), "{name}: {what}")
            }
            result => panic!("{name}: {result:?}"),
        }
    }
}

#[test]
fn what_is_no_video_is_an_error() {
    let Some((folder, program)) = studio() else { return };
    assert!(make(&program, folder.path(), "-f lavfi -i sine=d=0.1 -c:a pcm_s16le sound.mov"));
    fs::write(folder.path().join("empty.avi"), "").unwrap();
    fs::write(folder.path().join("text.mp4"), "this is no video\n".repeat(100)).unwrap();
    for name in ["sound.mov", "empty.avi", "text.mp4"] {
        let result = all(&program, &folder.path().join(name));
        assert!(matches!(result, Err(MediaError::Unsupported(_) | MediaError::Damaged(_))), "{name}: {result:?}");
        // The text is the same wherever the file is.
        assert!(!format!("{result:?}").contains(folder.path().to_str().unwrap()), "{result:?}");
    }
    for path in [folder.path().join("missing.avi"), folder.path().to_owned()] {
        assert!(matches!(all(&program, &path), Err(MediaError::Io { .. })));
    }
    // Files of the system that never end have no size either.
    let result = all(&program, &folder.path().join("empty.avi"));
    assert_eq!(result.map(|_| ()), Err(MediaError::Damaged("the file is empty".to_owned())));
    let result = all(Path::new("/nowhere/ffmpeg"), &folder.path().join("text.mp4"));
    assert!(matches!(result, Err(MediaError::Io { .. })), "{result:?}");
}

#[test]
fn damage_is_told_in_the_same_words_each_time() {
    let Some((folder, program)) = studio() else { return };
    for (name, options) in [("a.avi", "-c:v mpeg4"), ("a.ts", "-c:v mpeg2video")] {
        assert!(make(&program, folder.path(), &format!("{SOURCE} {options} {name}")));
        let path = folder.path().join(name);
        let mut file = fs::read(&path).unwrap();
        let (from, to) = (file.len() / 3, file.len() / 3 + 600);
        file[from..to].iter_mut().enumerate().for_each(|(i, byte)| *byte = (i * 37 % 251) as u8);
        file.truncate(to + 3000);
        fs::write(&path, file).unwrap();
        let (sampled, taken) = all(&program, &path).unwrap();
        assert!(!sampled.faults.is_empty() && sampled.faults.len() <= 12, "{name}: {:?}", sampled.faults);
        for fault in &sampled.faults {
            let place = folder.path().to_str().unwrap();
            assert!(!fault.what.contains(" @ 0x") && !fault.what.contains(place), "{fault:?}");
            assert_eq!(fault.frames.len(), taken.len(), "{fault:?}");
        }
        if name == "a.avi" {
            let (again, same) = all(&program, &path).unwrap();
            assert_eq!(again, sampled);
            assert!(same == taken, "{name}: the frames differ from one run to the next");
        }
    }
}

#[test]
fn pictures_that_change_their_size_are_an_error() {
    let Some((folder, program)) = studio() else { return };
    assert!(make(&program, folder.path(), &format!("{SOURCE} -c:v mpeg2video a.ts")));
    assert!(make(&program, folder.path(), "-f lavfi -i testsrc2=s=48x64:r=25:d=0.4 -c:v mpeg2video b.ts"));
    let mut both = fs::read(folder.path().join("a.ts")).unwrap();
    both.extend(fs::read(folder.path().join("b.ts")).unwrap());
    let path = folder.path().join("both.ts");
    fs::write(&path, both).unwrap();
    let result = all(&program, &path);
    assert!(matches!(result, Err(MediaError::Unsupported(_))), "{result:?}");
}

#[test]
fn limits_hold() {
    let Some((folder, program)) = studio() else { return };
    assert!(make(&program, folder.path(), &format!("{SOURCE} -c:v mpeg4 a.avi")));
    let path = folder.path().join("a.avi");
    let limited = |limits: Limits| {
        let mut pick = |_: &[f64], _: f64| Ok(vec![0]);
        let result = ffmpeg::sample(&program, &path, &limits, 1, &mut pick, &mut |_| Ok(()));
        matches!(result, Err(MediaError::Limit(_)))
    };
    assert!(limited(Limits { pixels: 64 * 48 - 1, ..Limits::default() }));
    assert!(limited(Limits { frames: 9, ..Limits::default() }));
    assert!(limited(Limits { decoded: 9, ..Limits::default() }));
    assert!(limited(Limits { file_bytes: 100, ..Limits::default() }));
}

#[test]
fn an_error_of_the_taker_ends_the_decoding() {
    let Some((folder, program)) = studio() else { return };
    assert!(make(&program, folder.path(), &format!("{SOURCE} -c:v mpeg4 a.avi")));
    let stop = || MediaError::Usage("enough".to_owned());
    let path = folder.path().join("a.avi");
    let mut pick = |_: &[f64], _: f64| Ok(vec![0, 1]);
    let result = ffmpeg::sample(&program, &path, &Limits::default(), 1, &mut pick, &mut |_| Err(stop()));
    assert_eq!(result, Err(stop()));
}

/// The variable that makes a test the child of itself, and the file that it then writes.
#[cfg(unix)]
const CHILD: &str = "TEST_FFMPEG_CHILD";

/// This test again, in a process of its own, as the child.
#[cfg(unix)]
fn child(test: &str, file: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.arg(test).env(CHILD, file).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// A file with a mode.
#[cfg(unix)]
fn script(path: &Path, text: &str, mode: u32) {
    use std::os::unix::fs::PermissionsExt;
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[cfg(unix)]
#[test]
fn a_program_that_may_not_be_started_is_passed_over() {
    if let Some(file) = std::env::var_os(CHILD) {
        return fs::write(file, ffmpeg::find().unwrap().to_str().unwrap()).unwrap();
    }
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (folder.path().join("first"), folder.path().join("second"));
    for (place, mode) in [(&first, 0o644), (&second, 0o755)] {
        fs::create_dir(place).unwrap();
        script(&place.join("ffmpeg"), "", mode);
    }
    let file = folder.path().join("found");
    let mut child = child("a_program_that_may_not_be_started_is_passed_over", &file);
    child.env("PATH", std::env::join_paths([&first, &second]).unwrap());
    assert!(child.status().unwrap().success());
    assert_eq!(Path::new(&fs::read_to_string(file).unwrap()), second.join("ffmpeg"));
}

#[cfg(target_os = "linux")]
#[test]
fn the_program_dies_with_a_process_that_is_killed() {
    use std::time::{Duration, Instant};
    if let Some(file) = std::env::var_os(CHILD) {
        // A program that never ends, and says which it is.
        let program = Path::new(&file).with_extension("sh");
        script(
            &program,
            "#!/bin/sh\necho $$ > \"${0%.sh}.part\"; mv \"${0%.sh}.part\" \"${0%.sh}\"; exec sleep 30\n",
            0o755,
        );
        let _ = all(&program, &program);
        return;
    }
    let tied = Command::new("setpriv").args(["--pdeathsig", "KILL", "true"]).stderr(Stdio::null()).status();
    if !tied.is_ok_and(|status| status.success()) {
        return eprintln!("skipped: there is no setpriv");
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("process");
    let mut child = child("the_program_dies_with_a_process_that_is_killed", &file).spawn().unwrap();
    let until = |done: &dyn Fn() -> bool| {
        let start = Instant::now();
        while !done() && start.elapsed() < Duration::from_secs(10) {
            std::thread::sleep(Duration::from_millis(5));
        }
        done()
    };
    let started = until(&|| file.exists());
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(started);
    let status = format!("/proc/{}/status", fs::read_to_string(file).unwrap().trim());
    // Dead, if nobody has asked for its end yet.
    let gone = || fs::read_to_string(&status).map_or(true, |status| status.contains("State:\tZ"));
    assert!(until(&gone), "it still runs");
}
