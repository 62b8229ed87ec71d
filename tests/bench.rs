//! `capjudge bench`: plans, percentiles, comparisons, warnings, every format, and a tiny random judge from end to end.

use std::collections::BTreeMap;

use capjudge::bench::report::{BenchFormat, render, render_comparison};
use capjudge::bench::{
    Bench, Cell, CellResult, JudgeFacts, Judgement, Load, Machine, Peak, Plan, PlanError, Since, Stage, Summary, Sweep,
    Warning, WorkloadFacts, compare, percentile,
};
use serde_json::Value;

use crate::workspace::{Workspace, record};

// --- plans ---

fn sweep() -> Sweep {
    Sweep { batch: vec![1], quant: vec!["none".into()], frames: vec![8], threads: vec![2], max_tokens: vec![64] }
}

#[test]
fn a_sweep_has_every_combination_and_keeps_a_models_cells_together() {
    let sweep = Sweep {
        quant: vec!["Q4_K_M".into(), "q8_0".into()],
        frames: vec![4, 8],
        threads: vec![1, 2],
        max_tokens: vec![16, 64],
        ..sweep()
    };
    let cells = sweep.cells(true).unwrap();
    assert_eq!(cells.len(), 16);
    let quants: Vec<&str> = cells.iter().map(|cell| cell.quant.as_str()).collect();
    assert_eq!(quants, [["q4k"; 8], ["q8_0"; 8]].concat());
    for (index, cell) in cells.iter().enumerate() {
        assert!(!cells[..index].contains(cell), "{cell:?} is there twice");
    }
}

#[test]
fn frames_make_no_difference_to_a_task_that_shows_none_and_values_count_once() {
    let sweep = Sweep { frames: vec![4, 8], quant: vec!["q4k".into(), "q4_k".into()], ..sweep() };
    let cells = sweep.cells(false).unwrap();
    let only = Cell { batch: 1, quant: "q4k".into(), frames: None, threads: 2, max_tokens: 64 };
    assert_eq!(cells, [only]);
}

#[test]
fn a_sweep_that_makes_no_sense_is_refused_by_flag() {
    let refused = |sweep: Sweep| sweep.cells(true).unwrap_err();
    assert_eq!(refused(Sweep { frames: vec![4, 0], ..sweep() }), PlanError::Zero("frames"));
    assert_eq!(refused(Sweep { threads: vec![0], ..sweep() }), PlanError::Zero("threads"));
    assert_eq!(refused(Sweep { batch: vec![1, 4000], ..sweep() }), PlanError::Batch(4000));
    assert_eq!(refused(Sweep { frames: (1..2000).collect(), ..sweep() }), PlanError::TooMany(1999));
    let message = refused(Sweep { quant: vec!["q9".into()], ..sweep() }).to_string();
    assert!(message.contains("--quant q9") && message.contains("none, q8_0, q6k"), "{message}");
}

#[test]
fn a_cell_is_named_by_what_differs() {
    let cells = Sweep { frames: vec![4, 8], ..sweep() }.cells(true).unwrap();
    assert_eq!(cells[0].named(&cells), "frames 4");
    assert_eq!(cells[1].named(&[]), "quant none, batch 1, frames 8, threads 2, max_tokens 64");
}

// --- statistics ---

/// `numpy.percentile([15, 20, 35, 40, 50], q)` with numpy's default method, `linear`; and of other lists.
#[test]
fn percentiles_are_those_of_numpy() {
    let close = |values: &[f64], percent: f64, wanted: f64| {
        let found = percentile(values, percent).unwrap();
        assert!((found - wanted).abs() < 1e-9, "{percent}% of {values:?}: {found}, not {wanted}");
    };
    let five = [50.0, 15.0, 40.0, 20.0, 35.0];
    for (percent, wanted) in [(0.0, 15.0), (5.0, 16.0), (30.0, 23.0), (40.0, 29.0), (50.0, 35.0), (95.0, 48.0)] {
        close(&five, percent, wanted);
    }
    close(&five, 100.0, 50.0);
    close(&[1.0, 2.0, 3.0, 4.0], 50.0, 2.5);
    close(&[1.0, 2.0, 3.0, 4.0], 90.0, 3.7);
    close(&[7.0], 99.0, 7.0);
    let hundred: Vec<f64> = (1..=100).map(f64::from).collect();
    close(&hundred, 99.0, 99.01);
    assert_eq!(percentile(&[], 50.0), None);
}

