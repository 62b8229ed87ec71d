//! H.264: exact pictures, for the packet that they belong to, and a word for damage.

use std::collections::BTreeMap;
use std::path::PathBuf;

use capjudge::media::codec::{Broken, h264};
use capjudge::media::picture::{ColourHint, Layout, Picture, Planes};
use capjudge::media::{Limits, MediaError};
use sha2::{Digest, Sha256};

/// A clip's codec header and packets.
struct Clip {
    config: Vec<u8>,
    packets: Vec<Vec<u8>>,
}

/// What came of decoding.
#[derive(Default)]
struct Decoded {
    pictures: BTreeMap<usize, Picture>,
    faults: Vec<String>,
    stop: Option<MediaError>,
}

impl Clip {
    /// Reads a clip as ffmpeg writes it: one track, its samples side by side.
    fn read(name: &str) -> Self {
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/data/media/h264-{name}.mp4"));
        let file = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let inside = |kind: &[u8]| {
            let at = file.windows(4).position(|window| window == kind).expect("the box is there");
            let size = number(&file, at - 4) as usize;
            &file[at + 4..at - 4 + size]
        };
        let sizes = inside(b"stsz");
        let mut data = inside(b"mdat");
        let packets = (0..number(sizes, 8) as usize).map(|at| {
            let (packet, rest) = data.split_at(number(sizes, 12 + 4 * at) as usize);
            data = rest;
            packet.to_vec()
        });
        let packets = packets.collect();
        Self { config: inside(b"avcC").to_vec(), packets }
    }

    /// Reads a clip of fields: the header and then the packets, each with its length.
    fn fields() -> Self {
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/media/h264-fields.packets");
        let file = std::fs::read(path).expect("the clip is there");
        let mut parts = units(&file).into_iter().map(|unit| unit[4..].to_vec());
        let config = parts.next().expect("a header");
        Self { config, packets: parts.collect() }
    }

    fn decode(&self) -> Decoded {
        self.decode_from(0, 1)
    }

    fn decode_from(&self, start: usize, threads: usize) -> Decoded {
        let mut decoded = Decoded::default();
        let mut decoder = match h264::decoder(&self.config, ColourHint::default(), &Limits::default(), threads) {
            Ok(decoder) => decoder,
            Err(error) => return Decoded { stop: Some(error), ..decoded },
        };
        let mut pictures = BTreeMap::new();
        let mut out = |number: usize, picture: Picture| {
            assert!(pictures.insert(number, picture).is_none(), "packet {number} gave two pictures");
        };
        let mut results = Vec::new();
        for (number, packet) in self.packets.iter().enumerate().skip(start) {
            results.push(decoder.decode(number, packet, &mut out));
        }
        results.push(decoder.finish(&mut out));
        for broken in results.into_iter().filter_map(Result::err) {
            match broken {
                Broken::Damaged(number, what) => decoded.faults.push(format!("packet {number}: {what}")),
                Broken::Stop(error) => decoded.stop = Some(error),
            }
        }
        decoded.pictures = pictures;
        decoded
    }

    fn starts(&self) -> Vec<usize> {
        let mut inspector = h264::inspector(&self.config).expect("the header is sound");
        let kinds = self.packets.iter().map(|packet| inspector.inspect(packet, false).expect("the packet is sound"));
        kinds.enumerate().filter(|(_, kind)| kind.start).map(|(number, _)| number).collect()
    }
}

/// Cuts at lengths of four bytes, which stay with what they are of.
fn units(mut bytes: &[u8]) -> Vec<&[u8]> {
    let mut units = Vec::new();
    while !bytes.is_empty() {
        let (unit, rest) = bytes.split_at(4 + number(bytes, 0) as usize);
        units.push(unit);
        bytes = rest;
    }
    units
}

fn number(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

/// Where ffmpeg shows each packet's picture, and the hash of its planes.
fn golden(clip: &str) -> Vec<(usize, String)> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/media/h264.sha256");
    let text = std::fs::read_to_string(path).expect("the hashes are there");
    let mut lines = Vec::new();
    for line in text.lines() {
        let fields: Vec<&str> = line.split(' ').collect();
        if let [name, _, shown, hash] = fields[..]
            && name == clip
        {
            lines.push((shown.parse().expect("a number"), hash.to_string()));
        }
    }
    assert!(!lines.is_empty(), "{clip} has no hashes");
    lines
}

