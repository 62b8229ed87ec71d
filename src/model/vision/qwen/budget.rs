//! The size that a picture is brought to: a whole number of merged squares, within a budget of pixels.
//!
//! Invariant: the same sizes as the reference's `smart_resize`, whose numbers are Python's: 64-bit floats, and halves
//! rounded to the even number (70 / 28 is 2).

/// How many pixels a picture, or a video, may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// The fewest.
    pub least: usize,
    /// The most.
    pub most: usize,
    /// Where a cap for the frames of a video is asked for (`cap_pixels_per_frame`): its number of tokens.
    pub cap: Option<usize>,
    /// The most that the user wants of each picture or frame.
    pub wanted: Option<usize>,
}

/// Sides that differ by more than this are refused, as by the reference.
const LONGEST: f64 = 200.0;

impl Budget {
    /// The size (width, height) for a picture, or for each frame of a video of Qwen2.5-VL.
    pub fn of_picture(&self, width: usize, height: usize, square: usize) -> Result<(usize, usize), String> {
        let (least, most) = self.within(self.most, 1);
        fit(width as f64, height as f64, 1.0, 1.0, square, least, most)
    }

    /// The size for each of so many frames of a video of Qwen2.5-VL, whose cap is for the whole video.
    pub fn of_frames(&self, width: usize, height: usize, count: usize, square: usize, step: usize) -> Size {
        let most = match self.cap {
            None => self.most,
            Some(tokens) => {
                let total = (tokens as f64 * (square * square) as f64 * 0.9) as usize;
                let floor = (self.least as f64 * 1.05) as usize;
                self.most.min(total.saturating_mul(step) / count.max(1)).max(floor)
            }
        };
        Self { most, ..*self }.of_picture(width, height, square)
    }

    /// The size for each of so many frames of a video of Qwen3-VL, whose budget is for all of them together. Fewer than a
    /// step has, which the reference refuses, are repeated to fill it.
    pub fn of_video(&self, width: usize, height: usize, count: usize, square: usize, step: usize) -> Size {
        let count = count.max(step);
        let most = match self.cap {
            None => self.most,
            Some(tokens) => {
                let floor = (self.least as f64 * 1.05) as usize;
                let frame = tokens.saturating_mul(square * square).min(self.most / count.max(1)).max(floor);
                frame.saturating_mul(count)
            }
        };
        let (mut width, mut height) = (width as f64, height as f64);
        let side = square as f64;
        if height < side || width < side {
            let scale = (side / height).max(side / width);
            (height, width) = ((height * scale).trunc(), (width * scale).trunc());
        }
        let steps = (count as f64 / step as f64).round_ties_even() * step as f64;
        let (least, most) = self.within(most, count);
        fit(width, height, count as f64, steps, square, least, most)
    }

    /// The fewest and the most pixels of so many frames, of which there may be `most`.
    fn within(&self, most: usize, count: usize) -> (f64, f64) {
        let wanted = self.wanted.map_or(usize::MAX, |wanted| wanted.saturating_mul(count));
        (self.least.min(wanted) as f64, most.min(wanted) as f64)
    }
}

/// A width and a height, or why there is none.
pub type Size = Result<(usize, usize), String>;

/// The size for `count` frames of which `counted` are counted against the budget.
fn fit(width: f64, height: f64, count: f64, counted: f64, square: usize, least: f64, most: f64) -> Size {
    if width.max(height) / width.min(height) > LONGEST {
        return Err(format!(
            "the picture is {width} × {height} pixels: one side is more than {LONGEST} times the other, which the \
             model's processor refuses; cut it"
        ));
    }
    let side = square as f64;
    let mut size = [width, height].map(|length| (length / side).round_ties_even() * side);
    let pixels = counted * size[0] * size[1];
    if pixels > most {
        let shrink = (count * height * width / most).sqrt();
        size = [width, height].map(|length| ((length / shrink / side).floor() * side).max(side));
    } else if pixels < least {
        let grow = (least / (count * height * width)).sqrt();
        size = [width, height].map(|length| (length * grow / side).ceil() * side);
    }
    if size.iter().any(|length| !(*length >= side && *length <= LARGEST)) {
        return Err(format!(
            "the picture would be brought to {} × {} pixels; is the processor's budget right?",
            size[0], size[1]
        ));
    }
    Ok((size[0] as usize, size[1] as usize))
}

/// The longest side that a picture is brought to.
const LARGEST: f64 = (1 << 20) as f64;
