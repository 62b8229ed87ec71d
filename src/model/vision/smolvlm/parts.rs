//! How a picture is brought to size and cut into square parts.
//!
//! Invariant: sizes are those of the reference's processor, whose numbers are Python's: sides are divided as 64-bit
//! floats and cut off.

use rayon::prelude::*;

use crate::model::ModelError;
use crate::model::vision::pixels::{Filter, Levels, Picture, View, resize_all};
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
        if longest.is_none() && settings.get("size").is_some() {
            return Err(settings.wrong("size", "has no `longest_edge`, which alone is supported"));
        }
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

    /// The floats of all parts, and how many parts there are: those of a cut picture, then the whole of it.
    pub fn pixels(&self, medium: &Medium<'_>, plan: &Plan) -> (Vec<f32>, usize) {
        let mut pictures: Vec<Picture> = Vec::new();
        for (width, height) in &plan.sizes {
            let views: Vec<View<'_>> = match pictures.is_empty() {
                true => medium.frames().to_vec(),
                false => pictures.iter().filter_map(Picture::view).collect(),
            };
            pictures = resize_all(&views, *width, *height, self.filter);
        }
        let [parts, down, across] = plan.grid;
        let wholes = match down > 0 {
            true => {
                let views: Vec<View<'_>> = pictures.iter().filter_map(Picture::view).collect();
                resize_all(&views, self.side, self.side, self.filter)
            }
            false => std::mem::take(&mut pictures),
        };
        let place = |at: usize| (at / across * self.side, at % across * self.side);
        let cut = pictures.iter().flat_map(|picture| (0..down * across).map(move |at| (picture, place(at))));
        let places: Vec<(&Picture, (usize, usize))> = cut.chain(wholes.iter().map(|whole| (whole, (0, 0)))).collect();
        let numbers = 3 * self.side * self.side;
        let mut out = vec![0.0; parts * numbers];
        out.par_chunks_exact_mut(numbers).zip(places).for_each(|(out, (picture, (top, left)))| {
            self.fill(picture, top, left, out);
        });
        (out, parts)
    }

    /// The floats of the part of a picture that begins at a place.
    fn fill(&self, picture: &Picture, top: usize, left: usize, out: &mut [f32]) {
        let area = self.side * self.side;
        let (reds, rest) = out.split_at_mut(area);
        let (greens, blues) = rest.split_at_mut(area);
        for row in 0..self.side {
            let from = ((top + row) * picture.width + left) * 3;
            let to = row * self.side..(row + 1) * self.side;
            let colours = [&mut reds[to.clone()], &mut greens[to.clone()], &mut blues[to]];
            self.levels.spread(&picture.rgb[from..from + self.side * 3], colours);
        }
    }
}