fn hash(picture: &Picture) -> String {
    let mut sha = Sha256::new();
    match &picture.planes {
        Planes::U8(planes) => planes.iter().for_each(|plane| sha.update(plane)),
        Planes::U16(planes) => {
            planes.iter().flatten().for_each(|sample| sha.update(sample.to_le_bytes()));
        }
    }
    sha.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A generator that is the same everywhere.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % sides as u64) as usize
    }
}

#[test]
fn each_packets_picture_is_ffmpegs_byte_for_byte() {
    for name in ["high", "cavlc", "slices", "mbaff", "422-10", "gray"] {
        let clip = Clip::read(name);
        let golden = golden(name);
        assert_eq!(golden.len(), clip.packets.len(), "{name}");
        for threads in [1, 2] {
            let decoded = clip.decode_from(0, threads);
            assert_eq!(decoded.faults, Vec::<String>::new(), "{name}");
            assert_eq!(decoded.pictures.len(), clip.packets.len(), "{name}");
            for (number, (_, wanted)) in golden.iter().enumerate() {
                assert_eq!(&hash(&decoded.pictures[&number]), wanted, "{name}, packet {number}, {threads} threads");
            }
        }
    }
}

#[test]
fn decoding_can_start_wherever_the_inspector_says_so() {
    let clip = Clip::read("high");
    let golden = golden("high");
    let starts = clip.starts();
    assert!(starts.len() > 2, "an open group of pictures is a place to start: {starts:?}");
    for start in starts {
        let decoded = clip.decode_from(start, 1);
        assert_eq!(decoded.faults, Vec::<String>::new(), "from {start}");
        for number in start..clip.packets.len() {
            if golden[number].0 >= golden[start].0 {
                assert_eq!(hash(&decoded.pictures[&number]), golden[number].1, "packet {number}, from {start}");
            }
        }
    }
}

#[test]
fn pictures_that_none_needs_can_be_left_out() {
    let mut clip = Clip::read("high");
    let golden = golden("high");
    let mut inspector = h264::inspector(&clip.config).expect("the header is sound");
    let kinds: Vec<_> = clip.packets.iter().map(|packet| inspector.inspect(packet, false).expect("sound")).collect();
    let kept: Vec<usize> = (0..kinds.len()).filter(|&number| kinds[number].reference).collect();
    assert!(kept.len() < kinds.len(), "some are not needed");
    clip.packets = kept.iter().map(|&number| clip.packets[number].clone()).collect();
    let decoded = clip.decode();
    assert_eq!(decoded.faults, Vec::<String>::new());
    for (place, number) in kept.into_iter().enumerate() {
        assert_eq!(hash(&decoded.pictures[&place]), golden[number].1, "packet {number}");
    }
}

#[test]
fn the_size_is_what_is_shown_and_not_what_is_coded() {
    let decoded = Clip::read("slices").decode();
    let picture = &decoded.pictures[&0];
    assert_eq!((picture.width, picture.height, picture.layout), (86, 54, Layout::Yuv420));
    let decoded = Clip::read("422-10").decode();
    let picture = &decoded.pictures[&0];
    assert_eq!((picture.depth, picture.layout), (10, Layout::Yuv422));
}

#[test]
fn a_picture_that_is_too_large_is_refused_before_it_is_decoded() {
    let clip = Clip::read("high");
    let limits = Limits { pixels: 96 * 64 - 1, ..Limits::default() };
    let refused = h264::decoder(&clip.config, ColourHint::default(), &limits, 1).err();
    assert!(matches!(refused, Some(MediaError::Limit(_))), "{refused:?}");
}

