//! HEVC, VP9 and AV1: packets to pictures.
//!
//! The packets are those of tests/data/media/*.packets, and the hashes are of what ffmpeg makes of them: see the README
//! there.

use std::collections::BTreeMap;
use std::path::Path;

use capjudge::media::codec::{Broken, Decoder, Inspector, Kind, av1, h265, vp9};
use capjudge::media::picture::{Colour, ColourHint, Layout, Matrix, Picture, Planes};
use capjudge::media::{Limits, MediaError};
use sha2::{Digest, Sha256};

/// A file of packets, and the SHA-256 of its pictures in the order in which they are shown.
const CLIPS: [(&str, &str); 7] = [
    ("h265-open-gop", "07bf30f2a1eaf85fc260c3de9f86d23c35778f812201896c59390d5223fd7476"),
    ("h265-444-10bit", "b1383339832dee7f336b9feda0b685cafe7b7b25f7b55dd5b87f323e9facc7e6"),
    ("vp9-odd", "ab1071189277185b34c5664896e51705e6c56059851297fa33dc33078e9e8efc"),
    ("vp9-440-10bit", "7785563e1e17bdb657e8b9941ee9292e3ec6f28492a4d50fb7ea6fcbfcf8bbb8"),
    ("av1-odd", "79a272dd44b41f8cbedcf40324324ad5e6cf351bca3473889e3433d27c009879"),
    ("av1-grain-10bit", "c4f105999c9139b88c5f17fb40ac55fda7ad280075d1f61f8b31fb189ca40d4f"),
    ("av1-gray", "28b27d20369b967d3362fa4281cdecd9a7a1120aa2db4cd8a2d56d015cd9a635"),
];

struct Packet {
    key: bool,
    place: u32,
    bytes: Vec<u8>,
}

struct Clip {
    name: &'static str,
    config: Vec<u8>,
    packets: Vec<Packet>,
}

type Pictures = BTreeMap<usize, Picture>;

impl Clip {
    fn read(name: &'static str) -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/data/media/{name}.packets"));
        let bytes = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let mut rest = bytes.as_slice();
        let mut number = || {
            let (number, after) = rest.split_first_chunk::<4>()?;
            rest = after;
            Some((u32::from_be_bytes(*number), after))
        };
        let (length, after) = number().expect("the length of the configuration");
        let (config, mut rest) = after.split_at(length as usize);
        let mut packets = Vec::new();
        while let Some((head, after)) = rest.split_first_chunk::<9>() {
            let word = |at: usize| u32::from_be_bytes(head[at..at + 4].try_into().expect("four bytes"));
            let (bytes, after) = after.split_at(word(0) as usize);
            rest = after;
            packets.push(Packet { key: head[4] == 1, place: word(5), bytes: bytes.to_vec() });
        }
        Self { name, config: config.to_vec(), packets }
    }

    fn inspector(&self) -> Box<dyn Inspector> {
        match &self.name[..3] {
            "h26" => h265::inspector(&self.config),
            "vp9" => vp9::inspector(&self.config),
            _ => av1::inspector(&self.config),
        }
        .expect("an inspector")
    }

    fn kinds(&self) -> Vec<Kind> {
        let mut inspector = self.inspector();
        let inspect = |packet: &Packet| inspector.inspect(&packet.bytes, packet.key).expect("a sound packet");
        self.packets.iter().map(inspect).collect()
    }

    fn open(&self, limits: &Limits, threads: usize) -> Result<Box<dyn Decoder + Send>, MediaError> {
        let hint = ColourHint::default();
        match &self.name[..3] {
            "h26" => h265::decoder(&self.config, hint, limits, threads),
            "vp9" => vp9::decoder(&self.config, hint, limits, threads),
            _ => av1::decoder(&self.config, hint, limits, threads),
        }
    }

    /// Decodes the packets that are wanted, and says what was wrong.
    fn decode(&self, threads: usize, wanted: impl Fn(usize) -> bool) -> (Pictures, Vec<Broken>) {
        let mut decoder = self.open(&Limits::default(), threads).expect("a decoder");
        let mut pictures = Pictures::new();
        let mut broken = Vec::new();
        let mut out = |number, picture| {
            assert!(pictures.insert(number, picture).is_none(), "{}: two pictures for packet {number}", self.name);
        };
        for (number, packet) in self.packets.iter().enumerate().filter(|packet| wanted(packet.0)) {
            broken.extend(decoder.decode(number, &packet.bytes, &mut out).err());
        }
        broken.extend(decoder.finish(&mut out).err());
        (pictures, broken)
    }

