//! Containers: real clips against what PyAV and ffprobe say of them, hand-made files for what no writer writes, and
//! broken ones.

use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use capjudge::media::codec::Kind;
use capjudge::media::container::{Codec, Index, Turn, index};
use capjudge::media::timeline::Timeline;
use capjudge::media::{Limits, MediaError};

fn read(bytes: &[u8]) -> Result<Index, MediaError> {
    index(&mut Cursor::new(bytes), bytes.len() as u64, &Limits::default())
}

fn good(bytes: &[u8]) -> Index {
    let index = read(bytes).expect("the file is readable");
    assert!(index.faults.is_empty(), "faults: {:?}", index.faults);
    index
}

fn clip(name: &str) -> Vec<u8> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/media").join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn times(index: &Index) -> Vec<i64> {
    index.shown.iter().map(|shown| shown.time).collect()
}

fn keys(index: &Index) -> String {
    index.packets.iter().map(|packet| if packet.key { 'K' } else { '.' }).collect()
}

fn refusal(bytes: &[u8]) -> MediaError {
    read(bytes).expect_err("the file is refused")
}

/// A clip, its codec, seconds a tick, frames as PyAV shows them, key frames as ffprobe has them, end.
type Known = (&'static str, Codec, (u64, u64), Vec<i64>, &'static str, i64);

fn known() -> Vec<Known> {
    let every = |first: i64, step: i64, count: i64| (0..count).map(|frame| first + step * frame).collect::<Vec<_>>();
    let twelve = "K.....K.....";
    let fine = (1, 12800);
    let late = [vec![1024], every(7210, 512, 11)].concat();
    let uneven = [every(0, 512, 5), every(6144, 512, 5)].concat();
    vec![
        ("box-av1.mp4", Codec::Av1, fine, every(0, 512, 4), "K...", 2048),
        ("box-cut.mp4", Codec::H264, fine, every(0, 512, 8), twelve, 4096),
        ("box-fragments-sound.mp4", Codec::H264, fine, late, twelve, 12842),
        ("box-fragments.mp4", Codec::H264, fine, every(1024, 512, 12), twelve, 7168),
        ("box-hevc.mp4", Codec::H265, fine, every(0, 512, 10), "K...K.....", 5120),
        ("box-late.mkv", Codec::H264, (1, 1000), every(500, 40, 12), twelve, 980),
        ("box-late.mp4", Codec::H264, fine, every(6400, 512, 12), twelve, 12544),
        ("box-live.mkv", Codec::H264, (1, 1000), every(0, 40, 12), twelve, 480),
        ("box-uneven.mov", Codec::H264, fine, uneven, "K.........", 8704),
        ("box-vp9.webm", Codec::Vp9, (1, 1000), every(0, 40, 8), "K.......", 320),
    ]
}

#[test]
fn real_clips_show_the_frames_that_pyav_shows_at_its_times() {
    for (name, codec, tick, shown, key, end) in known() {
        let index = good(&clip(name));
        assert_eq!((index.codec, index.tick, index.size), (codec, tick, (64, 48)), "{name}");
        assert_eq!(times(&index), shown, "{name}");
        assert_eq!((keys(&index).as_str(), index.end), (key, end), "{name}");
        assert!(codec == Codec::Vp9 || !index.config.is_empty(), "{name}");
    }
}

#[test]
fn a_cut_that_starts_inside_a_group_keeps_the_packets_it_needs_but_does_not_show_them() {
    let index = good(&clip("box-cut.mp4"));
    assert_eq!((index.packets.len(), index.shown.len()), (12, 8));
    assert!(index.shown.iter().all(|shown| shown.packet != 0), "the key frame is before the cut");
}

// Hand-made MP4 files.

fn part(kind: &str, body: impl AsRef<[u8]>) -> Vec<u8> {
    let body = body.as_ref();
    [&(body.len() as u32 + 8).to_be_bytes(), kind.as_bytes(), body].concat()
}

fn numbers(list: &[u32]) -> Vec<u8> {
    list.iter().flat_map(|number| number.to_be_bytes()).collect()
}

fn table(kind: &str, rows: &[u32], width: u32) -> Vec<u8> {
    part(kind, [numbers(&[0, rows.len() as u32 / width]), numbers(rows)].concat())
}

fn replace(file: &mut [u8], old: &[u8], new: &[u8]) {
    let at = file.windows(old.len()).position(|bytes| bytes == old).expect("it is there");
    file[at..at + new.len()].copy_from_slice(new);
}

/// A movie with one track, whose tables can be replaced. Its samples are one after the other in `mdat`, which is the
/// first box and so has its bytes from 8 on.
struct Movie {
    sizes: Vec<u8>,
    times: Vec<u8>,
    more: Vec<u8>,
    chunks: Vec<u8>,
    edits: Vec<u8>,
    entry: Vec<u8>,
    matrix: [i32; 4],
    bytes: usize,
    tail: Vec<u8>,
}

fn entry(kind: &str, inner: &[u8]) -> Vec<u8> {
    let mut body = vec![0; 78];
    body[24..28].copy_from_slice(&[0, 64, 0, 48]);
    body.extend_from_slice(inner);
    part(kind, body)
}

impl Movie {
    /// `count` samples of 10 bytes and 100 ticks.
    fn new(count: u32) -> Self {
        Self {
            sizes: table("stsz", &[], 1)[..8].to_vec(),
            times: table("stts", &[count, 100], 2),
            more: Vec::new(),
            chunks: [table("stsc", &[1, count, 1], 3), table("stco", &[8], 1)].concat(),
            edits: Vec::new(),
            entry: entry("avc1", &part("avcC", [1, 2, 3])),
            matrix: [1, 0, 0, 1],
            bytes: count as usize * 10,
            tail: Vec::new(),
        }
        .sized(&vec![10; count as usize])
    }

