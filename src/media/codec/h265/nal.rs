//! NAL units: how a packet and an `hvcC` record are cut into them.
//!
//! Invariant: a unit's bytes lie in what it was cut from, and it has a header that a stream may have.

/// `nal_unit_type` of what is not a slice.
pub(super) const VPS: u8 = 32;
pub(super) const SPS: u8 = 33;
pub(super) const PPS: u8 = 34;
pub(super) const END_OF_SEQUENCE: u8 = 36;

/// One NAL unit.
#[derive(Debug, Clone, Copy)]
pub(super) struct Nal<'a> {
    /// `nal_unit_type`.
    pub kind: u8,
    /// `nuh_layer_id`; pictures of the video itself have 0.
    pub layer: u8,
    /// `TemporalId`.
    pub temporal: u8,
    /// All its bytes, the header being the first two.
    pub bytes: &'a [u8],
}

impl<'a> Nal<'a> {
    fn new(bytes: &'a [u8]) -> Result<Self, String> {
        let [first, second, ..] = *bytes else {
            return Err(format!("a NAL unit has {} bytes, less than its header", bytes.len()));
        };
        if first & 0x80 != 0 {
            return Err("a NAL unit's first bit is not 0".into());
        }
        let Some(temporal) = (second & 7).checked_sub(1) else {
            return Err("a NAL unit's temporal id is not valid".into());
        };
        let kind = first >> 1 & 0x3f;
        if matches!(kind, 10..=15 | 22..=31 | 41..=47) {
            return Err(format!("a NAL unit is of type {kind}, which no stream may have"));
        }
        Ok(Self { kind, layer: (first & 1) << 5 | second >> 3, temporal, bytes })
    }

    /// Whether it is a slice of a picture.
    pub(super) fn is_slice(&self) -> bool {
        self.kind < 32
    }

    /// Whether it is a slice of a picture that decoding can start at: BLA, IDR or CRA.
    pub(super) fn is_start(&self) -> bool {
        (16..=21).contains(&self.kind)
    }

    /// Whether it is a slice of an IDR picture.
    pub(super) fn is_idr(&self) -> bool {
        matches!(self.kind, 19 | 20)
    }

    /// Whether it is a slice of a CRA picture.
    pub(super) fn is_cra(&self) -> bool {
        self.kind == 21
    }

    /// Whether it is a slice of a RASL picture, which needs pictures from before the last start.
    pub(super) fn is_rasl(&self) -> bool {
        matches!(self.kind, 8 | 9)
    }

    /// Whether it is a slice of a RADL picture, which is shown before the last start and needs nothing from before it.
    pub(super) fn is_radl(&self) -> bool {
        matches!(self.kind, 6 | 7)
    }

    /// Whether no picture of the same temporal layer needs it.
    pub(super) fn is_sub_layer_non_reference(&self) -> bool {
        self.kind < 16 && self.kind.is_multiple_of(2)
    }

    /// The payload's first `most` bytes or so, without the bytes that keep start codes out of it.
    pub(super) fn payload(&self, most: usize) -> Vec<u8> {
        let mut payload = Vec::new();
        let mut zeros = 0;
        for &byte in self.bytes.iter().skip(2).take(most) {
            if zeros >= 2 && byte == 3 {
                zeros = 0;
                continue;
            }
            zeros = if byte == 0 { zeros + 1 } else { 0 };
            payload.push(byte);
        }
        payload
    }

    /// Whether the bytes hold something that no slice may: what would be a start code.
    pub(super) fn has_forbidden_bytes(&self) -> bool {
        // Zeros at the end are not the slice's own: some programs leave those of the next start code there.
        let end = self.bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
        let slice = self.bytes.get(..end).unwrap_or_default();
        slice.windows(3).any(|bytes| matches!(bytes, [0, 0, 0..=2]))
    }
}

/// The NAL units of a packet as far as they can be cut out, and what is wrong with it.
pub(super) fn split(packet: &[u8], length_size: usize) -> (Vec<Nal<'_>>, Option<String>) {
    let mut nals = Vec::new();
    let mut wrong = None;
    let mut rest = packet;
    while !rest.is_empty() {
        let Some((length, after)) = rest.split_at_checked(length_size) else {
            wrong.get_or_insert("the packet ends inside of a NAL unit's length".to_string());
            break;
        };
        let length = length.iter().fold(0usize, |length, &byte| length << 8 | usize::from(byte));
        let Some((bytes, after)) = after.split_at_checked(length) else {
            let there = after.len();
            wrong.get_or_insert(format!("a NAL unit claims {length} bytes where the packet has {there}"));
            break;
        };
        rest = after;
        match Nal::new(bytes) {
            Ok(nal) => nals.push(nal),
            Err(what) => {
                wrong.get_or_insert(what);
            }
        }
    }
    (nals, wrong)
}

/// An `hvcC` record: how long the packets' length fields are, and the NAL units in it. `None` if it is none.
pub(super) fn record(config: &[u8]) -> Option<(usize, Vec<Nal<'_>>)> {
    let length_size = usize::from(config.get(21)? & 3) + 1;
    let arrays = *config.get(22)?;
    let mut rest = config.get(23..)?;
    let mut nals = Vec::new();
    for _ in 0..arrays {
        let (head, after) = rest.split_at_checked(3)?;
        let count = u16::from_be_bytes([*head.get(1)?, *head.get(2)?]);
        rest = after;
        for _ in 0..count {
            let (length, after) = rest.split_at_checked(2)?;
            let length = u16::from_be_bytes(length.try_into().ok()?);
            let (bytes, after) = after.split_at_checked(usize::from(length))?;
            rest = after;
            nals.extend(Nal::new(bytes));
        }
    }
    Some((length_size, nals))
}
