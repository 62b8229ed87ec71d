//! How a picture is brought to size and cut into square parts.
//!
//! Invariant: sizes are those of the reference's processor, whose numbers are Python's: sides are divided as 64-bit
//! floats and cut off.

use rayon::prelude::*;

use crate::model::ModelError;
use crate::model::vision::pixels::{Filter, Levels, Picture, View, resize_all, resize_through};
use crate::model::vision::settings::{LARGEST_SIDE, Settings};
use crate::model::vision::{Medium, Plan};

/// No side becomes longer than this.
const LONGEST: usize = 4096;
/// Of the processor's class.
const SIDE: usize = 364;
const HALF: [f64; 3] = [0.5; 3];

/// How pictures, or frames, are prepared.
#[derive(Debug)]
pub struct Preparation {
    /// What the longer side becomes first.
    longest: usize,
    /// The side of a part.
    side: usize,
    /// Whether a picture is cut.
    cut: bool,
    filter: Filter,
    levels: Levels,
}

impl Preparation {
    /// For pictures.
    pub fn of_images(settings: &Settings) -> Result<Self, ModelError> {
        let cut = settings.flag("do_image_splitting", true)?;
        Self::new(settings, settings.side("size", "longest_edge")?, cut)
    }

    /// For frames of videos. Older files have their size under `video_sampling`, but the processor of transformers takes
    /// that of pictures instead where both are there.
    pub fn of_videos(settings: &Settings) -> Result<Self, ModelError> {
        let older = match settings.within("video_sampling")? {
            Some(sampling) => sampling.side("video_size", "longest_edge")?,
            None => None,
        };
        let longest = settings.side("size", "longest_edge")?.or(older);
        Self::new(settings, longest.map(|longest| longest.min(LONGEST)), false)
    }

    fn new(settings: &Settings, longest: Option<usize>, cut: bool) -> Result<Self, ModelError> {
        settings.require(&["do_resize", "do_pad"])?;
        let side = settings.side("max_image_size", "longest_edge")?.unwrap_or(SIDE);
        if side > LONGEST {
            return Err(settings.wrong("max_image_size", &format!("is {side}; at most {LONGEST} are supported")));
        }
        Ok(Self {
            longest: longest.unwrap_or(4 * SIDE).min(LARGEST_SIDE),
            side,
            cut,
            filter: settings.filter(Filter::Lanczos)?,
            levels: settings.levels(HALF, HALF)?,
        })
    }

    /// The side of a part, in pixels.
    pub fn side(&self) -> usize {
        self.side
    }

    /// The sizes that a picture is brought to, and into how many rows and columns of parts it is cut: none if it is not.
    pub fn sizes(&self, width: usize, height: usize) -> (Vec<(usize, usize)>, (usize, usize)) {
        if !self.cut {
            return (self.uncut(width, height), (0, 0));
        }
        let first = self.first(width, height);
        let whole = |length: usize| length.div_ceil(self.side) * self.side;
        // The longer side is made whole first, and the other follows it.
        let ratio = first.0 as f64 / first.1 as f64;
        let second = if first.0 >= first.1 {
            let width = whole(first.0);
            (width, whole((width as f64 / ratio) as usize))
        } else {
            let height = whole(first.1);
            (whole((height as f64 * ratio) as usize), height)
        };
        let (across, down) = (second.0 / self.side, second.1 / self.side);
        let parts = if across > 1 || down > 1 { (down, across) } else { (0, 0) };
        (vec![first, second], parts)
    }

    /// The sizes that a picture is brought to which is not cut.
    pub fn uncut(&self, width: usize, height: usize) -> Vec<(usize, usize)> {
        vec![self.first(width, height), (self.side, self.side)]
    }

    /// The size with the longer side as asked for; the other one is even.
    fn first(&self, width: usize, height: usize) -> (usize, usize) {
        let ratio = width as f64 / height as f64;
        let even = |length: f64| {
            let length = length as usize;
            (length + length % 2).max(1)
        };
        let longest = self.longest;
        let (width, height) = match width >= height {
            true => (longest, even(longest as f64 / ratio)),
            false => (even(longest as f64 * ratio), longest),
        };
        if width.max(height) <= LONGEST {
            return (width, height);
        }
        let ratio = width as f64 / height as f64;
        match width >= height {
            true => (LONGEST, ((LONGEST as f64 / ratio) as usize).max(1)),
            false => (((LONGEST as f64 * ratio) as usize).max(1), LONGEST),
        }
    }

    /// The pictures that parts are taken from: the frames at their size; of a picture that is cut, the picture and the
    /// whole of it as one part.
    pub fn resized(&self, medium: &Medium<'_>, plan: &Plan) -> Vec<Picture> {
        let mut pictures = resize_through(medium.frames(), &plan.sizes, self.filter);
        if plan.grid[1] > 0 {
            let views: Vec<View<'_>> = pictures.iter().filter_map(Picture::view).collect();
            pictures.extend(resize_all(&views, self.side, self.side, self.filter));
        }
        pictures
    }

    /// The floats of a part: of a cut picture those of its parts, then the whole of it.
    pub fn pixels(&self, resized: &[Picture], plan: &Plan, part: usize) -> Vec<f32> {
        let [_, down, across] = plan.grid;
        let cut = down * across;
        let (picture, top, left) = match part < cut {
            true => (&resized[0], part / across * self.side, part % across * self.side),
            false => (&resized[usize::from(cut > 0) + part - cut], 0, 0),
        };
        let (area, band) = (self.side * self.side, self.side * BAND);
        let mut out = vec![0.0; 3 * area];
        let (reds, rest) = out.split_at_mut(area);
        let (greens, blues) = rest.split_at_mut(area);
        let colours = reds.par_chunks_mut(band).zip(greens.par_chunks_mut(band)).zip(blues.par_chunks_mut(band));
        colours.enumerate().for_each(|(index, ((reds, greens), blues))| {
            let rows = reds.chunks_mut(self.side).zip(greens.chunks_mut(self.side)).zip(blues.chunks_mut(self.side));
            for (row, ((reds, greens), blues)) in rows.enumerate() {
                let from = ((top + index * BAND + row) * picture.width + left) * 3;
                self.levels.spread(&picture.rgb[from..from + self.side * 3], [reds, greens, blues]);
            }
        });
        out
    }
}

/// Rows that a thread takes at a time.
const BAND: usize = 64;