#[test]
fn what_is_not_supported_names_the_decoder_that_can() {
    match Clip::read("444").decode().stop {
        Some(MediaError::Unsupported(what)) => assert!(what.contains("--decoder ffmpeg"), "{what}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn damage_in_cabac_is_found() {
    let (changed, found) = damage("high", 60);
    assert!(changed > 50, "{changed}");
    assert_eq!(found, changed);
}

#[test]
fn damage_in_cavlc_is_found_as_a_rule() {
    // A sign, or one code word for another of its length, leaves no trace.
    let (changed, found) = damage("cavlc", 60);
    assert!(changed > 50, "{changed}");
    assert!(found * 100 >= changed * 75, "{found} of {changed}");
}

/// Overwrites a byte of a packet, again and again; how many changed a picture, and how many of those were reported.
fn damage(name: &str, trials: usize) -> (usize, usize) {
    let clip = Clip::read(name);
    let sound = clip.decode();
    let mut dice = Dice(0x2545_f491_4f6c_dd1d);
    let (mut changed, mut found) = (0, 0);
    for _ in 0..trials {
        let mut packets = clip.packets.clone();
        // Only the first of the packets: what comes after them costs time and tells no more.
        packets.truncate(6);
        let number = dice.roll(packets.len());
        let packet = &mut packets[number];
        let at = dice.roll(packet.len());
        packet[at] ^= 1 + dice.roll(255) as u8;
        let count = packets.len();
        let broken = Clip { config: clip.config.clone(), packets };
        let decoded = broken.decode();
        let differs = (0..count).any(|number| decoded.pictures.get(&number) != sound.pictures.get(&number));
        if differs {
            changed += 1;
            let mut inspector = h264::inspector(&broken.config).expect("the header is sound");
            let structure = broken.packets.iter().any(|packet| inspector.inspect(packet, false).is_err());
            found += usize::from(structure || !decoded.faults.is_empty() || decoded.stop.is_some());
        }
    }
    (changed, found)
}

#[test]
fn packets_cut_off_anywhere_are_reported() {
    let clip = Clip::read("slices");
    let mut inspector = h264::inspector(&clip.config).expect("the header is sound");
    inspector.inspect(&clip.packets[0], true).expect("the first packet is sound");
    let packet = &clip.packets[1];
    for length in 1..packet.len() {
        let cut =
            Clip { config: clip.config.clone(), packets: vec![clip.packets[0].clone(), packet[..length].to_vec()] };
        assert!(!cut.decode().faults.is_empty(), "cut to {length} of {}", packet.len());
    }
}

#[test]
fn a_missing_packet_is_reported() {
    let mut clip = Clip::read("slices");
    clip.packets.remove(2);
    assert!(!clip.decode().faults.is_empty());
}

#[test]
fn a_missing_slice_is_reported() {
    let clip = Clip::read("slices");
    for lost in 0..3 {
        let mut packets = clip.packets.clone();
        let mut slices = units(&clip.packets[3]);
        assert_eq!(slices.len(), 3);
        slices.remove(lost);
        packets[3] = slices.concat();
        let broken = Clip { config: clip.config.clone(), packets };
        assert!(!broken.decode().faults.is_empty(), "slice {lost}");
    }
}

#[test]
fn two_fields_are_one_picture_in_one_packet_or_two() {
    let clip = Clip::fields();
    let golden = golden("fields");
    let decoded = clip.decode();
    assert_eq!(decoded.faults, Vec::<String>::new());
    let packets = clip.packets.iter().flat_map(|packet| units(packet)).map(<[u8]>::to_vec).collect();
    let apart = Clip { config: clip.config.clone(), packets };
    let decoded_apart = apart.decode();
    assert_eq!(decoded_apart.faults, Vec::<String>::new());
    assert_eq!(decoded_apart.pictures.len(), golden.len());
    for (number, (_, wanted)) in golden.iter().enumerate() {
        assert_eq!(&hash(&decoded.pictures[&number]), wanted, "picture {number}");
        assert_eq!(&hash(&decoded_apart.pictures[&(2 * number)]), wanted, "picture {number}");
    }
    let mut inspector = h264::inspector(&apart.config).expect("the header is sound");
    for (number, packet) in apart.packets.iter().enumerate() {
        let kind = inspector.inspect(packet, false).expect("the packet is sound");
        assert_eq!((kind.shows, kind.start), (number % 2 == 0, number == 0), "field {number}");
    }
}

#[test]
fn a_missing_field_is_reported() {
    let clip = Clip::fields();
    for (number, lost) in [(1, 0), (1, 1), (3, 1)] {
        let mut packets = clip.packets.clone();
        packets[number] = units(&clip.packets[number])[1 - lost].to_vec();
        let broken = Clip { config: clip.config.clone(), packets };
        assert!(!broken.decode().faults.is_empty(), "field {lost} of packet {number}");
    }
}

#[test]
fn a_stream_that_begins_in_the_middle_is_reported() {
    let clip = Clip::read("slices");
    assert!(!clip.decode_from(1, 1).faults.is_empty());
}

#[test]
fn any_header_is_taken_or_refused_without_a_panic() {
    let clip = Clip::read("high");
    for length in 0..clip.config.len() {
        let cut = Clip { config: clip.config[..length].to_vec(), packets: clip.packets[..1].to_vec() };
        let decoded = cut.decode();
        assert!(decoded.stop.is_some() || !decoded.faults.is_empty() || length > 40, "cut to {length}");
    }
    let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
    for _ in 0..300 {
        let mut config = clip.config.clone();
        let at = dice.roll(config.len());
        config[at] = dice.roll(256) as u8;
        let _ = Clip { config, packets: clip.packets[..2].to_vec() }.decode();
    }
}
