//! AV1's open bitstream units (OBUs), as far as they say what a packet is.
//!
//! Invariant: an OBU's bytes lie in its packet.

use super::super::bits::Bits;

const SEQUENCE: u8 = 1;
const FRAME_HEADER: u8 = 3;
const FRAME: u8 = 6;

/// One OBU.
#[derive(Debug, Clone, Copy)]
pub(super) struct Obu<'a> {
    kind: u8,
    payload: &'a [u8],
}

/// What the OBUs of a packet say.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Summary {
    /// Whether there is a sequence header.
    pub sequence: bool,
    /// Whether the first frame is a key frame that is shown.
    pub key: bool,
    /// Whether any frame is shown.
    pub shows: bool,
    /// Whether there is any frame at all.
    pub frames: bool,
}

/// Whether the stream's frame headers are those of a still picture, which say less. It stands in the sequence header.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Still(bool);

/// The OBUs of a packet.
pub(super) fn split(packet: &[u8]) -> Result<Vec<Obu<'_>>, String> {
    let mut obus = Vec::new();
    let mut rest = packet;
    while let Some((&head, after)) = rest.split_first() {
        if head & 0x80 != 0 {
            return Err("an OBU's first bit is not 0".into());
        }
        if head & 1 != 0 {
            return Err("an OBU's header has a bit set that is reserved".into());
        }
        let kind = head >> 3 & 15;
        if matches!(kind, 0 | 9..=14) {
            return Err(format!("an OBU is of type {kind}, which no stream may have"));
        }
        rest = after;
        if head & 4 != 0 {
            rest = rest.get(1..).ok_or("the packet ends inside of an OBU's header")?;
        }
        // Only the last one may go without its size.
        let size = if head & 2 != 0 { leb128(&mut rest)? } else { rest.len() };
        let Some((payload, after)) = rest.split_at_checked(size) else {
            return Err(format!("an OBU claims {size} bytes where the packet has {}", rest.len()));
        };
        rest = after;
        obus.push(Obu { kind, payload });
    }
    Ok(obus)
}

/// A number of 7 bits a byte, lowest first.
fn leb128(rest: &mut &[u8]) -> Result<usize, String> {
    let mut value = 0u64;
    for place in 0..8 {
        let (&byte, after) = rest.split_first().ok_or("the packet ends inside of an OBU's size")?;
        *rest = after;
        value |= u64::from(byte & 0x7f) << (7 * place);
        if byte & 0x80 == 0 {
            return usize::try_from(value).map_err(|_| "an OBU's size is too large".to_string());
        }
    }
    Err("an OBU's size does not end".into())
}

/// Looks at the OBUs of a packet.
pub(super) fn look(obus: &[Obu<'_>], still: &mut Still) -> Result<Summary, String> {
    let mut summary = Summary::default();
    for obu in obus {
        match obu.kind {
            SEQUENCE => {
                let bits = &mut Bits::new(obu.payload);
                let profile = bits.bits(3).ok_or("a sequence header is cut off")?;
                if profile > 2 {
                    return Err(format!("a sequence header has profile {profile}, which does not exist"));
                }
                *still = Still(bits.bits(2).ok_or("a sequence header is cut off")? & 1 == 1);
                summary.sequence = true;
            }
            FRAME_HEADER | FRAME => {
                let (key, shown) = frame(obu.payload, *still).ok_or("a frame header is cut off")?;
                summary.key |= !summary.frames && key && shown;
                summary.shows |= shown;
                summary.frames = true;
            }
            _ => (),
        }
    }
    Ok(summary)
}

/// Whether a frame is a key frame with data of its own, and whether it is shown.
fn frame(payload: &[u8], still: Still) -> Option<(bool, bool)> {
    if still.0 {
        return Some((true, true));
    }
    let bits = &mut Bits::new(payload);
    if bits.bit()? {
        return Some((false, true));
    }
    Some((bits.bits(2)? == 0, bits.bit()?))
}
