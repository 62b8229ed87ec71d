//! One line a number, for spreadsheets and data frames.

use csv::WriterBuilder;

use super::printable;
use crate::metrics::Summary;

const HEADER: [&str; 12] =
    ["run", "task", "judge", "system", "metric", "caption_type", "records", "n", "coverage", "value", "low", "high"];

/// The summary as CSV.
pub fn render(summary: &Summary) -> String {
    let mut writer = WriterBuilder::new().from_writer(Vec::new());
    let number = |value: Option<f64>| value.map_or(String::new(), |value| value.to_string());
    // Newlines and tabs are a matter of quoting, and stay.
    let text = |value: &str| printable(value, &['\n', '\t']);
    // Writing to memory cannot fail, and all rows have as many fields as the header.
    let _ = writer.write_record(HEADER);
    for run in &summary.runs {
        for system in &run.systems {
            for metric in &system.metrics {
                let _ = writer.write_record([
                    text(run.run.as_deref().unwrap_or_default()),
                    text(&run.task),
                    text(&run.judge),
                    text(&system.system),
                    text(&metric.name),
                    text(metric.caption_type.as_deref().unwrap_or_default()),
                    metric.records.to_string(),
                    metric.n.to_string(),
                    metric.coverage.to_string(),
                    number(metric.value),
                    number(metric.low),
                    number(metric.high),
                ]);
            }
        }
    }
    String::from_utf8(writer.into_inner().unwrap_or_default()).unwrap_or_default()
}
