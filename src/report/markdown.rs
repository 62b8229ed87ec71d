//! Tables in Markdown.

use super::{Grid, grids};
use crate::metrics::Summary;

/// The summary as Markdown.
pub fn render(summary: &Summary) -> String {
    write(grids(summary))
}

pub(super) fn write(grids: Vec<Grid>) -> String {
    let mut text = String::new();
    for grid in grids {
        text.push_str(&format!("### {}\n\n", escape(&grid.title)));
        text.push_str(&row(&grid.header));
        let rule: Vec<&str> = (0..grid.header.len()).map(|column| if column == 0 { "---" } else { "---:" }).collect();
        text.push_str(&format!("| {} |\n", rule.join(" | ")));
        grid.rows.iter().for_each(|cells| text.push_str(&row(cells)));
        text.push('\n');
        for note in grid.notes {
            text.push_str(&format!("- {}\n", escape(&note)));
        }
        text.push('\n');
    }
    text.push_str("[low, high]: 95% interval by bootstrap; ↓ lower is better, ↑ higher is better.\n");
    text
}

fn row(cells: &[String]) -> String {
    format!("| {} |\n", cells.iter().map(|cell| escape(cell)).collect::<Vec<_>>().join(" | "))
}

fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace('|', "\\|")
}