#[test]
fn a_summary_holds_the_median_between_its_bounds() {
    let values: Vec<f64> = (0..40).map(|index| 1.0 + f64::from(index % 7) / 10.0).collect();
    let summary = Summary::of(&values, "test").unwrap();
    assert_eq!((summary.n, summary.min, summary.max), (40, 1.0, 1.6));
    assert!(summary.low <= summary.p50 && summary.p50 <= summary.high, "{summary:?}");
    assert!(summary.low > summary.min && summary.high < summary.max, "{summary:?}");
    assert_eq!(Summary::of(&values, "test"), Some(summary), "the same samples, other numbers");
    assert_eq!(Summary::of(&[], "test"), None);
}

// --- results made by hand ---

fn judgement(repeat: usize, id: &str, verdict: f64) -> Judgement {
    Judgement {
        id: id.to_owned(),
        repeat,
        frames: Some(0.05),
        pixels: Some(0.02),
        tower: Some(verdict * 0.2),
        prefill: verdict * 0.3,
        first_token: verdict * 0.5,
        decode: verdict * 0.4,
        parse: 1e-5,
        verdict,
        prompt_tokens: 1000,
        reused_tokens: 600,
        answer_tokens: 41,
        scored: true,
    }
}

/// A result whose times to a verdict are these, of two records by turns.
fn result_of(times: &[f64]) -> CellResult {
    let samples: Vec<Judgement> =
        times.iter().enumerate().map(|(index, time)| judgement(index / 2 + 1, ["a", "b"][index % 2], *time)).collect();
    CellResult {
        cell: sweep().cells(true).unwrap().remove(0),
        stages: CellResult::summaries(&samples),
        samples,
        judgements_per_hour: 1800.0,
        peak_memory: Some(Peak { bytes: 2_500_000_000, since: Since::Cell }),
        joules_per_judgement: Some(31.5),
    }
}

fn bench_of(cells: Vec<CellResult>) -> Bench {
    Bench {
        schema_version: 1,
        version: "0.0.0".into(),
        machine: Machine {
            cpu: Some("A processor | of tests".into()),
            logical_cores: 4,
            physical_cores: 2,
            caches: BTreeMap::from([("L2".into(), "1024K".into())]),
            memory_bytes: Some(16_000_000_000),
            os: "Linux".into(),
            architecture: "x86_64".into(),
            virtual_machine: Some(false),
            governor: Some("performance".into()),
            load_average: Some(0.1),
        },
        judge: JudgeFacts {
            name: "judge\u{1b}[2J".into(),
            sha256: "abc".into(),
            arithmetic: "cpu".into(),
            random: false,
        },
        workload: WorkloadFacts {
            task: "score".into(),
            prompt_sha256: "p".into(),
            data: "built in".into(),
            data_sha256: "d".into(),
            records: 2,
            pictures: "synthetic 448x448".into(),
            reuse: true,
        },
        plan: Plan { warmup: 1, repeats: 5, order: "by turns".into() },
        loads: vec![Load {
            quant: "none".into(),
            cold_seconds: Some(2.0),
            warm_seconds: vec![0.5],
            note: "mapped".into(),
            first_verdict_seconds: 3.0,
        }],
        cells,
        warnings: vec!["the machine was busy".into()],
    }
}

/// Twenty times around `middle`, 2% apart.
fn around(middle: f64) -> Vec<f64> {
    (0..20).map(|index| middle * (1.0 + 0.002 * (f64::from(index % 10) - 4.5))).collect()
}

