//! The metrics against a brute-force oracle written from their definitions, the intervals against a naive bootstrap.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use capjudge::answer::Reason;
use capjudge::metrics::{Bin, Bootstrap, Disagreements, Facts, MetricSummary, Numbers, SystemSummary, Tally};
use capjudge::task::{Better, Catalog};
use capjudge::verdict::Events;

const REASONS: [(Reason, &str); 20] = [
    (Reason::EmptyAnswer, "empty_answer"),
    (Reason::Truncated, "truncated"),
    (Reason::MissingMetric, "missing_metric"),
    (Reason::NotANumber, "not_a_number"),
    (Reason::Negative, "negative"),
    (Reason::Fractional, "fractional"),
    (Reason::OutOfRange, "out_of_range"),
    (Reason::Ambiguous, "ambiguous"),
    (Reason::Contradictory, "contradictory"),
    (Reason::TemplateEcho, "template_echo"),
    (Reason::OnlyQuoted, "only_quoted"),
    (Reason::LabelsIncomplete, "labels_incomplete"),
    (Reason::LabelsDisagree, "labels_disagree"),
    (Reason::InvalidRecord, "invalid_record"),
    (Reason::MissingField, "missing_field"),
    (Reason::EmptyCaption, "empty_caption"),
    (Reason::MissingVideo, "missing_video"),
    (Reason::UnreadableVideo, "unreadable_video"),
    (Reason::DamagedVideo, "damaged_video"),
    (Reason::JudgeFailed, "judge_failed"),
];
const CAPTION_TYPES: [&str; 5] = ["brief", "detail", "poem", "narrative", "style"];
static CATALOG: LazyLock<Catalog> = LazyLock::new(|| Catalog::built_in().unwrap());
const EXACT: Bootstrap = Bootstrap { seed: 1, resamples: 0 };

/// A verdict of any task: each task looks at its own numbers.
#[derive(Debug, Clone)]
struct Row {
    system: String,
    caption_type: Option<&'static str>,
    n_gt: u32,
    has_inserted: bool,
    listed: Option<u32>,
    /// An index into `REASONS`; scored, if absent.
    unscored: Option<usize>,
    hallucinated: u32,
    omitted: u32,
    inserted_omitted: u32,
    score: u32,
    raw_score: u32,
    agree: Option<bool>,
}

/// A scored verdict in which nothing is wrong.
fn clean(system: &str) -> Row {
    Row {
        system: system.to_owned(),
        caption_type: None,
        n_gt: 4,
        has_inserted: false,
        listed: Some(4),
        unscored: None,
        hallucinated: 0,
        omitted: 0,
        inserted_omitted: 0,
        score: 4,
        raw_score: 4,
        agree: None,
    }
}

/// `SplitMix64`.
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `end`; the bias for such small ends is below 2^-50.
    fn below(&mut self, end: u32) -> u32 {
        (self.next() % u64::from(end)) as u32
    }

    fn percent(&mut self, percent: u32) -> bool {
        self.below(100) < percent
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u32) as usize]
    }

    fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last as u32 + 1) as usize);
        }
    }

    /// 0 to 30 verdicts of 1 to 4 systems.
    fn rows(&mut self) -> Vec<Row> {
        let systems = &["m", "B", "", "a"][..1 + self.below(4) as usize];
        let (unscored, inserted, high) = (self.pick(&[0, 10, 50, 100]), self.pick(&[0, 50, 100]), 1 + self.below(6));
        (0..self.below(31))
            .map(|_| {
                let omitted = self.below(high);
                Row {
                    system: self.pick(systems).to_owned(),
                    caption_type: self.percent(80).then(|| self.pick(&CAPTION_TYPES)),
                    n_gt: self.below(7),
                    has_inserted: self.percent(inserted),
                    listed: self.percent(80).then(|| self.below(7)),
                    unscored: self.percent(unscored).then(|| self.below(REASONS.len() as u32) as usize),
                    hallucinated: self.below(high),
                    omitted,
                    inserted_omitted: self.below(omitted + 1),
                    score: self.below(5),
                    raw_score: self.below(5),
                    agree: self.pick(&[None, Some(true), Some(false)]),
                }
            })
            .collect()
    }
}

