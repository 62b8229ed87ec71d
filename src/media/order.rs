//! The order of pictures, by their stream and by their container.
//!
//! Invariant: where both tell, the frames come out in the stream's order, or it is said that the two contradict each
//! other.

use super::codec::Place;
use super::container::Index;

/// Gives pictures the times that their stream's own order asks for, where a container has none but that of decoding.
/// What comes back is what is wrong, if the two contradict each other in another way.
///
/// Some programs write an MP4 file of a stream with reordered pictures and leave the table of delays out. Its times then
/// rise from packet to packet, and every picture that is stored out of order would be shown in the wrong place. Players
/// show such a file right, because they go by the stream; so does this.
pub fn settle(index: &mut Index, places: &[Option<Place>]) -> Option<String> {
    // Which packet has now the time that this one had.
    let mut new: Vec<usize> = (0..index.packets.len()).collect();
    let (mut begin, mut wrong) = (0, 0_usize);
    while let Some(sequence) = places.get(begin).map(|place| place.map(|place| place.sequence)) {
        let same = |place: &&Option<Place>| place.map(|place| place.sequence) == sequence;
        let end = begin + places.iter().skip(begin).take_while(same).count();
        let times: Vec<i64> = index.packets.iter().take(end).skip(begin).map(|packet| packet.pts).collect();
        let mut order: Vec<usize> = (begin..end).collect();
        order.sort_by_key(|packet| places.get(*packet).copied().flatten());
        if sequence.is_some() && !order.is_sorted() && times.is_sorted_by(|a, b| a < b) {
            for ((old, packet), time) in (begin..end).zip(order).zip(times) {
                if let (Some(slot), Some(packet_at)) = (new.get_mut(old), index.packets.get_mut(packet)) {
                    (*slot, packet_at.pts) = (packet, time);
                }
            }
        } else if sequence.is_some() {
            let shown = order.iter().filter_map(|packet| index.packets.get(*packet)).map(|packet| packet.pts);
            wrong += shown.clone().zip(shown.skip(1)).filter(|(earlier, later)| earlier > later).count();
        }
        begin = end;
    }
    for shown in &mut index.shown {
        shown.packet = new.get(shown.packet).copied().unwrap_or(shown.packet);
    }
    (wrong > 0).then(|| format!("the times of {wrong} pictures contradict their order in the stream"))
}