// --- comparisons ---

fn sentence(a: &Bench, b: &Bench, stage: Stage) -> String {
    let comparison = compare(a, b).unwrap();
    comparison.differences.iter().find(|difference| difference.stage == stage).unwrap().sentence.clone()
}

#[test]
fn a_faster_a_slower_and_an_equal_result_are_told_apart_in_a_sentence() {
    let bench = |middle| bench_of(vec![result_of(&around(middle))]);
    let (slow, fast) = (bench(1.3), bench(1.0));
    let faster = sentence(&slow, &fast, Stage::Verdict);
    assert!(faster.starts_with("B is 1.30 times as fast as A to a verdict (95% interval 1.29 to 1.3"), "{faster}");
    let slower = sentence(&fast, &slow, Stage::Verdict);
    assert!(slower.starts_with("B takes 1.30 times as long as A to a verdict (95% interval 1.29 to 1.3"), "{slower}");
    let same = sentence(&fast, &fast, Stage::Verdict);
    assert!(same.starts_with("no difference can be told to a verdict: B is 1.00 times as fast"), "{same}");
    assert!(same.ends_with("take more repeats"), "{same}");
    let rate = sentence(&slow, &fast, Stage::DecodeRate);
    assert!(rate.starts_with("B is 1.30 times as fast as A in writing the answer, in tokens a second"), "{rate}");
    let constant = sentence(&slow, &fast, Stage::Pixels);
    assert!(constant.starts_with("no difference can be told in preparing pixels"), "{constant}");
}

#[test]
fn few_and_wild_samples_claim_no_difference() {
    let bench = |times: &[f64]| bench_of(vec![result_of(times)]);
    let told = sentence(&bench(&[1.0, 3.0, 1.1]), &bench(&[2.9, 1.0, 1.2]), Stage::Verdict);
    assert!(told.starts_with("no difference can be told"), "{told}");
}

#[test]
fn other_work_is_refused_and_another_machine_or_model_is_said() {
    let a = bench_of(vec![result_of(&around(1.0))]);
    let mut b = a.clone();
    b.workload.records = 3;
    let error = compare(&a, &b).unwrap_err().to_string();
    assert!(error.contains("the number of records is another (2 and 3)"), "{error}");
    let mut b = a.clone();
    b.cells[0].cell.frames = Some(4);
    assert!(compare(&a, &b).unwrap_err().to_string().contains("no cell in common"));
    let mut b = a.clone();
    b.machine.cpu = Some("Another".into());
    b.machine.load_average = Some(0.9);
    b.judge.sha256 = "def".into();
    let notes = compare(&a, &b).unwrap().notes.join("\n");
    assert!(notes.contains("different machines") && notes.contains("different models"), "{notes}");
    assert!(notes.contains("A: the machine was busy"), "{notes}");
    let mut b = a.clone();
    b.machine.load_average = Some(3.0);
    assert!(!compare(&a, &b).unwrap().notes.join("\n").contains("machines"), "a busy machine is still the same");
}

// --- reports ---

#[test]
fn every_format_shows_every_stage_and_no_control_characters() {
    let mut second = result_of(&around(2.0));
    second.cell.frames = Some(4);
    let bench = bench_of(vec![result_of(&around(1.0)), second]);
    let comparison = compare(&bench, &bench).unwrap();
    for format in [BenchFormat::Table, BenchFormat::Markdown, BenchFormat::Csv] {
        for text in [render(&bench, format), render_comparison(&comparison, format)] {
            for stage in Stage::ALL {
                assert!(text.contains(stage.name()), "{format:?} has no {}:\n{text}", stage.name());
            }
            assert!(!text.contains('\u{1b}'), "{text}");
        }
    }
    let table = render(&bench, BenchFormat::Table);
    for wanted in
        ["1.00 s", "2.50 GB", "1800", "31.5", "cold 2.00 s, warm 500.0 ms", "frames 4", "warning: the machine was"]
    {
        assert!(table.contains(wanted), "no {wanted} in\n{table}");
    }
    assert!(render(&bench, BenchFormat::Markdown).contains("A processor \\| of tests"));
    let csv = render(&bench, BenchFormat::Csv);
    assert_eq!(csv.lines().count(), 1 + 2 * Stage::ALL.len());
    let again: Bench = serde_json::from_str(&render(&bench, BenchFormat::Json)).unwrap();
    assert_eq!(again, bench, "JSON keeps everything, to the last bit");
}