/// What the crate makes of the rows.
fn summarize(task: &str, rows: &[Row], records: &[(&str, u64)], bootstrap: Bootstrap) -> Vec<SystemSummary> {
    let mut tally = Tally::new(CATALOG.get(task).unwrap());
    for row in rows {
        let counts: BTreeMap<String, u32> = match task {
            "hallucination" => [("HALLUCINATION_COUNT".to_owned(), row.hallucinated)].into(),
            _ => [
                ("TOTAL_OMISSION_COUNT".to_owned(), row.omitted),
                ("INSERTED_OMISSION_COUNT".to_owned(), row.inserted_omitted),
            ]
            .into(),
        };
        let numbers = match row.unscored {
            Some(reason) => Err(REASONS[reason].0),
            None if task == "score" => {
                Ok(Numbers::Score { score: row.score, raw_score: row.raw_score, expected: None })
            }
            None => Ok(Numbers::Counts(&counts, row.agree)),
        };
        let events = Events { record: row.n_gt, inserted: row.has_inserted, listed: row.listed };
        tally.add(&Facts { system: &row.system, caption_type: row.caption_type, events, numbers });
    }
    tally.systems(&records.iter().map(|&(system, n)| (system.to_owned(), n)).collect(), bootstrap)
}

/// A metric of one system, as the definitions have it: the verdicts it is about, and the values to average.
struct Expected {
    name: &'static str,
    caption_type: Option<&'static str>,
    records: usize,
    values: Vec<f64>,
}

fn metric(
    name: &'static str,
    caption_type: Option<&'static str>,
    about: &[&Row],
    value: impl Fn(&Row) -> Option<f64>,
) -> Expected {
    let values = about.iter().filter(|row| row.unscored.is_none()).filter_map(|row| value(row)).collect();
    Expected { name, caption_type, records: about.len(), values }
}

fn yes(count: u32) -> f64 {
    if count > 0 { 1.0 } else { 0.0 }
}

fn ehr(row: &Row) -> Option<f64> {
    match row.listed {
        None => None,
        Some(0) => Some(0.0),
        Some(listed) => Some(f64::from(row.hallucinated) / f64::from(listed)),
    }
}

fn eor(row: &Row) -> f64 {
    let (total, n_gt) = (f64::from(row.omitted), f64::from(row.n_gt));
    if row.has_inserted {
        (total - yes(row.inserted_omitted)) / (n_gt - 1.0).max(1.0)
    } else if row.n_gt == 0 {
        0.0
    } else {
        total / n_gt
    }
}

/// Every metric of a task for the verdicts of one system.
fn oracle(task: &str, rows: &[&Row]) -> Vec<Expected> {
    match task {
        "hallucination" => {
            vec![metric("CHR", None, rows, |row| Some(yes(row.hallucinated))), metric("EHR", None, rows, ehr)]
        }
        "omission" => {
            let with_inserted: Vec<&Row> = rows.iter().copied().filter(|row| row.has_inserted).collect();
            vec![
                metric("COR", None, rows, |row| Some(yes(row.omitted))),
                metric("EOR", None, rows, |row| Some(eor(row))),
                metric("IEOR", None, &with_inserted, |row| Some(yes(row.inserted_omitted))),
            ]
        }
        _ => {
            let mut metrics = Vec::new();
            for (name, raw) in [("score", false), ("raw_score", true)] {
                let value = |row: &Row| Some(f64::from(if raw { row.raw_score } else { row.score }));
                metrics.push(metric(name, None, rows, value));
                for caption_type in CAPTION_TYPES {
                    let of_type: Vec<&Row> =
                        rows.iter().copied().filter(|row| row.caption_type == Some(caption_type)).collect();
                    if !of_type.is_empty() {
                        metrics.push(metric(name, Some(caption_type), &of_type, value));
                    }
                }
            }
            metrics
        }
    }
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

fn ratio(part: usize, whole: usize) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

fn close(a: Option<f64>, b: Option<f64>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => (a - b).abs() <= 1e-12,
        (a, b) => a.is_none() && b.is_none(),
    }
}

