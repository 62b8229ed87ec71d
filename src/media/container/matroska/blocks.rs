//! Blocks: one or more packets of a track, with a time.

use super::super::reader::Reader;
use super::super::{MediaError, Packet};
use super::ebml::{Broken, Element, vint};

/// The packets of one block.
#[derive(Debug, Default)]
pub(super) struct Block {
    /// The track's number.
    pub(super) track: u64,
    /// When the first is shown, from the cluster's time on.
    pub(super) time: i16,
    /// Whether the block's own flag says that decoding can start here.
    pub(super) key: bool,
    /// Where the packets are, and their sizes.
    pub(super) packets: Vec<(u64, u32)>,
}

/// What can be wrong with a block.
pub(super) enum Wrong {
    /// The file ends inside of it.
    Cut,
    /// Its head or its sizes make no sense.
    Broken,
    /// The file cannot be read on.
    Stop(MediaError),
}

impl From<MediaError> for Wrong {
    fn from(error: MediaError) -> Self {
        Wrong::Stop(error)
    }
}

impl From<Broken> for Wrong {
    fn from(broken: Broken) -> Self {
        match broken {
            Broken::NoElement(_) | Broken::Cut => Wrong::Broken,
            Broken::Stop(error) => Wrong::Stop(error),
        }
    }
}

impl Block {
    /// Reads a block's head, and where its packets are if its track is one of those wanted.
    pub(super) fn read(element: Element, reader: &mut Reader<'_>, wanted: impl Fn(u64) -> bool) -> Result<Self, Wrong> {
        let end = element.end.ok_or(Wrong::Broken)?;
        if end > reader.bytes() {
            return Err(Wrong::Cut);
        }
        reader.go(element.start)?;
        let (track, _) = vint(reader, 8, end, false)?.ok_or(Wrong::Broken)?;
        if end - reader.at() < 3 {
            return Err(Wrong::Broken);
        }
        let time = reader.u16()? as i16;
        let flags = reader.u8()?;
        let mut block = Block { track, time, key: flags & 0x80 != 0, packets: Vec::new() };
        if wanted(track) {
            let sizes = laces(reader, (flags >> 1) & 3, end)?;
            let mut at = reader.at();
            for size in sizes {
                block.packets.push((at, u32::try_from(size).map_err(|_| Wrong::Broken)?));
                at += size;
            }
        }
        Ok(block)
    }
}

/// The sizes of the packets in a block; together they end where it ends.
fn laces(reader: &mut Reader<'_>, kind: u8, end: u64) -> Result<Vec<u64>, Wrong> {
    if kind == 0 {
        return Ok(vec![end - reader.at()]);
    }
    if reader.at() >= end {
        return Err(Wrong::Broken);
    }
    // At most 256 in any case.
    let count = u64::from(reader.u8()?) + 1;
    let mut sizes = Vec::new();
    match kind {
        1 => {
            for _ in 1..count {
                let mut size = 0;
                loop {
                    if reader.at() >= end {
                        return Err(Wrong::Broken);
                    }
                    let byte = reader.u8()?;
                    size += u64::from(byte);
                    if byte != 255 {
                        break;
                    }
                }
                sizes.push(size);
            }
        }
        2 => {
            let all = end - reader.at();
            if !all.is_multiple_of(count) {
                return Err(Wrong::Broken);
            }
            return Ok(vec![all / count; count as usize]);
        }
        _ => {
            let mut size = 0_i64;
            for number in 1..count {
                let from = reader.at();
                let (value, _) = vint(reader, 8, end, false)?.ok_or(Wrong::Broken)?;
                let value = i64::try_from(value).map_err(|_| Wrong::Broken)?;
                let length = reader.at() - from;
                // All but the first are differences, with the middle of their range for none.
                size = if number == 1 { value } else { size + value - ((1 << (7 * length - 1)) - 1) };
                sizes.push(u64::try_from(size).map_err(|_| Wrong::Broken)?);
            }
        }
    }
    let used = sizes.iter().try_fold(0_u64, |sum, size| sum.checked_add(*size)).ok_or(Wrong::Broken)?;
    sizes.push((end - reader.at()).checked_sub(used).ok_or(Wrong::Broken)?);
    Ok(sizes)
}

/// The packets of a track so far.
#[derive(Debug, Default)]
pub(super) struct Packets {
    pub(super) list: Vec<Packet>,
    /// The time and the duration of the one that is shown last.
    pub(super) last: Option<(i64, i64)>,
}