// --- warnings ---

#[test]
fn warnings_say_what_was_seen_and_what_to_do() {
    for (warning, seen, remedy) in [
        (Warning::DebugBuild, "without optimisation", "cargo build --release"),
        (Warning::Busy { load: 3.06, cores: 2 }, "a load of 3.1 on 2 cores", "stop other programs"),
        (Warning::Governor("powersave".into()), "`powersave`", "cpupower"),
        (Warning::Throttled(7), "7 times because it was hot", "let it cool"),
        (Warning::Stolen(2.5), "2.5% of the processor's time", "in turns"),
        (Warning::TooFew { samples: 15, repeats: 34 }, "15 samples", "--repeats 34"),
        (Warning::Noisy { cell: "frames 4".into(), percent: 22.0 }, "frames 4", "--repeats"),
        (Warning::Drift { cell: "frames 4".into(), percent: -12.0 }, "12% faster", "--warmup"),
        (Warning::Unscored { unscored: 3, of: 9, random: false }, "3 of 9 answers", "raise --max-tokens"),
        (Warning::Unscored { unscored: 9, of: 9, random: true }, "9 of 9 answers", "a random model never ends"),
        (Warning::NoColdLoad, "no cold time", "after a restart"),
        (Warning::PeakSinceStart, "since the start", "one by one"),
    ] {
        let text = warning.to_string();
        assert!(text.contains(seen) && text.contains(remedy), "{text}");
    }
}

#[test]
fn warnings_come_where_they_should_and_nowhere_else() {
    let told = |bench: &Bench| -> Vec<String> {
        capjudge::bench::warnings_of(bench).iter().map(ToString::to_string).collect()
    };
    let quiet: Vec<f64> = (0..100).map(|index| 1.0 + 0.0001 * f64::from(index % 5)).collect();
    let quiet = bench_of(vec![result_of(&quiet)]);
    // Tests run in builds without optimisation, which is said.
    let of_build = usize::from(cfg!(debug_assertions));
    assert_eq!(told(&quiet).len(), of_build, "{:?}", told(&quiet));
    let has = |bench: &Bench, text: &str| assert!(told(bench).join("\n").contains(text), "{text}: {:?}", told(bench));
    let mut busy = quiet.clone();
    busy.machine.load_average = Some(2.0);
    busy.machine.governor = Some("powersave".into());
    has(&busy, "a load of 2.0 on 4 cores");
    has(&busy, "`powersave`");
    has(&bench_of(vec![result_of(&[1.0; 10])]), "take --repeats 50 for a hundred");
    let noisy: Vec<f64> = (0..100).map(|index| 1.0 + 0.1 * f64::from(index / 2 % 4)).collect();
    has(&bench_of(vec![result_of(&noisy)]), "between quartiles");
    let slower: Vec<f64> = (0..100).map(|index| if index < 50 { 1.0 } else { 1.2 }).collect();
    has(&bench_of(vec![result_of(&slower)]), "the second half of the turns was 20% slower");
    // Records that differ from each other are no noise.
    let uneven: Vec<f64> = (0..100).map(|index| if index % 2 == 0 { 1.0 } else { 3.0 }).collect();
    assert_eq!(told(&bench_of(vec![result_of(&uneven)])).len(), of_build);
    let mut unscored = quiet.clone();
    unscored.cells[0].samples[0].scored = false;
    has(&unscored, "1 of 100 answers were no verdicts");
    let mut warm = quiet.clone();
    warm.loads[0].cold_seconds = None;
    has(&warm, "no cold time to load");
    let mut peaks = bench_of(vec![quiet.cells[0].clone(), quiet.cells[0].clone()]);
    peaks.cells[1].peak_memory = Some(Peak { bytes: 1, since: Since::Start });
    has(&peaks, "peaks of memory are those since the start");
}