    fn sized(mut self, sizes: &[u32]) -> Self {
        self.sizes = part("stsz", [numbers(&[0, 0, sizes.len() as u32]), numbers(sizes)].concat());
        self
    }

    fn trak(&self, id: u32) -> Vec<u8> {
        let [a, b, c, d] = self.matrix.map(|number| (number << 16) as u32);
        let matrix = numbers(&[a, b, 0, c, d, 0, 0, 0, 1 << 30]);
        // Not enabled, which does not matter.
        let tkhd =
            part("tkhd", [numbers(&[0, 0, 0, id, 0, 0, 0, 0, 0, 0]), matrix, numbers(&[64 << 16, 48 << 16])].concat());
        let stsd = part("stsd", [numbers(&[0, 1]), self.entry.clone()].concat());
        let stbl = part(
            "stbl",
            [stsd, self.times.clone(), self.more.clone(), self.sizes.clone(), self.chunks.clone()].concat(),
        );
        let mdhd = part("mdhd", numbers(&[0, 0, 0, 1000, 0, 0]));
        let hdlr = part("hdlr", [numbers(&[0, 0]), b"vide".to_vec(), vec![0; 13]].concat());
        let mdia = part("mdia", [mdhd, hdlr, part("minf", stbl)].concat());
        part("trak", [tkhd, self.edits.clone(), mdia].concat())
    }

    fn moov(&self) -> Vec<u8> {
        let plain = numbers(&[1 << 16, 0, 0, 0, 1 << 16, 0, 0, 0, 1 << 30]);
        let mvhd = part("mvhd", [numbers(&[0, 0, 0, 1000, 0, 0, 0, 0, 0]), plain, vec![0; 28]].concat());
        part("moov", [mvhd, self.trak(1), self.tail.clone()].concat())
    }

    fn file(&self) -> Vec<u8> {
        [part("mdat", vec![7; self.bytes]), self.moov()].concat()
    }
}

#[test]
fn a_track_without_a_list_of_key_frames_has_nothing_else() {
    let index = good(&Movie::new(4).file());
    assert_eq!((keys(&index).as_str(), times(&index)), ("KKKK", vec![0, 100, 200, 300]));
    assert_eq!((index.packets[3].offset, index.packets[3].size, index.end), (38, 10, 400));
    let mut movie = Movie::new(4);
    movie.more = table("stss", &[], 1);
    assert_eq!(keys(&good(&movie.file())), "K...");
    movie.more = table("stss", &[1, 3], 1);
    assert_eq!(keys(&good(&movie.file())), "K.K.");
}

#[test]
fn negative_delays_count_as_such_in_either_version_of_the_table() {
    for version in [0, 1 << 24] {
        let mut movie = Movie::new(5);
        let rows = [1, 0, 1, 200, 1, (-100_i32) as u32, 1, (-100_i32) as u32, 1, 0];
        movie.more = part("ctts", [numbers(&[version, 5]), numbers(&rows)].concat());
        let index = good(&movie.file());
        // Dts 0, 100, 200, 300, 400 and delays 0, 200, -100, -100, 0.
        assert_eq!(index.packets.iter().map(|packet| packet.pts).collect::<Vec<_>>(), [0, 300, 100, 200, 400]);
        assert_eq!(times(&index), [0, 100, 200, 300, 400]);
    }
}

#[test]
fn sizes_of_four_bits_and_offsets_of_eight_bytes_are_read() {
    let mut movie = Movie::new(3);
    movie.sizes = part("stz2", [numbers(&[0, 4, 3]), vec![0x9a, 0xb0]].concat());
    movie.chunks = [table("stsc", &[1, 2, 1, 2, 1, 1], 3), part("co64", numbers(&[0, 2, 0, 19, 0, 8]))].concat();
    let index = good(&movie.file());
    let places: Vec<_> = index.packets.iter().map(|packet| (packet.offset, packet.size)).collect();
    assert_eq!(places, [(19, 9), (28, 10), (8, 11)]);
}

#[test]
fn boxes_with_long_sizes_or_none_are_found() {
    let movie = Movie::new(2);
    let long = [&1_u32.to_be_bytes()[..], b"free", &24_u64.to_be_bytes(), &[0; 8]].concat();
    let file = [part("mdat", vec![7; 20]), long, movie.moov(), vec![0, 0, 0, 0], b"mdat".to_vec(), vec![1; 9]].concat();
    assert_eq!(good(&file).packets.len(), 2);
}

#[test]
fn edits_delay_trim_and_repeat() {
    let mut movie = Movie::new(10);
    let list = |edits: &[(u32, i32)]| {
        let rows: Vec<u32> = edits.iter().flat_map(|(duration, start)| [*duration, *start as u32, 1 << 16]).collect();
        part("edts", table("elst", &rows, 3))
    };
    movie.edits = list(&[(250, -1), (1000, 0)]);
    assert_eq!(times(&good(&movie.file()))[..2], [250, 350]);
    movie.edits = list(&[(300, 500)]);
    assert_eq!(times(&good(&movie.file())), [0, 100, 200]);
    movie.edits = list(&[(200, 500), (200, 0), (100, 500)]);
    let index = good(&movie.file());
    let shown: Vec<_> = index.shown.iter().map(|shown| (shown.packet, shown.time)).collect();
    assert_eq!(shown, [(5, 0), (6, 100), (0, 200), (1, 300), (5, 400)]);
}

