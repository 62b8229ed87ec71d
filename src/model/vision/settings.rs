//! What a model's processor does to pictures, by the files beside the weights.
//!
//! | settings of | are in the first of these that is there |
//! |---|---|
//! | pictures | `image_processor` of `processor_config.json`; `preprocessor_config.json` |
//! | videos | `video_processor` of `processor_config.json`; `video_preprocessor_config.json`; `preprocessor_config.json` |
//!
//! Invariant: a value that is there is used or refused, with the file and the field named. What is not there has the
//! default of the processor's class in transformers.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::pixels::{Filter, Levels};
use crate::model::ModelError;
use crate::model::read::read_file;

/// The largest of these files that is read. Real ones have a few kilobytes.
const LARGEST: u64 = 4 << 20;

const PROCESSOR: &str = "processor_config.json";
const IMAGES: &str = "preprocessor_config.json";
const VIDEOS: &str = "video_preprocessor_config.json";

/// The settings of one file, or of an object in it.
#[derive(Debug, Clone)]
pub struct Settings {
    path: PathBuf,
    values: Map<String, Value>,
}

impl Settings {
    /// Those of the whole processor; none if it has no file of its own.
    pub fn of_processor(folder: &Path) -> Result<Self, ModelError> {
        let path = folder.join(PROCESSOR);
        Ok(Self::read(&path)?.unwrap_or(Self { path, values: Map::new() }))
    }

    /// Those for pictures.
    pub fn of_images(folder: &Path) -> Result<Self, ModelError> {
        Self::first(folder, "image_processor", &[IMAGES])
    }

    /// Those for videos.
    pub fn of_videos(folder: &Path) -> Result<Self, ModelError> {
        Self::first(folder, "video_processor", &[VIDEOS, IMAGES])
    }

    /// Those for videos of a model for which those for pictures cannot stand in.
    pub fn of_videos_alone(folder: &Path) -> Result<Self, ModelError> {
        Self::first(folder, "video_processor", &[VIDEOS])
    }

    fn first(folder: &Path, within: &str, files: &[&str]) -> Result<Self, ModelError> {
        if let Some(found) = Self::of_processor(folder)?.within(within)? {
            return Ok(found);
        }
        for name in files {
            if let Some(found) = Self::read(&folder.join(name))? {
                return Ok(found);
            }
        }
        let path = folder.join(files.last().copied().unwrap_or(IMAGES));
        let what = "there is no such file; it says how pictures are prepared: copy it from where the model came from";
        Err(ModelError::NotFound(format!("{}: {what}", path.display())))
    }

    fn read(path: &Path) -> Result<Option<Self>, ModelError> {
        let Some(bytes) = read_file(path, LARGEST)? else { return Ok(None) };
        match serde_json::from_slice(&bytes) {
            Ok(Value::Object(values)) => Ok(Some(Self { path: path.to_owned(), values })),
            Ok(_) => Err(ModelError::bad(path, "is no JSON object; copy it from where the model came from")),
            Err(error) => {
                Err(ModelError::bad(path, format!("not JSON ({error}); copy it from where the model came from")))
            }
        }
    }

    /// A field that cannot be used.
    pub fn wrong(&self, field: &str, what: &str) -> ModelError {
        ModelError::unsupported(&self.path, format!("`{field}` {what}"))
    }

    /// A field that is there; `null` is as good as none.
    pub fn get(&self, field: &str) -> Option<&Value> {
        self.values.get(field).filter(|value| !value.is_null())
    }

    /// An object in these settings.
    pub fn within(&self, field: &str) -> Result<Option<Self>, ModelError> {
        match self.get(field) {
            None => Ok(None),
            Some(Value::Object(values)) => Ok(Some(Self { path: self.path.clone(), values: values.clone() })),
            Some(_) => Err(self.wrong(field, "is no object")),
        }
    }

    /// Yes or no. `null` is no, as it is for the reference.
    pub fn flag(&self, field: &str, default: bool) -> Result<bool, ModelError> {
        match self.values.get(field) {
            None => Ok(default),
            Some(Value::Null) => Ok(false),
            Some(value) => value.as_bool().ok_or_else(|| self.wrong(field, "is neither true nor false")),
        }
    }