fn assert_metric(task: &str, got: &MetricSummary, expected: &Expected) {
    let values = &expected.values;
    assert_eq!(got.better, if task == "score" { Better::Higher } else { Better::Lower });
    assert_eq!((got.records, got.n), (expected.records as u64, values.len() as u64), "records, n: {got:?}");
    assert!(close(Some(got.coverage), Some(ratio(values.len(), expected.records))), "coverage: {got:?}");
    assert!(close(got.value, mean(values)), "value: {got:?}, not {:?}", mean(values));
    // Without resamples there is an interval only where every resample would be the same.
    let only = values.first().copied().filter(|first| values.iter().all(|value| value == first));
    assert!(close(got.low, only) && close(got.high, only), "interval: {got:?}, not {only:?}");
    let histogram = (task == "score").then(|| {
        let occurs = |score: u32| values.iter().filter(|value| **value == f64::from(score)).count() as u64;
        (0..=4).map(|score| Bin { value: f64::from(score), count: occurs(score) }).collect::<Vec<_>>()
    });
    assert_eq!(got.histogram, histogram, "histogram: {got:?}");
}

fn assert_system(task: &str, got: &SystemSummary, rows: &[&Row]) {
    let scored: Vec<&&Row> = rows.iter().filter(|row| row.unscored.is_none()).collect();
    let counts = (rows.len() as u64, rows.len() as u64, scored.len() as u64);
    assert_eq!((got.records, got.judged, got.scored), counts, "records, judged, scored");
    assert!(close(Some(got.coverage), Some(ratio(scored.len(), rows.len()))), "coverage: {got:?}");
    let mut unscored = BTreeMap::new();
    for (index, (_, name)) in REASONS.iter().enumerate() {
        let count = rows.iter().filter(|row| row.unscored == Some(index)).count() as u64;
        if count > 0 {
            unscored.insert((*name).to_owned(), count);
        }
    }
    assert_eq!(got.unscored, unscored);
    let disagreements = (task != "score").then(|| Disagreements {
        compared: scored.iter().filter(|row| row.agree.is_some()).count() as u64,
        differ: scored.iter().filter(|row| row.agree == Some(false)).count() as u64,
    });
    assert_eq!(got.disagreements, disagreements);
    let expected = oracle(task, rows);
    assert_eq!((got.metrics[0].name.as_str(), &got.metrics[0].caption_type), (expected[0].name, &None));
    assert_eq!(got.metrics.len(), expected.len(), "{:?}", got.metrics);
    for expected in expected {
        assert_metric(task, find(got, expected.name, expected.caption_type), &expected);
    }
}

fn find<'a>(system: &'a SystemSummary, name: &str, caption_type: Option<&str>) -> &'a MetricSummary {
    let mut found = system.metrics.iter().filter(|m| m.name == name && m.caption_type.as_deref() == caption_type);
    let metric = found.next().unwrap_or_else(|| panic!("no {name} of {caption_type:?}: {system:?}"));
    assert!(found.next().is_none(), "{name} of {caption_type:?} is there twice");
    metric
}

/// The systems of the rows, best first.
fn ranked(task: &str, rows: &[Row]) -> Vec<String> {
    let mut systems: Vec<(Option<f64>, String)> = Vec::new();
    for row in rows {
        if !systems.iter().any(|(_, system)| *system == row.system) {
            let own: Vec<&Row> = rows.iter().filter(|other| other.system == row.system).collect();
            systems.push((mean(&oracle(task, &own)[0].values), row.system.clone()));
        }
    }
    systems.sort_by(|(a, a_name), (b, b_name)| {
        let worse_last = |value: &Option<f64>| match value {
            None => f64::INFINITY,
            Some(value) if task == "score" => -value,
            Some(value) => *value,
        };
        worse_last(a).total_cmp(&worse_last(b)).then(a_name.cmp(b_name))
    });
    systems.into_iter().map(|(_, system)| system).collect()
}

fn compare_with_the_oracle(task: &str, inputs: u32) {
    let mut rng = Rng(u64::from(inputs));
    for input in 0..inputs {
        let rows = rng.rows();
        let result = std::panic::catch_unwind(|| {
            let got = summarize(task, &rows, &[], EXACT);
            assert_eq!(got.iter().map(|s| s.system.clone()).collect::<Vec<_>>(), ranked(task, &rows), "ranking");
            for system in &got {
                assert_system(task, system, &rows.iter().filter(|r| r.system == system.system).collect::<Vec<_>>());
            }
        });
        assert!(result.is_ok(), "{task}, input {input}: see above; the verdicts: {rows:#?}");
    }
}

