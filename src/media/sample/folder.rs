//! What a model's folder says of sampling.
//!
//! Invariant: a value that is there is used or refused, with the file and the field named; nothing is guessed. What is
//! not there has the default of the processor's class.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::model::Rate;
use super::{MOST, ModelSampler, Rule};
use crate::media::MediaError;

/// The largest of these files that is read. Real ones have a few kilobytes.
const LARGEST: u64 = 4 << 20;

/// Where a processor's settings are, the first of these that is there; in the first one under `video_processor`.
const PROCESSOR: &str = "processor_config.json";
const SETTINGS: [&str; 2] = ["video_preprocessor_config.json", "preprocessor_config.json"];

impl ModelSampler {
    /// What the processor of the model in a folder does, by the folder's own configuration.
    pub fn from_folder(folder: &Path) -> Result<Self, MediaError> {
        let config = Settings::read(folder.join("config.json"))?;
        let Some(model) = config.values.get("model_type").and_then(Value::as_str) else {
            return Err(config.wrong("model_type", "is not there or is no text"));
        };
        let settings = Settings::of_processor(folder)?;
        let rule = match model {
            "qwen2_vl" | "qwen2_5_vl" if settings.flag("do_sample_frames")? => Rule::Qwen2Vl {
                rate: settings.rate(2.0)?,
                min_frames: settings.frames("min_frames")?.unwrap_or(4),
                max_frames: settings.frames("max_frames")?.unwrap_or(768),
                temporal_patch: settings.frames("temporal_patch_size")?.unwrap_or(2),
            },
            "qwen2_vl" | "qwen2_5_vl" => Rule::QwenVlUtils {
                fps: settings.fps("fps")?.unwrap_or(2.0),
                min_frames: settings.frames("min_frames")?.unwrap_or(4),
                max_frames: settings.frames("max_frames")?.unwrap_or(768),
            },
            "qwen3_vl" | "qwen3_vl_moe" | "qwen3_5" | "qwen3_5_moe" => Rule::Qwen3Vl {
                rate: settings.rate(2.0)?,
                min_frames: settings.frames("min_frames")?.unwrap_or(4),
                max_frames: settings.frames("max_frames")?.unwrap_or(768),
            },
            "smolvlm" => {
                // The class has no default for these two; all public SmolVLM2 folders say 1 and 64.
                let sampling = settings.within("video_sampling")?;
                let (values, most) = match &sampling {
                    Some(sampling) => (sampling, "max_frames"),
                    None => (&settings, "num_frames"),
                };
                Rule::SmolVlm { fps: values.fps("fps")?.unwrap_or(1.0), max_frames: values.frames(most)?.unwrap_or(64) }
            }
            other => {
                let known = "qwen2_vl, qwen2_5_vl, qwen3_vl, qwen3_vl_moe, qwen3_5, qwen3_5_moe and smolvlm are";
                let what = format!("`{}` is a model whose sampling is not known", other.escape_debug());
                return Err(config.wrong("model_type", &format!("{what}; {known}. Choose frames by number or time")));
            }
        };
        Ok(Self { model: model.to_owned(), rule })
    }
}

/// The values of one file, or of an object in it.
struct Settings {
    path: PathBuf,
    values: Map<String, Value>,
}

impl Settings {
    fn of_processor(folder: &Path) -> Result<Self, MediaError> {
        let path = folder.join(PROCESSOR);
        if path.exists()
            && let Some(video) = Self::read(path)?.within("video_processor")?
        {
            return Ok(video);
        }
        for name in SETTINGS {
            let path = folder.join(name);
            if path.exists() {
                return Self::read(path);
            }
        }
        Ok(Self { path: folder.join(SETTINGS[0]), values: Map::new() })
    }

    fn read(path: PathBuf) -> Result<Self, MediaError> {
        let io = |error: std::io::Error| MediaError::io(&path, &error);
        // Asked before it is opened: opening a named pipe would wait for ever.
        if !path.metadata().map_err(io)?.is_file() {
            return Err(MediaError::Io { path, what: "is no file".to_owned() });
        }
        let mut text = Vec::new();
        File::open(&path).map_err(io)?.take(LARGEST + 1).read_to_end(&mut text).map_err(io)?;
        if text.len() as u64 > LARGEST {
            return Err(MediaError::Limit(format!("{}: has more than {LARGEST} bytes", path.display())));
        }
        match serde_json::from_slice(&text) {
            Ok(Value::Object(values)) => Ok(Self { path, values }),
            Ok(_) => Err(MediaError::Damaged(format!("{}: is no JSON object", path.display()))),
            Err(error) => Err(MediaError::Damaged(format!("{}: {error}", path.display()))),
        }
    }

    fn wrong(&self, field: &str, what: &str) -> MediaError {
        MediaError::Damaged(format!("{}: `{field}` {what}", self.path.display()))
    }

    /// A field that is there; `null` is as good as none.
    fn get(&self, field: &str) -> Option<&Value> {
        self.values.get(field).filter(|value| !value.is_null())
    }

    fn within(&self, field: &str) -> Result<Option<Self>, MediaError> {
        match self.get(field) {
            None => Ok(None),
            Some(Value::Object(values)) => Ok(Some(Self { path: self.path.clone(), values: values.clone() })),
            Some(_) => Err(self.wrong(field, "is no object")),
        }
    }

    fn flag(&self, field: &str) -> Result<bool, MediaError> {
        match self.get(field) {
            None => Ok(false),
            Some(value) => value.as_bool().ok_or_else(|| self.wrong(field, "is neither true nor false")),
        }
    }

    fn frames(&self, field: &str) -> Result<Option<u32>, MediaError> {
        let Some(value) = self.get(field) else { return Ok(None) };
        let number = value.as_u64().filter(|number| (1..=MOST).contains(number));
        match number.and_then(|number| u32::try_from(number).ok()) {
            Some(number) => Ok(Some(number)),
            None => Err(self.wrong(field, &format!("is {value}, not a whole number from 1 to {MOST}"))),
        }
    }

    fn fps(&self, field: &str) -> Result<Option<f64>, MediaError> {
        let Some(value) = self.get(field) else { return Ok(None) };
        match value.as_f64().filter(|number| number.is_finite() && *number > 0.0) {
            Some(number) => Ok(Some(number)),
            None => Err(self.wrong(field, &format!("is {value}, not a number above 0"))),
        }
    }

    /// A number of frames where the file has one, else frames a second.
    fn rate(&self, fps: f64) -> Result<Rate, MediaError> {
        match self.frames("num_frames")? {
            Some(frames) => Ok(Rate::Frames(frames)),
            None => Ok(Rate::Fps(self.fps("fps")?.unwrap_or(fps))),
        }
    }
}