#[test]
fn frames_of_two_edits_are_not_mixed_where_their_times_meet() {
    let mut movie = Movie::new(6);
    // Three frames, of which the last is shown for 100 ticks, but its edit ends after 50 of them.
    movie.edits = part("edts", table("elst", &[250, 300, 1 << 16, 200, 0, 1 << 16], 3));
    let index = good(&movie.file());
    let shown: Vec<_> = index.shown.iter().map(|shown| (shown.packet, shown.time)).collect();
    assert_eq!(shown, [(3, 0), (4, 100), (5, 200), (0, 250), (1, 350)]);
    // With pictures out of order, the second edit can begin before the first one's last frame.
    let mut movie = Movie::new(7);
    let delays = [1, 100, 1, 300, 2, 0, 1, 300, 2, 0];
    movie.more = [table("stss", &[1], 1), table("ctts", &delays, 2)].concat();
    movie.edits = part("edts", table("elst", &[450, 300, 1 << 16, 300, 100, 1 << 16], 3));
    let index = good(&movie.file());
    let shown: Vec<_> = index.shown.iter().map(|shown| (shown.packet, shown.time)).collect();
    assert_eq!(shown, [(3, 0), (1, 100), (5, 200), (6, 300), (4, 400), (0, 350), (2, 450), (3, 550)]);
}

#[test]
fn the_first_video_track_is_shown_whatever_its_length_or_size() {
    let mut movie = Movie::new(1);
    let second = Movie { bytes: 0, ..Movie::new(5) };
    movie.tail = second.trak(2);
    assert_eq!(good(&movie.file()).packets.len(), 1);
    // The pictures of chapters are no video.
    let chapters = part("tref", part("chap", numbers(&[1])));
    let trak = second.trak(2);
    movie.tail = part("trak", [chapters, trak[8..].to_vec()].concat());
    movie.bytes = 50;
    assert_eq!(good(&movie.file()).packets.len(), 5);
}

#[test]
fn what_is_coded_as_video_is_video_whatever_its_handler_is_called() {
    let mut file = Movie::new(3).file();
    replace(&mut file, b"vide", b"vid\xff");
    assert_eq!(good(&file).packets.len(), 3);
    replace(&mut file, b"vid\xff", b"soun");
    assert!(matches!(refusal(&file), MediaError::Unsupported(text) if text.contains("no video track")));
}

#[test]
fn a_time_scale_of_zero_is_refused() {
    let mut file = Movie::new(3).file();
    replace(&mut file, &part("mdhd", numbers(&[0, 0, 0, 1000, 0, 0])), &part("mdhd", numbers(&[0; 6])));
    assert!(matches!(refusal(&file), MediaError::Damaged(text) if text.contains("time scale of 0")));
}

#[test]
fn tables_with_damaged_names_are_a_fault() {
    let mut movie = Movie::new(4);
    movie.more = table("ctts", &[4, 100], 2);
    movie.edits = part("edts", table("elst", &[400, 100, 1 << 16], 3));
    let file = movie.file();
    assert_eq!(times(&good(&file)), [0, 100, 200, 300]);
    for name in ["ctts", "edts", "elst"] {
        let mut broken = file.clone();
        let letter = broken.windows(4).position(|four| four == name.as_bytes()).expect("it is there");
        broken[letter] ^= 0x10;
        let faults = read(&broken).expect("readable").faults;
        assert!(faults.iter().any(|fault| fault.contains("damaged table")), "{name}: {faults:?}");
    }
}

#[test]
fn times_that_no_stream_can_have_are_a_fault() {
    let order = "wrong order";
    let mut movie = Movie::new(40);
    movie.more = table("stss", &[1], 1);
    let with = |delays: &[u32]| [table("stss", &[1], 1), table("ctts", delays, 2)].concat();
    movie.more = with(&[2, 0, 1, 5000, 37, 0]);
    assert!(read(&movie.file()).expect("readable").faults[0].contains(order));
    movie.more = with(&[2, 0, 1, 3000, 37, 0]);
    assert_eq!(good(&movie.file()).shown.len(), 40, "so many pictures may be kept");
    movie.more = [table("stss", &[1, 5], 1), table("ctts", &[2, 0, 1, 250, 37, 0], 2)].concat();
    assert!(read(&movie.file()).expect("readable").faults[0].contains(order), "shown after a key frame that follows");
    let blocks = [block(1, 0, 0x80, &[1]), block(1, 40, 0, &[1]), block(1, 20, 0, &[1])];
    let index = read(&matroska(&vp9(&[]), &[cluster(0, &blocks)])).expect("readable");
    assert!(index.faults[0].contains(order), "VP9 has its pictures in order");
    let movie = Movie { times: table("stts", &[1, 100, 1, 90_000_000, 2, 100], 2), ..Movie::new(4) };
    assert!(read(&movie.file()).expect("readable").faults[0].contains("more than a day"));
}

#[test]
fn a_display_matrix_becomes_quarter_turns() {
    let turns = [
        ([1, 0, 0, 1], 0, false),
        ([0, 1, -1, 0], 1, false),
        ([-1, 0, 0, -1], 2, false),
        ([0, -1, 1, 0], 3, false),
        ([-1, 0, 0, 1], 0, true),
        ([1, 0, 0, -1], 2, true),
        ([0, 1, 1, 0], 3, true),
        ([0, -1, -1, 0], 1, true),
    ];
    for (matrix, quarters, mirrored) in turns {
        let movie = Movie { matrix, ..Movie::new(1) };
        assert_eq!(good(&movie.file()).turn, Turn { quarters, mirrored }, "{matrix:?}");
    }
}

#[test]
fn the_colour_of_the_container_is_kept() {
    let mut movie = Movie::new(1);
    let colr = part("colr", [b"nclx".as_slice(), &[0, 1, 0, 1, 0, 9, 0x80]].concat());
    movie.entry = entry("avc1", &[part("avcC", [1]), colr].concat());
    let colour = good(&movie.file()).colour;
    assert_eq!((colour.matrix, colour.full_range), (Some(9), Some(true)));
}

#[test]
fn other_codecs_are_named_and_the_remedy_with_them() {
    for (kind, name) in [("mp4v", "mp4v"), ("vp08", "vp08"), ("ap4h", "ProRes"), ("xyz1", "xyz1")] {
        let movie = Movie { entry: entry(kind, &[]), ..Movie::new(1) };
        let MediaError::Unsupported(text) = refusal(&movie.file()) else { panic!("{kind} is not unsupported") };
        assert!(text.contains(name) && text.contains("--decoder ffmpeg"), "{text}");
    }
    let movie = Movie { entry: entry("encv", &[]), ..Movie::new(1) };
    assert!(matches!(refusal(&movie.file()), MediaError::Unsupported(text) if text.contains("encrypted")));
}

