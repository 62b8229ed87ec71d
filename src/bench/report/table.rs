//! Tables for the terminal.

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{CellAlignment, Table};

use super::Document;

/// A document for the terminal.
pub fn render(document: &Document) -> String {
    let mut text: String = document.facts.iter().map(|fact| format!("{fact}\n")).collect();
    for grid in &document.tables {
        let mut table = Table::new();
        table.load_style(UTF8_FULL_CONDENSED).set_header(&grid.header);
        table.add_rows(&grid.rows);
        for column in table.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        text.push_str(&format!("\n{}\n{table}\n", grid.title));
    }
    text.push('\n');
    text.extend(document.notes.iter().map(|note| format!("{note}\n")));
    text
}