// --- from end to end ---

const TINY: &str =
    "bench --shape tiny --prompts my --frame-size 64x48 --max-tokens 4 --warmup 1 --repeats 2 --records 2 --quiet";

/// A folder with the built-in tasks and prompts of a few words: builds without optimisation take long to read a rubric.
fn with_short_prompts() -> Workspace {
    let workspace = Workspace::new();
    let short = [
        ("hallucination", "Which events are made up? {GROUND_TRUTH_EVENTS} {INFERENCE_CAPTION}"),
        ("score", "How good is it? ### **Input:** {caption_type} {output} {reference}"),
    ];
    for (task, prompt) in short {
        let declaration = workspace.run(&format!("prompts show {task} --declaration")).exits(0).stdout;
        workspace.write(&format!("my/{task}.toml"), &declaration);
        workspace.write(&format!("my/{task}.txt"), prompt);
    }
    workspace
}

fn json_of(workspace: &Workspace, command: &str) -> Value {
    serde_json::from_str(&workspace.run(&format!("{command} --format json")).exits(0).stdout).unwrap()
}

#[test]
fn a_tiny_random_judge_is_measured_with_nothing_at_hand_and_the_result_keeps_its_schema() {
    let workspace = with_short_prompts();
    let result = json_of(&workspace, &format!("{TINY} --frames 2,4 --quant none,q8_0"));
    let schema: Value = serde_json::from_str(&workspace.run("schema bench").exits(0).stdout).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let errors: Vec<String> = validator.iter_errors(&result).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{errors:?}");
    assert!(!validator.is_valid(&serde_json::json!({"schema_version": 1})), "the schema lets everything through");
    let bench: Bench = serde_json::from_value(result).unwrap();
    assert_eq!((bench.cells.len(), bench.loads.len()), (4, 2));
    assert_eq!((bench.workload.task.as_str(), bench.workload.pictures.as_str()), ("score", "synthetic 64x48"));
    assert!(bench.judge.random && bench.judge.sha256.len() == 64);
    for result in &bench.cells {
        assert_eq!(result.samples.len(), 4, "two records, two turns");
        assert_eq!(result.samples.iter().map(|sample| sample.repeat).collect::<Vec<_>>(), [1, 1, 2, 2]);
        for sample in &result.samples {
            assert_eq!((sample.answer_tokens, sample.scored, sample.frames), (4, false, None));
            assert!(sample.reused_tokens > 0 && sample.reused_tokens < sample.prompt_tokens, "{sample:?}");
            assert!(sample.pixels.unwrap() > 0.0 && sample.tower.unwrap() > 0.0, "{sample:?}");
            assert!(sample.first_token <= sample.verdict && sample.prefill < sample.first_token, "{sample:?}");
            assert!(sample.parse > 0.0 && sample.parse < sample.verdict, "{sample:?}");
        }
        assert!(result.judgements_per_hour > 0.0);
        assert_eq!(result.stages, CellResult::summaries(&result.samples), "numbers that the samples do not give");
    }
    let [few, many] = [&bench.cells[0], &bench.cells[1]].map(|result| result.samples[0].prompt_tokens);
    assert!(few < many, "more frames take more of the prompt: {few} and {many}");
}