#[test]
fn a_file_that_is_cut_off_says_how_many_frames_are_missing() {
    let mut movie = Movie::new(10);
    // The index first, so that the cut is in the pictures.
    let moov = movie.moov().len() as u32;
    movie.chunks = [table("stsc", &[1, 10, 1], 3), table("stco", &[moov + 8], 1)].concat();
    let file = [movie.moov(), part("mdat", vec![7; 100])].concat();
    assert_eq!(good(&file).packets.len(), 10);
    let index = read(&file[..file.len() - 35]).expect("six frames are there");
    assert_eq!((index.packets.len(), index.shown.len()), (6, 6));
    assert_eq!(index.faults, ["the file is cut off: 4 of its 10 frames are not there"]);
}

#[test]
fn a_file_without_its_index_says_so() {
    let file = Movie::new(10).file();
    let MediaError::Damaged(text) = refusal(&file[..60]) else { panic!("not damaged") };
    assert!(text.contains("cut off") && text.contains("moov"), "{text}");
    let MediaError::Damaged(text) = refusal(&file[..file.len() - 50]) else { panic!("not damaged") };
    assert!(text.contains("inside its index"), "{text}");
}

#[test]
fn tables_that_contradict_each_other_are_a_fault() {
    let movie = Movie { times: table("stts", &[3, 100], 2), ..Movie::new(5) };
    let index = read(&movie.file()).expect("readable");
    assert_eq!(times(&index), [0, 100, 200, 300, 400], "the last duration goes on");
    assert!(index.faults[0].contains("5 frames, but times for 3"), "{:?}", index.faults);
    let movie = Movie { chunks: [table("stsc", &[1, 2, 1], 3), table("stco", &[8], 1)].concat(), ..Movie::new(5) };
    let index = read(&movie.file()).expect("readable");
    assert!(index.faults[0].contains("3 of 5 frames are nowhere"), "{:?}", index.faults);
    let chunks = [table("stsc", &[1, 2, 1, 2, 3, 1], 3), table("stco", &[8, 13], 1)].concat();
    let index = read(&Movie { chunks, ..Movie::new(5) }.file()).expect("readable");
    assert!(index.faults[0].contains("share their bytes"), "{:?}", index.faults);
}

#[test]
fn delays_that_make_no_sense_are_a_fault() {
    for (rows, what) in [
        (vec![3, 0], "delays for 3"),
        (vec![9, 0], "delays for 9"),
        (vec![1, 1 << 30, 1, 0, 1, 0, 2, 0], "make no sense"),
    ] {
        let movie = Movie { more: table("ctts", &rows, 2), ..Movie::new(5) };
        let faults = read(&movie.file()).expect("readable").faults;
        assert!(faults.iter().any(|fault| fault.contains(what)), "{what}: {faults:?}");
    }
}

#[test]
fn samples_without_bytes_are_no_frames() {
    let index = good(&Movie::new(3).sized(&[10, 0, 10]).file());
    assert_eq!((index.packets.len(), times(&index)), (2, vec![0, 200]));
}

#[test]
fn a_small_file_that_claims_many_frames_is_refused_at_once() {
    let begun = Instant::now();
    for (size, count) in [(0, 1_000_000), (10, 1_000_000), (1, u32::MAX), (0, u32::MAX)] {
        let movie = Movie { sizes: part("stsz", numbers(&[0, size, count])), ..Movie::new(4) };
        let error = refusal(&movie.file());
        assert!(matches!(error, MediaError::Limit(_) | MediaError::Damaged(_)), "{error}");
        assert!(error.to_string().contains(&count.to_string()), "{error}");
    }
    assert!(begun.elapsed() < Duration::from_secs(1));
}

#[test]
fn edits_that_repeat_without_end_are_refused() {
    let mut movie = Movie::new(2000);
    let rows: Vec<u32> = (0..20_000).flat_map(|_| [200_000, 0, 1 << 16]).collect();
    movie.edits = part("edts", table("elst", &rows, 3));
    assert!(matches!(refusal(&movie.file()), MediaError::Limit(_)));
}

/// A fragmented movie: no samples in `moov`, and one `moof` box with these.
fn fragmented(traf: &[Vec<u8>], mdat: usize) -> Vec<u8> {
    let mut movie = Movie::new(0);
    movie.times = table("stts", &[], 2);
    movie.chunks = [table("stsc", &[], 3), table("stco", &[], 1)].concat();
    movie.tail = part("mvex", part("trex", numbers(&[0, 1, 1, 100, 10, 0x0101_0000])));
    let moof = part("moof", [part("mfhd", numbers(&[0, 1])), part("traf", traf.concat())].concat());
    [movie.moov(), moof, part("mdat", vec![7; mdat])].concat()
}

#[test]
fn runs_of_a_fragment_follow_each_other_where_they_do_not_say() {
    let tfhd = part("tfhd", numbers(&[0x2_0000, 1]));
    let tfdt = part("tfdt", numbers(&[0, 5000]));
    // The first says where its bytes are and that its first sample is a key frame.
    let one = |offset: u32| part("trun", numbers(&[0x005, 2, offset, 0]));
    let two = part("trun", numbers(&[0x200, 2, 20, 30]));
    let offset = {
        let moof = part(
            "moof",
            [part("mfhd", numbers(&[0, 1])), part("traf", [tfhd.clone(), tfdt.clone(), one(0), two.clone()].concat())]
                .concat(),
        );
        moof.len() as u32 + 8
    };
    let file = fragmented(&[tfhd, tfdt, one(offset), two], 70);
    let index = good(&file);
    let start = file.len() as u64 - 70;
    let places: Vec<_> = index.packets.iter().map(|packet| (packet.offset - start, packet.size)).collect();
    assert_eq!(places, [(0, 10), (10, 10), (20, 20), (40, 30)]);
    assert_eq!((times(&index), keys(&index).as_str()), (vec![5000, 5100, 5200, 5300], "K..."));
}

