//! Timelines with hand-made packets: which frames there are, and which packets are decoded for them.

use capjudge::media::codec::Kind;
use capjudge::media::container::{Codec, Index, Packet, Shown, Turn};
use capjudge::media::picture::ColourHint;
use capjudge::media::timeline::{Run, Timeline};

/// Packets in decoding order: a letter and the time of each. `I` is a start, `P` a reference, `p` one in the middle
/// of B-pictures, `b` nothing needs, `L` is leading and `h` shows nothing.
fn timeline(packets: &[(char, i64)]) -> Timeline {
    coded(Codec::H265, packets)
}

fn coded(codec: Codec, packets: &[(char, i64)]) -> Timeline {
    let kind =
        |letter| Kind { start: letter == 'I', leading: letter == 'L', reference: letter != 'b', shows: letter != 'h' };
    let kinds: Vec<Kind> = packets.iter().map(|(letter, _)| kind(*letter)).collect();
    let packet = |(letter, pts): &(char, i64)| Packet { offset: 0, size: 1, pts: *pts, key: *letter == 'I' };
    let mut shown: Vec<Shown> =
        packets.iter().enumerate().map(|(packet, (_, time))| Shown { packet, time: *time }).collect();
    shown.sort_by_key(|shown| (shown.time, shown.packet));
    let end = shown.last().map_or(0, |shown| shown.time + 1);
    let index = Index {
        codec,
        config: Vec::new(),
        packets: packets.iter().map(packet).collect(),
        shown,
        tick: (1, 10),
        end,
        turn: Turn::default(),
        colour: ColourHint::default(),
        size: (0, 0),
        faults: Vec::new(),
        prefix: Vec::new(),
    };
    Timeline::new(&index, &kinds)
}

fn run(packets: &[usize], wanted: &[(usize, usize)]) -> Run {
    Run { packets: packets.to_vec(), wanted: wanted.to_vec() }
}

/// Two closed groups: I b P | I b P, shown as 0 1 2 | 3 4 5.
const CLOSED: [(char, i64); 6] = [('I', 0), ('P', 2), ('b', 1), ('I', 3), ('P', 5), ('b', 4)];

/// An open group: the B-pictures after the second I are shown before it.
const OPEN: [(char, i64); 8] = [('I', 0), ('P', 2), ('b', 1), ('I', 5), ('p', 3), ('b', 4), ('P', 7), ('b', 6)];

#[test]
fn a_frame_is_decoded_from_the_start_of_its_group() {
    let timeline = timeline(&CLOSED);
    assert_eq!((timeline.len(), timeline.frame_time(4), timeline.duration()), (6, 0.4, 0.6));
    assert_eq!(timeline.runs(&[5]), [run(&[3, 4], &[(4, 5)])]);
    assert_eq!(timeline.runs(&[4]), [run(&[3, 4, 5], &[(5, 4)])]);
    assert_eq!(timeline.runs(&[3]), [run(&[3], &[(3, 3)])]);
}

#[test]
fn groups_without_a_wanted_frame_are_left_out() {
    let timeline = timeline(&CLOSED);
    assert_eq!(timeline.runs(&[5, 0, 5]), [run(&[0], &[(0, 0)]), run(&[3, 4], &[(4, 5)])]);
}

#[test]
fn all_frames_take_all_packets_once() {
    let closed = timeline(&CLOSED).runs(&[0, 1, 2, 3, 4, 5]);
    assert_eq!(closed.iter().flat_map(|run| run.packets.clone()).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5]);
    let open = timeline(&OPEN).runs(&[7, 6, 5, 4, 3, 2, 1, 0]);
    assert_eq!(open.len(), 1);
    assert_eq!(open[0].packets, [0, 1, 2, 3, 4, 5, 6, 7]);
}

#[test]
fn no_wanted_frame_takes_no_packet() {
    assert_eq!(timeline(&CLOSED).runs(&[]), []);
    assert_eq!(timeline(&CLOSED).runs(&[6, 99]), [], "there is no such frame");
    assert_eq!(timeline(&[]).runs(&[0]), []);
}

#[test]
fn one_frame_is_one_packet() {
    assert_eq!(timeline(&[('I', 7)]).runs(&[0, 0]), [run(&[0], &[(0, 0)])]);
}