#[test]
fn hallucination_metrics_are_what_the_definitions_say() {
    compare_with_the_oracle("hallucination", 10_000);
}

#[test]
fn omission_metrics_are_what_the_definitions_say() {
    compare_with_the_oracle("omission", 10_000);
}

#[test]
fn score_metrics_are_what_the_definitions_say() {
    compare_with_the_oracle("score", 10_000);
}

#[test]
fn the_order_of_verdicts_changes_nothing() {
    let mut rng = Rng(2);
    for task in ["hallucination", "omission", "score"] {
        for _ in 0..100 {
            let mut rows = rng.rows();
            let bootstrap = Bootstrap { seed: rng.next(), resamples: 200 };
            let before = summarize(task, &rows, &[], bootstrap);
            rng.shuffle(&mut rows);
            assert_eq!(summarize(task, &rows, &[], bootstrap), before, "{task}");
        }
    }
}

/// The sorted means of resamples with replacement.
fn resampled_means(values: &[f64], resamples: u32, rng: &mut Rng) -> Vec<f64> {
    let mut means: Vec<f64> = (0..resamples)
        .map(|_| (0..values.len()).map(|_| rng.pick(values)).sum::<f64>() / values.len() as f64)
        .collect();
    means.sort_by(f64::total_cmp);
    means
}

fn interval(metric: &MetricSummary) -> (f64, f64) {
    (metric.low.unwrap(), metric.high.unwrap())
}

/// Verdicts of system `a` with some of each value; not all of them the same.
fn sample(n: u32, rng: &mut Rng) -> Vec<Row> {
    let mut rows: Vec<Row> = (0..n)
        .map(|_| {
            let listed = 1 + rng.below(9);
            let hallucinated = if rng.percent(60) { 0 } else { 1 + rng.below(listed) };
            let score = rng.pick(&[0, 1, 2, 3, 3, 4, 4]);
            Row { listed: Some(listed), hallucinated, score, ..clean("a") }
        })
        .collect();
    (rows[0].hallucinated, rows[0].score, rows[1].hallucinated, rows[1].score) = (0, 1, 1, 4);
    rows
}

#[test]
fn intervals_are_those_of_a_naive_bootstrap() {
    const RESAMPLES: u32 = 4000;
    // Among 4000 resamples, the share below the true 2.5% quantile has a standard error of sqrt(0.025 * 0.975 / 4000),
    // which is 0.0025. Both sides have that noise, so they differ by sqrt(2) times as much. Within 4 such errors, the
    // crate's end has to lie between the naive quantiles at 2.5% - 1.4% and 2.5% + 1.4%; in ranks, this holds for means
    // on a grid too, whatever their distribution. A 90% or 99% interval (5%, 0.5%) falls outside.
    let noise = 4.0 * (2.0 * 0.025 * 0.975 / f64::from(RESAMPLES)).sqrt();
    let mut rng = Rng(3);
    for n in [5, 8, 20, 50, 150, 400] {
        let rows = sample(n, &mut rng);
        let binary: Vec<f64> = rows.iter().map(|row| yes(row.hallucinated)).collect();
        let ratios: Vec<f64> = rows.iter().map(|row| ehr(row).unwrap()).collect();
        let scores: Vec<f64> = rows.iter().map(|row| f64::from(row.score)).collect();
        for (task, name, values) in
            [("hallucination", "CHR", binary), ("hallucination", "EHR", ratios), ("score", "score", scores)]
        {
            let got = summarize(task, &rows, &[], Bootstrap { seed: 7, resamples: RESAMPLES });
            let (low, high) = interval(find(&got[0], name, None));
            let means = resampled_means(&values, RESAMPLES, &mut rng);
            let at = |share: f64| means[(share * f64::from(RESAMPLES - 1)).round() as usize];
            for (end, share) in [(low, 0.025), (high, 0.975)] {
                let (least, most) = (at(share - noise) - 1e-12, at(share + noise) + 1e-12);
                assert!(least <= end && end <= most, "{name}, n {n}, {share}: {end} is not in {least}..{most}");
            }
        }
    }
}