#[test]
fn a_fragment_that_claims_many_frames_without_a_byte_is_refused_at_once() {
    let begun = Instant::now();
    let tfhd = part("tfhd", numbers(&[0x2_0000, 1]));
    for count in [900_000, u32::MAX] {
        let error = refusal(&fragmented(&[tfhd.clone(), part("trun", numbers(&[0, count]))], 10));
        assert!(matches!(error, MediaError::Limit(_) | MediaError::Damaged(_)), "{error}");
    }
    assert!(begun.elapsed() < Duration::from_secs(1));
}

/// A fragmented file with one good fragment of two frames and another that is to be changed.
fn two_fragments(change: impl Fn(&mut Vec<u8>)) -> Index {
    let fragment = |time: u32| {
        let tfhd = part("tfhd", numbers(&[0x2_0000, 1]));
        let tfdt = part("tfdt", numbers(&[0, time]));
        let traf = part("traf", [tfhd, tfdt, part("trun", numbers(&[0x001, 2, 92]))].concat());
        let moof = part("moof", [part("mfhd", numbers(&[0, 1])), traf].concat());
        [moof, part("mdat", vec![7; 20])].concat()
    };
    let mut second = fragment(200);
    assert_eq!(second.len(), 92 + 20, "the place of the bytes is right");
    change(&mut second);
    let mut movie = Movie::new(0);
    movie.times = table("stts", &[], 2);
    movie.chunks = [table("stsc", &[], 3), table("stco", &[], 1)].concat();
    movie.tail = part("mvex", part("trex", numbers(&[0, 1, 1, 100, 10, 0])));
    read(&[movie.moov(), fragment(0), second, fragment(400)].concat()).expect("readable")
}

