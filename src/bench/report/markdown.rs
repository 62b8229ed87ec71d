//! Tables in Markdown.

use super::Document;

/// A document in Markdown.
pub fn render(document: &Document) -> String {
    let mut text: String = document.facts.iter().map(|fact| format!("- {}\n", escape(fact))).collect();
    for grid in &document.tables {
        text.push_str(&format!("\n### {}\n\n", escape(&grid.title)));
        text.push_str(&row(&grid.header));
        let rule: Vec<&str> = (0..grid.header.len()).map(|column| if column == 0 { "---" } else { "---:" }).collect();
        text.push_str(&format!("| {} |\n", rule.join(" | ")));
        grid.rows.iter().for_each(|cells| text.push_str(&row(cells)));
    }
    text.push('\n');
    text.extend(document.notes.iter().map(|note| format!("- {}\n", escape(note))));
    text
}

fn row(cells: &[String]) -> String {
    format!("| {} |\n", cells.iter().map(|cell| escape(cell)).collect::<Vec<_>>().join(" | "))
}

fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace('|', "\\|")
}
