//! The samplers against the reference programs: every case of `tests/data/media/samplers.json`, which
//! `tests/reference/samplers.py` wrote.

use std::fs;

use capjudge::media::MediaError;
use capjudge::media::sample::{Clip, ModelSampler, Rate, Rule, Sampler};
use serde_json::Value;

fn golden() -> Value {
    let text = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/media/samplers.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// Times of `total` frames at a constant rate.
fn times(total: u64, rate: f64) -> Vec<f64> {
    (0..total).map(|index| index as f64 / rate).collect()
}

fn pick(sampler: &Sampler, times: &[f64], duration: f64) -> Result<Vec<u64>, MediaError> {
    sampler.pick(&Clip { times, duration })
}

/// A list as the golden file has it: short ones whole, long ones by count, ends and sums.
fn shortened(numbers: &[u64]) -> Value {
    if numbers.len() <= 6 {
        return numbers.to_vec().into();
    }
    let check: u64 = numbers.iter().zip(1..).map(|(number, place)| number * place).sum::<u64>() % (1 << 32);
    let sum: u64 = numbers.iter().sum();
    serde_json::json!([-1, numbers.len(), numbers[0], numbers[numbers.len() - 1], sum, check])
}

/// Compares all cases of one kind; the last item of a case is what the reference chose.
fn compare(kind: &str, fewest: usize, sampler: impl Fn(&[Value]) -> Sampler, rated: bool) {
    let golden = golden();
    let cases = golden[kind].as_array().unwrap();
    assert!(cases.len() >= fewest, "{kind} has {} cases", cases.len());
    for case in cases {
        let case = case.as_array().unwrap();
        let total = case[0].as_u64().unwrap();
        let rate = if rated { golden["rates"][case[1].as_u64().unwrap() as usize].as_f64().unwrap() } else { 25.0 };
        let picked = pick(&sampler(case), &times(total, rate), total as f64 / rate).unwrap();
        assert_eq!(shortened(&picked), case[case.len() - 1], "{kind} {case:?}");
    }
}

fn count(value: &Value) -> u32 {
    value.as_u64().unwrap() as u32
}

fn model(rule: Rule) -> Sampler {
    Sampler::Model(ModelSampler { model: "a".to_owned(), rule })
}

#[test]
fn uniform_is_numpy_linspace() {
    compare("uniform", 250, |case| Sampler::Uniform { frames: count(&case[1]) }, false);
}

#[test]
fn midpoint_is_get_index_of_internvl() {
    compare("midpoint", 250, |case| Sampler::Midpoint { frames: count(&case[1]) }, false);
}

#[test]
fn qwen_vl_utils_chooses_the_same_frames() {
    let rule = |case: &[Value]| Rule::QwenVlUtils { fps: case[2].as_f64().unwrap(), min_frames: 4, max_frames: 768 };
    compare("qwen_vl_utils", 150, |case| model(rule(case)), true);
}

#[test]
fn the_qwen2_vl_processor_chooses_the_same_frames() {
    let rule = |rate| Rule::Qwen2Vl { rate, min_frames: 4, max_frames: 768, temporal_patch: 2 };
    compare("qwen2_vl", 150, |case| model(rule(Rate::Fps(case[2].as_f64().unwrap()))), true);
    compare("qwen2_vl_frames", 150, |case| model(rule(Rate::Frames(count(&case[2])))), true);
}

#[test]
fn the_qwen3_vl_processor_chooses_the_same_frames() {
    let rule = |rate| Rule::Qwen3Vl { rate, min_frames: 4, max_frames: 768 };
    compare("qwen3_vl", 150, |case| model(rule(Rate::Fps(case[2].as_f64().unwrap()))), true);
    compare("qwen3_vl_frames", 150, |case| model(rule(Rate::Frames(count(&case[2])))), true);
}

#[test]
fn the_smolvlm_processor_chooses_the_same_frames() {
    let rule = |case: &[Value]| Rule::SmolVlm { fps: case[2].as_f64().unwrap(), max_frames: count(&case[3]) };
    compare("smolvlm", 150, |case| model(rule(case)), true);
}

#[test]
fn a_video_without_frames_is_an_error_for_every_sampler() {
    let rule = Rule::SmolVlm { fps: 1.0, max_frames: 64 };
    let fps = Sampler::Fps { fps: 2.0, max_frames: None };
    for sampler in [Sampler::Uniform { frames: 8 }, Sampler::Midpoint { frames: 8 }, fps, model(rule)] {
        assert!(matches!(pick(&sampler, &[], 0.0), Err(MediaError::Damaged(_))), "{sampler}");
    }
}

#[test]
fn no_clip_makes_a_sampler_panic_or_leave_the_video() {
    let rate = |rate| [rate, Rate::Frames(1), Rate::Frames(5000)];
    let mut samplers = vec![Sampler::Uniform { frames: 9 }, Sampler::Midpoint { frames: 9 }];
    samplers.extend([0.001, 1.0, 1e9].map(|fps| Sampler::Fps { fps, max_frames: Some(7) }));
    samplers.extend([0.001, 1e9].map(|fps| model(Rule::SmolVlm { fps, max_frames: 3 })));
    samplers.extend([1e-9, 1e9].map(|fps| model(Rule::QwenVlUtils { fps, min_frames: 1, max_frames: 1 })));
    for rate in [1e-9, 1e9].into_iter().flat_map(|fps| rate(Rate::Fps(fps))) {
        samplers.push(model(Rule::Qwen2Vl { rate, min_frames: 9, max_frames: 3, temporal_patch: 7 }));
        samplers.push(model(Rule::Qwen3Vl { rate, min_frames: 9, max_frames: 3 }));
    }
    let odd = [0.0, -5.0, 1e300, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 3.0];
    for sampler in &samplers {
        for total in [1usize, 2, 3, 40] {
            for duration in odd {
                for time in odd {
                    let picked = pick(sampler, &vec![time; total], duration).unwrap();
                    assert!(!picked.is_empty() && picked.iter().all(|index| *index < total as u64), "{sampler}");
                }
            }
        }
    }
}

#[test]
fn a_number_of_frames_that_makes_no_sense_is_refused() {
    let clip = times(10, 1.0);
    let refused = |sampler: Sampler| matches!(pick(&sampler, &clip, 10.0), Err(MediaError::Usage(_)));
    assert!(refused(Sampler::Uniform { frames: 0 }));
    assert!(refused(Sampler::Midpoint { frames: u32::MAX }));
    assert!(refused(Sampler::Fps { fps: f64::NAN, max_frames: None }));
    assert!(refused(Sampler::Fps { fps: -1.0, max_frames: None }));
    assert!(refused(Sampler::Fps { fps: 1e9, max_frames: None }));
}

#[test]
fn fps_takes_the_frame_that_is_on_the_screen() {
    let fps = |fps, max_frames| Sampler::Fps { fps, max_frames };
    // Half a second of quick frames, then one that stays, then another.
    let clip = [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 2.2];
    assert_eq!(pick(&fps(2.0, None), &clip, 3.0).unwrap(), [0, 5, 5, 5, 5, 6]);
    assert_eq!(pick(&fps(1.0, None), &clip, 3.0).unwrap(), [0, 5, 5]);
    assert_eq!(pick(&fps(2.0, Some(3)), &clip, 3.0).unwrap(), [0, 5, 6]);
    // Times are counted from the first frame, wherever that is.
    let late: Vec<f64> = clip.iter().map(|time| time + 7.0).collect();
    assert_eq!(pick(&fps(2.0, None), &late, 3.0).unwrap(), [0, 5, 5, 5, 5, 6]);
    // Rounded times do not lose a frame, and the end is not part of the video.
    let steady = times(90, 30000.0 / 1001.0);
    assert_eq!(
        pick(&fps(30000.0 / 1001.0, None), &steady, 90.0 * 1001.0 / 30000.0).unwrap(),
        (0..90).collect::<Vec<_>>()
    );
    assert_eq!(pick(&fps(1.0, None), &times(30, 10.0), 3.0).unwrap(), [0, 10, 20]);
    assert_eq!(pick(&fps(1.0, None), &[0.0], 0.0).unwrap(), [0]);
}

#[test]
fn the_rate_is_that_of_the_stream_however_its_duration_was_rounded() {
    for (rate, total) in [(49.0, 49), (30.0, 7), (30000.0 / 1001.0, 911), (24000.0 / 1001.0, 100_001), (7.3, 73)] {
        for duration in [total as f64 / rate, total as f64 * (1.0 / rate), (total as f64 / rate).next_up()] {
            let times = times(total, rate);
            let found = Clip { times: &times, duration }.rate();
            assert!(if rate == 7.3 { (found - rate).abs() < 1e-12 } else { found == rate }, "{rate} {found}");
        }
    }
    assert_eq!(Clip { times: &[0.0, 0.0], duration: 0.0 }.rate(), 24.0);
}

#[test]
fn names_are_canonical_and_read_back() {
    let fps = |fps, max_frames| Sampler::Fps { fps, max_frames };
    let named = [
        (Sampler::Uniform { frames: 8 }, "uniform:8"),
        (Sampler::Midpoint { frames: 16 }, "midpoint:16"),
        (fps(2.0, None), "fps:2"),
        (fps(0.5, Some(64)), "fps:0.5,max=64"),
    ];
    for (sampler, name) in named {
        assert_eq!(sampler.name(), name);
        assert_eq!(name.parse::<Sampler>().unwrap(), sampler);
        let text = serde_json::to_string(&sampler).unwrap();
        assert_eq!(serde_json::from_str::<Sampler>(&text).unwrap(), sampler);
    }
    for wrong in
        ["", "uniform", "uniform:", "uniform:0", "uniform:-1", "fps:0", "fps:nan", "fps:inf", "fps:1,max=0", "every:2"]
    {
        assert!(matches!(wrong.parse::<Sampler>(), Err(MediaError::Usage(_))), "{wrong}");
    }
}

/// A folder with these files, and the sampler that it gives.
fn folder(files: &[(&str, &str)]) -> Result<String, MediaError> {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        fs::write(folder.path().join(name), text).unwrap();
    }
    ModelSampler::from_folder(folder.path()).map(|sampler| Sampler::Model(sampler).name())
}