#[test]
fn a_picture_shown_before_the_start_it_follows_needs_the_start_before_that() {
    let timeline = timeline(&OPEN);
    // Frame 4 is packet 5, after the second start but shown before it.
    assert_eq!(timeline.runs(&[4]), [run(&[0, 1, 3, 4, 5], &[(5, 4)])]);
    // Frame 7 is shown after the second start, and does without what is shown before that.
    assert_eq!(timeline.runs(&[7]), [run(&[3, 6], &[(6, 7)])]);
}

#[test]
fn a_run_that_reaches_into_another_takes_it_over() {
    let timeline = timeline(&OPEN);
    assert_eq!(timeline.runs(&[7, 3]), [run(&[0, 1, 3, 4, 6], &[(4, 3), (6, 7)])]);
    assert_eq!(timeline.runs(&[7, 1]), [run(&[0, 1, 2], &[(2, 1)]), run(&[3, 6], &[(6, 7)])]);
}

#[test]
fn pictures_that_others_need_are_decoded_and_the_rest_is_not() {
    // A pyramid: P at 4, its middle at 2, and two that nothing needs.
    let timeline = timeline(&[('I', 0), ('P', 4), ('p', 2), ('b', 1), ('b', 3), ('P', 8)]);
    assert_eq!(timeline.runs(&[3]), [run(&[0, 1, 2, 4], &[(4, 3)])]);
    assert_eq!(timeline.runs(&[5]), [run(&[0, 1, 2, 5], &[(5, 5)])]);
}

#[test]
fn leading_pictures_of_the_first_start_are_not_there() {
    let leading = [('I', 3), ('L', 1), ('L', 2), ('P', 4), ('I', 8), ('L', 6), ('L', 7), ('P', 9)];
    let timeline = timeline(&leading);
    assert_eq!(timeline.shown.iter().map(|shown| shown.time).collect::<Vec<_>>(), [3, 4, 6, 7, 8, 9]);
    assert_eq!(timeline.runs(&[3]), [run(&[0, 3, 4, 5, 6], &[(6, 3)])]);
    assert_eq!(timeline.runs(&[5]), [run(&[4, 7], &[(7, 5)])]);
}

#[test]
fn what_comes_before_the_first_start_or_shows_nothing_is_no_frame() {
    let timeline = timeline(&[('P', 0), ('I', 1), ('h', 2), ('P', 3)]);
    assert_eq!(timeline.shown.iter().map(|shown| shown.packet).collect::<Vec<_>>(), [1, 3]);
    assert_eq!(timeline.runs(&[1]), [run(&[1, 2, 3], &[(3, 1)])], "what shows nothing is needed all the same");
    assert!(self::timeline(&[('P', 0)]).is_empty());
}

#[test]
fn uneven_times_are_kept() {
    let timeline = timeline(&[('I', -5), ('P', 1), ('P', 20), ('I', 21), ('P', 100)]);
    let times: Vec<f64> = (0..timeline.len()).map(|frame| timeline.frame_time(frame)).collect();
    assert_eq!(times, [-0.5, 0.1, 2.0, 2.1, 10.0]);
    assert_eq!(timeline.duration(), 10.6);
    assert_eq!(timeline.runs(&[2, 4]), [run(&[0, 1, 2], &[(2, 2)]), run(&[3, 4], &[(4, 4)])]);
}

#[test]
fn pictures_before_the_first_start_of_h264_cannot_be_decoded_but_those_of_hevc_can() {
    // An open group at the start of a cut; and in HEVC, two pictures that need nothing but the start.
    let packets = [('I', 3), ('p', 1), ('b', 2), ('P', 4)];
    let times = |timeline: &Timeline| timeline.shown.iter().map(|shown| shown.time).collect::<Vec<_>>();
    assert_eq!(times(&coded(Codec::H264, &packets)), [3, 4]);
    let hevc = coded(Codec::H265, &packets);
    assert_eq!(times(&hevc), [1, 2, 3, 4]);
    assert_eq!(hevc.runs(&[1]), [run(&[0, 1, 2], &[(2, 1)])]);
    assert_eq!(hevc.runs(&[3]), [run(&[0, 3], &[(3, 3)])]);
}