    /// A field that is there; `null` is refused, as the reference does.
    fn not_null(&self, field: &str) -> Result<Option<&Value>, ModelError> {
        match self.values.get(field) {
            Some(Value::Null) => Err(self.wrong(field, "is null; leave it out, or copy the file again")),
            value => Ok(value),
        }
    }

    /// A whole number from 1 to `most`.
    pub fn count(&self, field: &str, most: usize) -> Result<Option<usize>, ModelError> {
        self.get(field).map(|value| self.counted(field, value, most)).transpose()
    }

    fn counted(&self, name: &str, value: &Value, most: usize) -> Result<usize, ModelError> {
        let number = value.as_u64().and_then(|number| usize::try_from(number).ok());
        let number = number.filter(|number| (1..=most).contains(number));
        number.ok_or_else(|| self.wrong(name, &format!("is {value}, not a whole number from 1 to {most}")))
    }

    /// A number that has to be one given elsewhere too.
    pub fn same(&self, field: &str, default: usize, elsewhere: usize) -> Result<(), ModelError> {
        let number = self.count(field, 1 << 20)?.unwrap_or(default);
        if number != elsewhere {
            let what = format!("is {number}, but config.json says {elsewhere}; the files are not of one model");
            return Err(self.wrong(field, &what));
        }
        Ok(())
    }

    /// The side of `field` that is named; `None` if the field is not there. One without that side is refused.
    pub fn side(&self, field: &str, side: &str) -> Result<Option<usize>, ModelError> {
        let Some(size) = self.within(field)? else { return Ok(None) };
        match size.get(side) {
            Some(value) => self.counted(&format!("{field}.{side}"), value, LARGEST_SIDE).map(Some),
            None => Err(self.wrong(field, &format!("has no `{side}`, which alone is supported"))),
        }
    }

    /// Refuses a step that is switched off, without which pictures are not what the tower expects.
    pub fn require(&self, flags: &[&str]) -> Result<(), ModelError> {
        for field in flags {
            if !self.flag(field, true)? {
                return Err(self.wrong(field, "is false, which is not supported"));
            }
        }
        Ok(())
    }

    /// How pictures are resized.
    pub fn filter(&self, default: Filter) -> Result<Filter, ModelError> {
        let Some(value) = self.not_null("resample")? else { return Ok(default) };
        let known = "1 (Lanczos), 2 (bilinear) and 3 (bicubic) are supported";
        let filter = value.as_u64().and_then(Filter::from_pil);
        filter.ok_or_else(|| self.wrong("resample", &format!("is {value}; {known}")))
    }

    /// How bytes become floats.
    pub fn levels(&self, mean: [f64; 3], std: [f64; 3]) -> Result<Levels, ModelError> {
        let rescale = match self.flag("do_rescale", true)? {
            false => None,
            true => Some(self.number("rescale_factor")?.unwrap_or(1.0 / 255.0)),
        };
        let (mean, std) = (self.three("image_mean", mean)?, self.three("image_std", std)?);
        let levels = Levels::new(mean, std, rescale, self.flag("do_normalize", true)?);
        let ends = (0..3).flat_map(|colour| [levels.of(colour, 0), levels.of(colour, 255)]);
        // Real ones are between -3 and 3, or the bytes themselves.
        if !ends.into_iter().all(|level| level.abs() <= 1e4) || levels.of(0, 0) == levels.of(0, 255) {
            let what = "with `image_std` and `rescale_factor` makes no brightness of 0 and 255 that a model could see";
            return Err(self.wrong("image_mean", what));
        }
        Ok(levels)
    }

    fn number(&self, field: &str) -> Result<Option<f64>, ModelError> {
        let Some(value) = self.not_null(field)? else { return Ok(None) };
        let number = value.as_f64().filter(|number| number.is_finite());
        number.map(Some).ok_or_else(|| self.wrong(field, &format!("is {value}, not a number")))
    }

    fn three(&self, field: &str, default: [f64; 3]) -> Result<[f64; 3], ModelError> {
        let Some(value) = self.not_null(field)? else { return Ok(default) };
        let numbers: Option<Vec<f64>> = value.as_array().and_then(|list| list.iter().map(Value::as_f64).collect());
        let numbers = numbers.and_then(|list| <[f64; 3]>::try_from(list).ok());
        numbers.ok_or_else(|| self.wrong(field, "is not a list of three numbers"))
    }
}

/// The longest side, or the largest number of pixels, that a setting may name.
pub const LARGEST_SIDE: usize = 1 << 31;