#[test]
fn a_folder_says_how_its_model_samples() {
    let qwen = ("config.json", r#"{"model_type": "qwen2_5_vl"}"#);
    let preprocessor = ("preprocessor_config.json", r#"{"temporal_patch_size": 2, "min_pixels": 3136}"#);
    assert_eq!(folder(&[qwen, preprocessor]).unwrap(), "model:qwen2_5_vl:fps=2,min=4,max=768");
    let video = ("video_preprocessor_config.json", r#"{"do_sample_frames": true, "fps": 1.5, "max_frames": 32}"#);
    let named = "model:qwen2_5_vl:arange,fps=1.5,min=4,max=32,patch=2";
    assert_eq!(folder(&[qwen, preprocessor, video]).unwrap(), named);
    let qwen3 = ("config.json", r#"{"model_type": "qwen3_vl"}"#);
    assert_eq!(folder(&[qwen3]).unwrap(), "model:qwen3_vl:fps=2,min=4,max=768");
    let nested = ("processor_config.json", r#"{"video_processor": {"num_frames": 16, "fps": null}}"#);
    assert_eq!(folder(&[qwen3, nested, video]).unwrap(), "model:qwen3_vl:frames=16,min=4,max=768");
    let smol = ("config.json", r#"{"model_type": "smolvlm"}"#);
    let sampling = r#"{"fps": 9, "video_sampling": {"fps": 1, "max_frames": 50, "video_size": {"longest_edge": 384}}}"#;
    assert_eq!(folder(&[smol, ("preprocessor_config.json", sampling)]).unwrap(), "model:smolvlm:fps=1,max=50");
    assert_eq!(folder(&[smol]).unwrap(), "model:smolvlm:fps=1,max=64");
}

#[test]
fn a_folder_that_makes_no_sense_is_refused_by_file_and_field() {
    let refused = |files: &[(&str, &str)], words: &[&str]| {
        let error = folder(files).unwrap_err().to_string();
        assert!(words.iter().all(|word| error.contains(word)), "{error}");
    };
    refused(&[], &["config.json"]);
    refused(&[("config.json", "[]")], &["config.json", "JSON object"]);
    refused(&[("config.json", "{")], &["config.json", "EOF"]);
    refused(&[("config.json", r#"{"model_type": 3}"#)], &["config.json", "model_type"]);
    refused(&[("config.json", r#"{"model_type": "llama"}"#)], &["config.json", "llama", "smolvlm"]);
    let qwen = ("config.json", r#"{"model_type": "qwen3_vl"}"#);
    for (field, value) in
        [("fps", "0"), ("fps", "\"2\""), ("max_frames", "-1"), ("min_frames", "0"), ("num_frames", "1e99")]
    {
        let text = format!(r#"{{"{field}": {value}}}"#);
        refused(&[qwen, ("video_preprocessor_config.json", &text)], &["video_preprocessor_config.json", field]);
    }
    let smol = ("config.json", r#"{"model_type": "smolvlm"}"#);
    refused(&[smol, ("preprocessor_config.json", r#"{"video_sampling": 3}"#)], &["preprocessor", "video_sampling"]);
    let long = format!(r#"{{"model_type": "smolvlm", "a": "{}"}}"#, "b".repeat(5 << 20));
    refused(&[("config.json", &long)], &["config.json", "bytes"]);
}
