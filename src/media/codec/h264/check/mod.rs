//! Reads the data of a slice without making pixels of it.
//!
//! A bit that is wrong puts everything after it out of step: sooner or later there is a value that cannot be, or the
//! slice ends at the wrong macroblock or the wrong bit. In CABAC that is so for nearly all bits: only among those coded
//! without a context can a change be such that what follows is as it was. In CAVLC a sign, or one word for another of
//! its length, can be wrong without a trace. No decoder can tell those.
//!
//! What is checked: every element's range, references that the slice does not have, intra prediction from what is not
//! there, and that the slice ends at its stop bit.
//!
//! Invariant: a sound slice passes. What is not certain is let through.

mod cabac;
mod cavlc;
mod coder;
mod contexts;
mod macroblock;
mod motion;
mod pairs;
mod words;

use super::params::{Pps, Sps};
use super::slice::{Header, Lines, Prediction};
use coder::Coder;
use macroblock::{Parser, Place};
use pairs::{NO_PAIR, Pair};

/// Checks slices; keeps the memory for it.
#[derive(Default)]
pub struct Checker {
    /// The row above: of pairs where they can be fields, or else of single macroblocks in the first place of each.
    row: Vec<Pair>,
}

impl Checker {
    /// Checks the data of a slice: the number of its macroblocks.
    pub fn check(&mut self, payload: &[u8], header: &Header, sps: &Sps, pps: &Pps) -> Result<u32, String> {
        self.row.clear();
        self.row.resize(sps.mb_width as usize, NO_PAIR);
        let cut = || "the data of a slice is missing".to_string();
        let parser = Parser::new(header, sps, pps);
        let whole = header.macroblocks(sps);
        if pps.cabac {
            let set = if header.prediction == Prediction::I { 0 } else { header.cabac_init + 1 };
            let field = header.picture.lines != Lines::Frame;
            let mut coder = cabac::Cabac::new(payload, header.data, set, header.qp, field).ok_or_else(cut)?;
            self.run(&mut coder, parser, header.first, whole, header.mbaff(sps))
        } else {
            let mut coder = cavlc::Cavlc::new(payload, header.data).ok_or_else(cut)?;
            self.run(&mut coder, parser, header.first, whole, header.mbaff(sps))
        }
    }

    /// Reads macroblocks, or pairs of them, to the end.
    fn run<C: Coder>(
        &mut self,
        coder: &mut C,
        mut parser: Parser,
        first: u32,
        whole: u32,
        pairs: bool,
    ) -> Result<u32, String> {
        let (total, each) = if pairs { (whole / 2, 2) } else { (whole, 1) };
        let width = self.row.len();
        let mut left = NO_PAIR;
        let mut x = first as usize % width.max(1);
        let mut at = first;
        loop {
            let place = at.saturating_mul(each);
            let wrong = || format!("a slice is damaged at or before macroblock {place} of {whole}");
            if at >= total {
                return Err("a slice has more macroblocks than its picture".into());
            }
            // What is above belongs to another slice until the slice has come round to it.
            let slot = self.row.get_mut(x).ok_or_else(wrong)?;
            let ends = if pairs {
                pair(coder, &mut parser, &left, slot).ok_or_else(wrong)?
            } else {
                single(coder, &mut parser, &left, slot).ok_or_else(wrong)?
            };
            at += 1;
            x += 1;
            left = *slot;
            if x == width {
                x = 0;
                left = NO_PAIR;
            }
            if ends {
                break;
            }
            if coder.overrun() {
                return Err(wrong());
            }
        }
        if !coder.exact() {
            return Err(format!("a slice is damaged: its data does not end with macroblock {} of {whole}", at * each));
        }
        Ok((at - first) * each)
    }
}

/// Reads a macroblock into its slot; whether the slice ends with it.
fn single<C: Coder>(coder: &mut C, parser: &mut Parser, left: &Pair, slot: &mut Pair) -> Option<bool> {
    let place = Place { left: &left[0], top: &slot[0] };
    let skipped = parser.skipped(coder, place)?;
    slot[0] = if skipped { parser.skip() } else { parser.macroblock(coder, place)? };
    coder.ends(skipped)
}

/// Reads a pair into its slot; whether the slice ends with it.
fn pair<C: Coder>(coder: &mut C, parser: &mut Parser, left: &Pair, slot: &mut Pair) -> Option<bool> {
    let above = *slot;
    let mut field = pairs::inferred(left, &above);
    let mut known = false;
    let mut now = NO_PAIR;
    for half in 0..2 {
        let near = (pairs::left(left, half, field), pairs::above(&above, &now[0], half, field));
        let skipped = parser.skipped(coder, Place { left: &near.0, top: &near.1 })?;
        if skipped {
            now[half] = parser.skip();
        } else {
            if !known {
                let context =
                    usize::from(left[0].there && left[0].field) + usize::from(above[0].there && above[0].field);
                field = coder.is_field(context)?;
                known = true;
            }
            coder.set_field(field);
            now[0].field = field;
            let near = (pairs::left(left, half, field), pairs::above(&above, &now[0], half, field));
            let mut inside = parser.fields(field);
            now[half] = inside.macroblock(coder, Place { left: &near.0, top: &near.1 })?;
            parser.after(&inside);
        }
        now[half].tall = parser.tall();
        now[half].field = field;
        // In CABAC only a pair can be the last, in CAVLC the data can end after the first one, which is wrong.
        let last = half == 1 || !C::CABAC;
        if last && coder.ends(skipped)? {
            now[0].field = field;
            *slot = now;
            return (half == 1).then_some(true);
        }
    }
    now[0].field = field;
    *slot = now;
    Some(false)
}