#[test]
fn a_fragment_that_is_left_out_is_a_fault() {
    let whole = two_fragments(|_| {});
    assert_eq!((times(&whole), whole.faults.len()), (vec![0, 100, 200, 300, 400, 500], 0));
    // Each of these hides frames.
    type Change = (&'static str, fn(&mut Vec<u8>));
    let changes: [Change; 10] = [
        ("track that does not exist", |file| replace(file, &numbers(&[0x2_0000, 1]), &numbers(&[0x2_0000, 9]))),
        ("`moog`", |file| replace(file, b"moof", b"moog")),
        ("`trag`", |file| replace(file, b"traf", b"trag")),
        ("`trum`", |file| replace(file, b"trun", b"trum")),
        ("which track", |file| replace(file, b"tfhd", b"free")),
        ("`trun`", |file| replace(file, &numbers(&[0x001, 2]), &numbers(&[0x0500_0001, 2]))),
        ("claims 2 frames", |file| replace(file, &numbers(&[0x001, 2]), &numbers(&[0x201, 2]))),
        ("more or less", |file| replace(file, &numbers(&[0x2_0000, 1]), &numbers(&[0x2_0010, 1]))),
        ("overlap", |file| replace(file, &numbers(&[0, 200]), &numbers(&[0, 50]))),
        ("longer than the box", |file| replace(file, &84_u32.to_be_bytes(), &80_u32.to_be_bytes())),
    ];
    for (what, change) in changes {
        let faults = two_fragments(change).faults;
        assert!(faults.iter().any(|fault| fault.contains(what)), "{what}: {faults:?}");
    }
    // A size that swallows all that follows.
    let swallowed = two_fragments(|file| file[84..88].copy_from_slice(&[0x7f, 0, 0, 0]));
    assert_eq!(swallowed.packets.len(), 4);
    assert!(swallowed.faults[0].contains("cut off"), "{:?}", swallowed.faults);
}

#[test]
fn fragments_without_their_defaults_are_a_fault() {
    let tfhd = part("tfhd", numbers(&[0x2_0010, 1, 10]));
    let mut file = fragmented(&[tfhd, part("trun", numbers(&[0x101, 1, 0, 100]))], 30);
    assert_eq!(good(&file).packets.len(), 1);
    replace(&mut file, b"trex", b"trey");
    assert!(read(&file).expect("readable").faults[0].contains("`trex`"));
}

#[test]
fn a_missing_table_is_a_fault_also_where_fragments_follow() {
    let mut movie = Movie::new(2);
    movie.tail = part("mvex", part("trex", numbers(&[0, 1, 1, 100, 10, 0])));
    let traf = |offset: u32| {
        let tfhd = part("tfhd", numbers(&[0x2_0000, 1]));
        part("moof", part("traf", [tfhd, part("trun", numbers(&[0x001, 3, offset]))].concat()))
    };
    let offset = traf(0).len() as u32 + 8;
    let file = [part("mdat", vec![7; 20]), movie.moov(), traf(offset), part("mdat", vec![7; 30])].concat();
    assert_eq!(times(&good(&file)), [0, 100, 200, 300, 400]);
    let mut broken = file.clone();
    replace(&mut broken, b"stsz", b"free");
    let index = read(&broken).expect("three frames are there");
    assert_eq!(index.packets.len(), 3);
    assert!(index.faults[0].contains("contradict"), "{:?}", index.faults);
}

// Hand-made Matroska files.

fn element(id: u32, body: impl AsRef<[u8]>) -> Vec<u8> {
    let name: Vec<u8> = id.to_be_bytes().into_iter().skip_while(|byte| *byte == 0).collect();
    let size = (1 << 28 | body.as_ref().len() as u32).to_be_bytes();
    [&name, size.as_slice(), body.as_ref()].concat()
}

fn unsized_element(id: u32, body: impl AsRef<[u8]>) -> Vec<u8> {
    [&id.to_be_bytes()[..], &[0xff], body.as_ref()].concat()
}

fn header() -> Vec<u8> {
    element(0x1a45_dfa3, element(0x4282, "webm"))
}

fn track(number: u8, codec: &str, more: &[u8]) -> Vec<u8> {
    let video = element(0xe0, [element(0xb0, [64]), element(0xba, [48])].concat());
    element(0xae, [element(0xd7, [number]), element(0x83, [1]), element(0x86, codec), video, more.to_vec()].concat())
}

fn block(track: u8, time: i16, flags: u8, bytes: &[u8]) -> Vec<u8> {
    element(0xa3, [&[0x80 | track], time.to_be_bytes().as_slice(), &[flags], bytes].concat())
}

fn cluster(time: u8, blocks: &[Vec<u8>]) -> Vec<u8> {
    element(0x1f43_b675, [element(0xe7, [time]), blocks.concat()].concat())
}

fn matroska(tracks: &[Vec<u8>], clusters: &[Vec<u8>]) -> Vec<u8> {
    let segment = [element(0x1654_ae6b, tracks.concat()), clusters.concat()].concat();
    [header(), element(0x1853_8067, segment)].concat()
}

fn vp9(more: &[u8]) -> Vec<Vec<u8>> {
    vec![track(1, "V_VP9", more)]
}

#[test]
fn blocks_and_groups_of_blocks_are_packets() {
    let group = |time: i16, more: Vec<u8>| {
        let block = element(0xa1, [&[0x81], time.to_be_bytes().as_slice(), &[0, 5, 5]].concat());
        element(0xa0, [block, more].concat())
    };
    let blocks =
        [block(1, 0, 0x80, &[1, 2, 3]), block(1, 20, 0, &[4]), group(10, element(0xfb, [0xf6])), group(30, Vec::new())];
    let late = group(40, [element(0x9b, [25]), element(0xfb, [0xf6])].concat());
    let tracks = [track(1, "V_MPEG4/ISO/AVC", &element(0x63a2, [1, 2, 3]))];
    let index = good(&matroska(&tracks, &[cluster(100, &blocks), cluster(100, &[late])]));
    assert_eq!((times(&index), keys(&index).as_str()), (vec![100, 110, 120, 130, 140], "K..K."));
    assert_eq!(index.shown.iter().map(|shown| shown.packet).collect::<Vec<_>>(), [0, 2, 1, 3, 4]);
    assert_eq!((index.tick, index.end), ((1, 1000), 165));
}

#[test]
fn all_three_kinds_of_lacing_are_taken_apart() {
    let duration = element(0x23_e383, 10_000_000_u32.to_be_bytes());
    let cases: [(u8, Vec<u8>, [u32; 3]); 3] = [
        // Xiph: two sizes in bytes, the rest is the last one's.
        (0x82, [vec![2, 255, 1, 3], vec![0; 256 + 3 + 4]].concat(), [256, 3, 4]),
        (0x84, [vec![2], vec![0; 9]].concat(), [3, 3, 3]),
        // EBML: a size, then a difference.
        (0x86, [vec![2, 0x85, 0xbd], vec![0; 5 + 3 + 6]].concat(), [5, 3, 6]),
    ];
    for (flags, bytes, sizes) in cases {
        let file = matroska(&vp9(&duration), &[cluster(0, &[block(1, 0, flags, &bytes)])]);
        let index = good(&file);
        assert_eq!(index.packets.iter().map(|packet| packet.size).collect::<Vec<_>>(), sizes, "{flags:x}");
        let last = index.packets[2];
        assert_eq!(last.offset + u64::from(last.size), file.len() as u64);
        assert_eq!((times(&index), keys(&index).as_str()), (vec![0, 10, 20], "K.."));
    }
    let broken = matroska(&vp9(&[]), &[cluster(0, &[block(1, 0, 0x80, &[1]), block(1, 9, 0x82, &[9, 255])])]);
    assert_eq!(read(&broken).expect("one frame is there").faults.len(), 1);
}

#[test]
fn stripped_headers_stand_before_each_packet_and_compression_is_refused() {
    let encoding = |algorithm: u8| {
        let how = element(0x5034, [element(0x4254, [algorithm]), element(0x4255, [1, 2])].concat());
        element(0x6d80, element(0x6240, how))
    };
    let clusters = [cluster(0, &[block(1, 0, 0x80, &[3])])];
    assert_eq!(good(&matroska(&vp9(&encoding(3)), &clusters)).prefix, [1, 2]);
    assert!(matches!(refusal(&matroska(&vp9(&encoding(0)), &clusters)), MediaError::Unsupported(_)));
    let MediaError::Unsupported(text) = refusal(&matroska(&[track(1, "V_VP8", &[])], &clusters)) else { panic!() };
    assert!(text.contains("V_VP8") && text.contains("--decoder ffmpeg"), "{text}");
}

#[test]
fn parts_of_unknown_size_end_where_the_next_begins() {
    let inner = |time: u8| [element(0xe7, [time]), block(1, 0, 0x80, &[1]), element(0xec, [0; 5])].concat();
    let clusters = [unsized_element(0x1f43_b675, inner(0)), unsized_element(0x1f43_b675, inner(50))].concat();
    let segment = unsized_element(0x1853_8067, [element(0x1654_ae6b, vp9(&[]).concat()), clusters].concat());
    let file = [header(), segment].concat();
    let index = good(&file);
    assert_eq!((times(&index), index.end), (vec![0, 50], 100));
    // Without a size, only an element that is not whole tells that something is missing.
    let cut = read(&file[..file.len() - 11]).expect("one frame is there");
    assert_eq!((cut.packets.len(), cut.faults.len()), (1, 1), "{:?}", cut.faults);
}

#[test]
fn a_matroska_file_that_is_cut_off_says_so() {
    let file = matroska(&vp9(&[]), &[cluster(0, &[block(1, 0, 0x80, &[1; 9]), block(1, 40, 0, &[1; 9])])]);
    let index = read(&file[..file.len() - 4]).expect("one frame is there");
    assert_eq!(index.packets.len(), 1);
    assert!(index.faults[0].contains("cut off: 4 of its"), "{:?}", index.faults);
}

#[test]
fn tracks_may_come_last_and_damage_is_skipped() {
    let tracks = element(0x1654_ae6b, vp9(&[]).concat());
    let clusters = [cluster(0, &[block(1, 0, 0x80, &[1])]), vec![0; 7], cluster(40, &[block(1, 0, 0, &[2])])].concat();
    let file = [header(), element(0x1853_8067, [tracks.clone(), clusters].concat())].concat();
    let index = read(&file).expect("readable");
    assert_eq!((times(&index), index.faults.len()), (vec![0, 40], 1), "{:?}", index.faults);
    let file = [header(), element(0x1853_8067, [cluster(5, &[block(1, 0, 0x80, &[1])]), tracks].concat())].concat();
    assert_eq!(times(&good(&file)), [5]);
}

#[test]
fn the_first_video_track_of_a_matroska_file_is_shown_whatever_is_marked() {
    let tracks = [track(1, "V_VP9", &[element(0x88, [0]), element(0xb9, [0])].concat()), track(2, "V_VP9", &[])];
    let blocks = [block(1, 0, 0x80, &[1]), block(2, 0, 0x80, &[1]), block(2, 40, 0, &[1])];
    assert_eq!(good(&matroska(&tracks, &[cluster(0, &blocks)])).packets.len(), 1);
}

#[test]
fn blocks_that_are_left_out_are_a_fault() {
    let plain = |blocks: &[Vec<u8>]| read(&matroska(&vp9(&[]), &[cluster(0, blocks)])).expect("readable");
    let first = block(1, 0, 0x80, &[1; 9]);
    let last = block(1, 80, 0, &[1; 9]);
    let mut renamed = block(1, 40, 0, &[1; 9]);
    renamed[0] = 0xa5;
    let empty_group = element(0xa0, element(0x9b, [1]));
    for (odd, what) in [
        (block(7, 40, 0, &[1; 9]), "track that does not exist"),
        (renamed, "damaged at byte"),
        (empty_group, "damaged at byte"),
        (block(1, 40, 0, &[]), "no bytes"),
    ] {
        let index = plain(&[first.clone(), odd, last.clone()]);
        assert_eq!(times(&index), [0, 80], "{what}");
        assert!(index.faults.iter().any(|fault| fault.contains(what)), "{what}: {:?}", index.faults);
    }
    let sound = element(0xae, [element(0xd7, [7]), element(0x83, [2]), element(0x86, "A_OPUS")].concat());
    let tracks = [vp9(&[]).concat(), sound];
    good(&matroska(&tracks, &[cluster(0, &[first, block(7, 40, 0x80, &[1; 9])])]));
}

#[test]
fn a_segment_that_goes_on_behind_its_end_is_read_on_with_a_fault() {
    let clusters = [cluster(0, &[block(1, 0, 0x80, &[1; 9])]), cluster(40, &[block(1, 0, 0, &[1; 9])])];
    let file = matroska(&vp9(&[]), &clusters);
    let size = header().len() + 4;
    let whole = file.len() - size - 4;
    let one = clusters[1].len();
    // In the middle of a cluster, and between two.
    for short in [one + 5, one - 7, one] {
        let mut lies = file.clone();
        lies[size..size + 4].copy_from_slice(&(1 << 28 | (whole - short) as u32).to_be_bytes());
        let index = read(&lies).expect("readable");
        assert_eq!(times(&index), [0, 40], "{short}");
        assert!(index.faults.iter().any(|fault| fault.contains("longer than it says")), "{:?}", index.faults);
    }
    assert_eq!(good(&[file.clone(), element(0xec, [0; 9]), vec![0; 5]].concat()).packets.len(), 2);
    let twice = read(&[file.clone(), file].concat()).expect("readable");
    assert_eq!((twice.packets.len(), twice.faults.len()), (2, 1), "{:?}", twice.faults);
}

#[test]
fn a_cluster_that_claims_to_be_longer_than_the_file_is_read_with_a_fault() {
    let long = [&[0x1f, 0x43, 0xb6, 0x75, 0x01], [0x7f; 7].as_slice()].concat();
    let inner = [element(0xe7, [0]), block(1, 0, 0x80, &[1; 9])].concat();
    let next = cluster(40, &[block(1, 0, 0, &[1; 9])]);
    let index = read(&matroska(&vp9(&[]), &[long.clone(), inner, next.clone()])).expect("readable");
    assert_eq!((times(&index), index.faults.len()), (vec![0, 40], 1), "{:?}", index.faults);
    // Where its first bytes are none of an element, the next cluster is looked for.
    let index =
        read(&matroska(&vp9(&[]), &[long, vec![0x87, 0x83, 1, 2, 3, 0x99, 0xff, 0xff], next])).expect("readable");
    assert_eq!(times(&index), [40]);
    assert!(!index.faults.is_empty());
}

#[test]
fn a_flat_projection_turns_the_picture() {
    for (yaw, roll, quarters, mirrored) in
        [(0.0, 90.0, 3, false), (0.0, -90.0, 1, false), (0.0, 180.0, 2, false), (180.0, 0.0, 0, true)]
    {
        let number = |id, value: f32| element(id, value.to_be_bytes());
        let projection = element(0x7670, [number(0x7673, yaw), number(0x7675, roll)].concat());
        let video = element(0xe0, [element(0xb0, [64]), element(0xba, [48]), projection].concat());
        let entry = [element(0xd7, [1]), element(0x83, [1]), element(0x86, "V_VP9"), video].concat();
        let index = good(&matroska(&[element(0xae, entry)], &[cluster(0, &[block(1, 0, 0x80, &[1])])]));
        assert_eq!(index.turn, Turn { quarters, mirrored }, "{yaw} {roll}");
    }
}

#[test]
fn other_files_are_named() {
    for (start, name) in
        [(b"RIFF\0\0\0\0AVI LIST".as_slice(), "AVI"), (b"OggS\0\0\0\0", "Ogg"), (b"hello, world", "not MP4")]
    {
        let MediaError::Unsupported(text) = refusal(start) else { panic!("{name}") };
        assert!(text.contains(name), "{text}");
    }
    assert!(matches!(refusal(b""), MediaError::Damaged(_)));
}

/// What must hold for any index, whatever the file.
fn check(file: &[u8], what: &str) {
    let Ok(index) = read(file) else { return };
    assert!(!index.packets.is_empty() && !index.shown.is_empty(), "{what}");
    for packet in &index.packets {
        assert!(packet.size > 0 && packet.offset + u64::from(packet.size) <= file.len() as u64, "{what}");
    }
    assert!(index.shown.iter().all(|shown| shown.packet < index.packets.len()), "{what}");
    let kind = |key| Kind { start: key, leading: false, reference: true, shows: true };
    let kinds: Vec<Kind> = index.packets.iter().map(|packet| kind(packet.key)).collect();
    let timeline = Timeline::new(&index, &kinds);
    let all: Vec<usize> = (0..timeline.len()).collect();
    let wanted: usize = timeline.runs(&all).iter().map(|run| run.wanted.len()).sum();
    assert_eq!(wanted, timeline.len(), "{what}");
    assert!(timeline.duration() >= 0.0 && timeline.frame_time(0).is_finite(), "{what}");
}

#[test]
fn no_broken_byte_and_no_cut_makes_it_panic_or_hang() {
    let begun = Instant::now();
    for (name, ..) in known() {
        let file = clip(name);
        let mut broken = file.clone();
        // Packets are never read, so that what is in them does not matter.
        let packets = good(&file).packets;
        let inside = |at: u64| {
            packets.iter().any(|packet| (packet.offset..packet.offset + u64::from(packet.size)).contains(&at))
        };
        for at in (0..file.len()).filter(|at| !inside(*at as u64)) {
            for byte in [0x00, 0xff, file[at] ^ 0x80] {
                broken[at] = byte;
                check(&broken, &format!("{name}, byte {at} set to {byte:#x}"));
            }
            broken[at] = file[at];
        }
        for cut in (0..file.len()).step_by(7) {
            check(&file[..cut], &format!("{name} cut at {cut}"));
        }
    }
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
}

/// What ffprobe says of each packet: where it is, when it is shown, and its flags.
fn probed(path: &Path) -> Option<Vec<(u64, i64, String)>> {
    let entries =
        ["-v", "error", "-select_streams", "v:0", "-show_entries", "packet=pts,pos,flags", "-of", "compact=p=0:nk=0"];
    let output = Command::new("ffprobe").args(entries).arg(path).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let field = |line: &str, name: &str| {
        line.split('|').find_map(|field| field.strip_prefix(name)?.strip_prefix('=').map(str::to_owned))
    };
    let row = |line: &str| {
        Some((field(line, "pos")?.parse().ok()?, field(line, "pts")?.parse().ok()?, field(line, "flags")?))
    };
    Some(text.lines().filter_map(row).collect())
}

#[test]
fn what_ffmpeg_writes_is_read_as_ffprobe_reads_it() {
    let folder = tempfile::tempdir().expect("a folder for the clips");
    let source = folder.path().join("source.mp4");
    let source_name = source.to_string_lossy().into_owned();
    let ffmpeg = |args: &str, to: &Path| {
        let args = args.replace("SOURCE", &source_name);
        let status = Command::new("ffmpeg").args(["-v", "error", "-y"]).args(args.split(' ')).arg(to).status();
        status.is_ok_and(|status| status.success())
    };
    if !ffmpeg("-f lavfi -i testsrc2=size=64x48:rate=25:duration=2 -c:v libx264 -preset ultrafast -g 10 -bf 3", &source)
    {
        eprintln!("not checked: there is no ffmpeg with libx264 here");
        return;
    }
    let clips = [
        ("-ss 0.5 -i SOURCE -t 0.7 -c copy", "mp4"),
        ("-i SOURCE -ss 0.5 -t 0.7 -c copy", "mov"),
        ("-ss 0.3 -i SOURCE -c copy -movflags negative_cts_offsets", "mp4"),
        ("-ss 0.3 -i SOURCE -c copy -movflags frag_keyframe", "mp4"),
        ("-i SOURCE -c copy -movflags frag_every_frame+empty_moov+negative_cts_offsets", "mp4"),
        ("-itsoffset 1.5 -i SOURCE -c copy -movie_timescale 44100", "mp4"),
        ("-i SOURCE -c copy -movflags dash+frag_keyframe+empty_moov+global_sidx", "mp4"),
    ];
    for (number, (args, extension)) in clips.into_iter().enumerate() {
        let path = folder.path().join(format!("{number}.{extension}"));
        assert!(ffmpeg(args, &path), "{args}");
        let Some(packets) = probed(&path) else {
            eprintln!("not checked: there is no ffprobe here");
            return;
        };
        let index = good(&std::fs::read(&path).expect("the clip"));
        let mut theirs: Vec<_> =
            packets.iter().filter(|(.., flags)| !flags.contains('D')).map(|(at, time, _)| (*at, *time)).collect();
        let mut ours: Vec<_> =
            index.shown.iter().map(|shown| (index.packets[shown.packet].offset, shown.time)).collect();
        theirs.sort_unstable();
        ours.sort_unstable();
        assert!(!ours.is_empty());
        assert_eq!(ours, theirs, "{args}");
    }
}