#[test]
fn intervals_depend_on_the_seed_but_not_on_other_systems() {
    let mut rng = Rng(4);
    let mut rows = sample(300, &mut rng);
    let of_a = |rows: &[Row], seed| {
        let got = summarize("hallucination", rows, &[], Bootstrap { seed, resamples: 2000 });
        interval(find(got.iter().find(|system| system.system == "a").unwrap(), "EHR", None))
    };
    let (low, high) = of_a(&rows, 1);
    assert_eq!(of_a(&rows, 1), (low, high));
    let (other_low, other_high) = of_a(&rows, 2);
    assert!(other_low != low || other_high != high, "another seed, the same draws");
    // At 2000 resamples an end has a standard error of 0.06 of the mean's own, which is 1/3.92 of the width: 4 of them,
    // and sqrt(2) for two seeds, are less than a tenth of the width.
    let slightly = 0.1 * (high - low);
    assert!((other_low - low).abs() < slightly && (other_high - high).abs() < slightly);
    for other in ["0", "b"] {
        rows.extend(sample(40, &mut rng).into_iter().map(|row| Row { system: other.to_owned(), ..row }));
        rng.shuffle(&mut rows);
        assert_eq!(of_a(&rows, 1), (low, high), "moved by system {other}");
    }
}

#[test]
fn intervals_contain_the_truth_about_as_often_as_they_say() {
    let mut rng = Rng(5);
    let rows: Vec<Row> = (0..400 * 200)
        .map(|i| Row { hallucinated: u32::from(rng.percent(30)), ..clean(&format!("s{}", i / 200)) })
        .collect();
    let got = summarize("hallucination", &rows, &[], Bootstrap { seed: 1, resamples: 1000 });
    assert_eq!(got.len(), 400);
    let intervals = got.iter().map(|system| interval(&system.metrics[0]));
    let contain = intervals.filter(|(low, high)| (*low..=*high).contains(&0.3)).count();
    assert!((360..=396).contains(&contain), "{contain} of 400");
}

#[test]
fn records_without_a_verdict_lower_the_coverage_and_nothing_else() {
    for (task, names) in
        [("hallucination", &["CHR", "EHR"][..]), ("omission", &["COR", "EOR"]), ("score", &["score", "raw_score"])]
    {
        let unscored = Row { unscored: Some(0), ..clean("a") };
        let rows = [clean("a"), Row { hallucinated: 1, omitted: 1, score: 1, ..clean("a") }, clean("a"), unscored];
        let got = summarize(task, &rows, &[("a", 10), ("none", 6)], EXACT);
        let all_judged = summarize(task, &rows, &[("a", 4)], EXACT);
        assert_eq!(all_judged, summarize(task, &rows, &[], EXACT), "{task}");

        assert_eq!(got.iter().map(|system| system.system.as_str()).collect::<Vec<_>>(), ["a", "none"], "{task}");
        let (a, none) = (&got[0], &got[1]);
        assert_eq!((a.records, a.judged, a.scored, a.coverage), (10, 4, 3, 0.3), "{task}");
        assert_eq!((none.records, none.judged, none.scored, none.coverage), (6, 0, 0, 0.0), "{task}");
        assert_eq!(a.unscored, all_judged[0].unscored, "{task}");
        assert!(none.unscored.is_empty(), "{task}");
        for name in names {
            let (with, without) = (find(a, name, None), find(&all_judged[0], name, None));
            assert_eq!((with.records, with.n, with.coverage), (10, 3, 0.3), "{task} {name}");
            assert_eq!((without.records, without.n, without.coverage), (4, 3, 0.75), "{task} {name}");
            assert_eq!((with.value, &with.histogram), (without.value, &without.histogram), "{task} {name}");
        }
        for metric in &none.metrics {
            assert_eq!((metric.n, metric.coverage), (0, 0.0), "{task} {}", metric.name);
            assert_eq!((metric.value, metric.low, metric.high), (None, None, None), "{task} {}", metric.name);
        }
        for name in names {
            assert_eq!(find(none, name, None).records, 6, "{task} {name}");
        }
    }
}

#[test]
fn a_system_without_verdicts_is_last_even_if_its_name_is_first() {
    for task in ["hallucination", "omission", "score"] {
        let rows = [Row { hallucinated: 4, omitted: 4, score: 0, ..clean("z") }];
        let got = summarize(task, &rows, &[("", 1), ("z", 1), ("b", 2)], EXACT);
        assert_eq!(got.iter().map(|system| system.system.as_str()).collect::<Vec<_>>(), ["z", "", "b"], "{task}");
    }
}