    fn hash(&self, pictures: &Pictures) -> String {
        let mut shown: Vec<_> = pictures.iter().collect();
        shown.sort_by_key(|(number, _)| self.packets[**number].place);
        let mut hash = Sha256::new();
        for (_, picture) in shown {
            match &picture.planes {
                Planes::U8(planes) => planes.iter().for_each(|plane| hash.update(plane)),
                Planes::U16(planes) => {
                    planes.iter().flatten().for_each(|sample| hash.update(sample.to_le_bytes()));
                }
            }
        }
        hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

#[test]
fn every_picture_is_the_one_that_ffmpeg_gives() {
    for (name, hash) in CLIPS {
        let clip = Clip::read(name);
        for threads in [1, 3] {
            let (pictures, broken) = clip.decode(threads, |_| true);
            assert_eq!(broken, [], "{name} with {threads} threads");
            assert_eq!(pictures.len(), clip.packets.len(), "{name}: a picture for each packet");
            assert_eq!(clip.hash(&pictures), hash, "{name} with {threads} threads");
        }
    }
}

#[test]
fn pictures_say_what_their_samples_mean() {
    let format = |name| {
        let (pictures, _) = Clip::read(name).decode(1, |_| true);
        let picture = pictures.first_key_value().expect("a picture").1.clone();
        (picture.width, picture.height, picture.depth, picture.layout, picture.colour)
    };
    let colour = |matrix, full_range| Colour { matrix, full_range };
    assert_eq!(format("h265-open-gop"), (64, 48, 8, Layout::Yuv420, colour(Matrix::Bt709, true)));
    assert_eq!(format("h265-444-10bit"), (63, 47, 10, Layout::Yuv444, colour(Matrix::Bt601, false)));
    assert_eq!(format("vp9-odd"), (63, 47, 8, Layout::Yuv420, colour(Matrix::Bt601, false)));
    assert_eq!(format("vp9-440-10bit"), (64, 48, 10, Layout::Yuv440, colour(Matrix::Bt709, false)));
    assert_eq!(format("av1-odd"), (63, 47, 8, Layout::Yuv420, colour(Matrix::Bt601, false)));
    assert_eq!(format("av1-grain-10bit"), (64, 48, 10, Layout::Yuv420, colour(Matrix::Bt709, true)));
    assert_eq!(format("av1-gray").3, Layout::Gray);
}

#[test]
fn a_decoder_that_starts_in_the_middle_gives_the_same_pictures() {
    for name in ["h265-open-gop", "vp9-odd", "av1-odd"] {
        let clip = Clip::read(name);
        let kinds = clip.kinds();
        let starts: Vec<usize> = (0..kinds.len()).filter(|&number| kinds[number].start).collect();
        let start = starts[1];
        let (all, _) = clip.decode(1, |_| true);
        // Leading pictures of this start cannot be had; those of later ones can.
        let next = starts.get(2).copied().unwrap_or(kinds.len());
        let fed = |number: usize| number >= start && !(number < next && kinds[number].leading);
        for threads in [1, 2] {
            let (some, broken) = clip.decode(threads, fed);
            assert_eq!(broken, [], "{name}");
            let later = |number: &usize| *number >= start && clip.packets[*number].place >= clip.packets[start].place;
            let mut count = 0;
            for (number, picture) in all.iter().filter(|(number, _)| later(number)) {
                assert!(some.get(number) == Some(picture), "{name}: packet {number} from {start} on");
                count += 1;
            }
            assert!(count > 2, "{name}: {count} pictures");
        }
    }
}

#[test]
fn an_open_group_of_pictures_has_leading_packets_and_ones_that_nothing_needs() {
    let clip = Clip::read("h265-open-gop");
    let kinds = clip.kinds();
    assert!(kinds.iter().all(|kind| kind.shows));
    assert!(kinds.iter().any(|kind| kind.leading), "{kinds:?}");
    let (all, _) = clip.decode(1, |_| true);
    let (needed, broken) = clip.decode(1, |number| kinds[number].reference);
    assert_eq!(broken, []);
    assert!(needed.len() < all.len());
    assert!(needed.iter().all(|(number, picture)| all.get(number) == Some(picture)));
}

#[test]
fn a_packet_that_is_missing_is_told() {
    for name in ["h265-open-gop", "vp9-odd", "av1-odd"] {
        let (_, broken) = Clip::read(name).decode(1, |number| number != 0);
        assert!(matches!(broken.first(), Some(Broken::Damaged(1, _))), "{name}: {broken:?}");
    }
    let clip = Clip::read("h265-open-gop");
    let kinds = clip.kinds();
    let gone = (1..kinds.len()).find(|&number| kinds[number].reference && !kinds[number].start).expect("a reference");
    let (_, broken) = clip.decode(1, |number| number != gone);
    let missing = |broken: &Broken| matches!(broken, Broken::Damaged(_, what) if what.contains("missing"));
    assert!(broken.iter().any(missing), "{broken:?}");
}

#[test]
fn a_packet_that_is_cut_off_is_told_by_its_number() {
    for (name, _) in CLIPS {
        let mut clip = Clip::read(name);
        let packet = &mut clip.packets[1].bytes;
        packet.truncate(packet.len() / 2);
        let (_, broken) = clip.decode(1, |_| true);
        assert!(matches!(broken.first(), Some(Broken::Damaged(1, _))), "{name}: {broken:?}");
    }
}

#[test]
fn a_slice_that_is_missing_is_told() {
    let mut clip = Clip::read("h265-open-gop");
    for number in [0, 3] {
        // The last NAL unit of these packets is their second slice.
        let bytes = &mut clip.packets[number].bytes;
        let (mut at, mut last) = (0, 0);
        while let Some(length) = bytes.get(at..at + 4) {
            last = at;
            at += 4 + u32::from_be_bytes(length.try_into().expect("four bytes")) as usize;
        }
        bytes.truncate(last);
    }
    for threads in [1, 2] {
        let (pictures, broken) = clip.decode(threads, |_| true);
        assert_eq!(pictures.len(), clip.packets.len());
        assert!(matches!(broken.first(), Some(Broken::Damaged(0, what)) if what.contains("cover")), "{broken:?}");
        assert!(broken.iter().any(|broken| matches!(broken, Broken::Damaged(3, what) if what.contains("cover"))));
    }
}

/// The places of the bytes of slices in an HEVC packet, without the first ones of each.
fn slice_data(packet: &[u8]) -> Vec<usize> {
    let mut places = Vec::new();
    let mut at = 0;
    while let Some(length) = packet.get(at..at + 4) {
        let end = at + 4 + u32::from_be_bytes(length.try_into().expect("four bytes")) as usize;
        if packet[at + 4] >> 1 < 32 {
            // Headers have values that can be others without a trace.
            places.extend(at + 24..end);
        }
        at = end;
    }
    places
}

#[test]
fn a_byte_that_is_wrong_in_a_slice_is_told_by_its_packet() {
    for (name, least) in [("h265-open-gop", 58), ("h265-444-10bit", 58)] {
        let sound = Clip::read(name);
        let mut dice = 1u32;
        let (mut told, mut all) = (0, 0);
        for round in 0..60 {
            let number = round % sound.packets.len();
            let places = slice_data(&sound.packets[number].bytes);
            if places.is_empty() {
                continue;
            }
            dice = dice.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let place = places[dice as usize / 256 % places.len()];
            let mut clip = Clip::read(name);
            clip.packets[number].bytes[place] ^= 1 << (dice >> 29);
            let (_, broken) = clip.decode(1, |other| other <= number);
            all += 1;
            told += usize::from(matches!(broken.first(), Some(Broken::Damaged(which, _)) if *which == number));
        }
        assert!(told >= least, "{name}: {told} of {all} are told");
    }
}

#[test]
fn structures_that_lie_are_told() {
    // A NAL unit's length, the marks of a frame, an OBU's first bit.
    for (name, at, value) in [("h265-open-gop", 0, 0x7f), ("vp9-odd", 0, 0x00), ("av1-odd", 0, 0x92)] {
        let mut clip = Clip::read(name);
        clip.packets[1].bytes[at] = value;
        let packet = &clip.packets[1];
        assert!(clip.inspector().inspect(&packet.bytes, packet.key).is_err(), "{name}");
        let (_, broken) = clip.decode(1, |_| true);
        assert!(matches!(broken.first(), Some(Broken::Damaged(1, _))), "{name}: {broken:?}");
    }
}

#[test]
fn nothing_and_noise_are_errors_and_no_panic() {
    let noise: Vec<u8> = (0..200u32).map(|place| (place.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    for (name, _) in CLIPS {
        let mut clip = Clip::read(name);
        for bytes in [vec![], vec![0], vec![0xff; 40], noise.clone()] {
            clip.packets[0].bytes = bytes;
            let (_, broken) = clip.decode(1, |number| number < 2);
            assert!(!broken.is_empty(), "{name}");
        }
    }
    for bytes in [&[][..], &[1], &[0xff; 30], &noise] {
        for threads in [1, 2] {
            let limits = Limits::default();
            let _ = h265::decoder(bytes, ColourHint::default(), &limits, threads);
            let _ = vp9::decoder(bytes, ColourHint::default(), &limits, threads);
            let _ = av1::decoder(bytes, ColourHint::default(), &limits, threads);
        }
    }
}

#[test]
fn a_picture_over_the_limit_is_refused_before_it_is_decoded() {
    let limits = Limits { pixels: 64 * 48 - 1, ..Limits::default() };
    for name in ["h265-open-gop", "vp9-440-10bit", "av1-grain-10bit"] {
        let clip = Clip::read(name);
        let refused = match clip.open(&limits, 1) {
            Err(error) => error,
            Ok(mut decoder) => {
                let mut out = |_, _| panic!("{name}: a picture");
                let mut broken = decoder.decode(0, &clip.packets[0].bytes, &mut out).err();
                broken = broken.or(decoder.finish(&mut out).err());
                let Some(Broken::Stop(error)) = broken else { panic!("{name}: {broken:?}") };
                error
            }
        };
        assert!(matches!(&refused, MediaError::Limit(what) if what.contains("--max-pixels")), "{name}: {refused:?}");
    }
}

#[test]
fn what_only_ffmpeg_can_decode_is_said_to_be_so() {
    let refused = Clip::read("h265-422").open(&Limits::default(), 1).err();
    assert!(
        matches!(&refused, Some(MediaError::Unsupported(what)) if what.contains("--decoder ffmpeg")),
        "{refused:?}"
    );
}