#[test]
fn results_are_written_compared_and_shown() {
    let workspace = with_short_prompts();
    workspace.run(&format!("{TINY} --task hallucination --format json --out a.json")).exits(0).says("warning: ");
    workspace.run(&format!("{TINY} --task hallucination --no-reuse --format json --out b.json")).exits(0);
    workspace
        .run("bench compare a.json b.json")
        .exits(0)
        .prints("B against A")
        .prints("note: the beginning that prompts have in common");
    workspace.run("bench compare a.json b.json --format markdown --out c.md").exits(0);
    assert!(workspace.read("c.md").contains("| cell | stage |"));
    let table = workspace.run(&format!("{TINY} --task hallucination")).exits(0).prints("time to verdict");
    table.prints("built in").prints("random weights").prints("warning: 4 of 4 answers were no verdicts");
    workspace.run(&format!("{TINY} --format json --out other.json")).exits(0);
    workspace.run("bench compare a.json other.json").exits(2).says("cannot be compared: the task is another");
    workspace.write("broken.json", "{}");
    workspace.run("bench compare a.json broken.json").exits(2).says("is no result of capjudge bench --format json");
    workspace.run("bench compare a.json missing.json").exits(1).says("missing.json");
}

#[test]
fn a_data_set_and_a_video_of_the_users_own_are_measured() {
    let workspace = with_short_prompts();
    workspace.write_lines("data.jsonl", &[record("one", "x", "A dog runs."), record("two", "x", "It barks.")]);
    let command = format!("{TINY} --task hallucination --data data.jsonl");
    let bench: Bench = serde_json::from_value(json_of(&workspace, &command)).unwrap();
    let ids: Vec<&str> = bench.cells[0].samples.iter().map(|sample| sample.id.as_str()).collect();
    assert_eq!((ids, bench.workload.records), (vec!["one", "two", "one", "two"], 2));
    let clip = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/media/h264-high.mp4");
    let video = format!("{TINY} --frames 2 --video {}", clip.display()).replace("--frame-size 64x48", "");
    let bench: Bench = serde_json::from_value(json_of(&workspace, &video)).unwrap();
    assert!(bench.cells[0].samples.iter().all(|sample| sample.frames.is_some_and(|seconds| seconds > 0.0)));
    assert!(bench.cells[0].stages.contains_key(&Stage::Frames));
    assert!(bench.workload.pictures.starts_with("h264-high.mp4, SHA-256 "), "{}", bench.workload.pictures);
}

#[test]
fn what_cannot_be_measured_is_refused_with_a_remedy() {
    let workspace = Workspace::new();
    for (command, code, says) in [
        ("bench --task hallucination --video a.mp4", 2, "shows no frames"),
        ("bench --shape tiny --judge x", 2, "cannot be used with"),
        ("bench --shape nothing", 2, "there are llama-3.2-1b"),
        ("bench --judge scripted:a.jsonl", 2, "there is nothing to measure"),
        ("bench --judge nowhere.gguf", 4, "there is no such file or folder"),
        ("bench --shape tiny --batch 4000", 2, "--batch 4000: at most 1024"),
        ("bench --shape tiny --repeats 0", 2, "--repeats 0"),
        ("bench --shape tiny --frames 0", 2, "--frames 0"),
        ("bench --shape tiny --threads 100000", 2, "physical cores"),
        ("bench --shape tiny --quant q9", 2, "--quant q9"),
        ("bench --shape tiny --frame-size 448", 2, "such as 448x448"),
        ("bench --shape tiny --task hallucination --video a.mp4", 2, "shows no frames"),
        ("bench --shape smollm2-135m --task score --loads 0", 2, "cannot see"),
        ("bench --shape tiny --data missing.jsonl", 1, "missing.jsonl"),
    ] {
        workspace.run(command).exits(code).says(says);
    }
    workspace.write_lines("score.jsonl", &[record("one", "x", "A dog runs.")]);
    workspace.run("bench --shape tiny --task score --data score.jsonl").exits(2).says("record one");
    workspace.write("empty.jsonl", "");
    workspace.run("bench --shape tiny --data empty.jsonl").exits(2).says("there are no records in it");
    workspace.run("bench --help").exits(0).prints("capjudge bench compare a.json b.json").prints("Sweep:");
}
