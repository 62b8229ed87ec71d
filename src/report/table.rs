//! Tables for the terminal.

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{CellAlignment, Table};

use super::{Grid, grids};
use crate::metrics::Summary;

/// The summary as tables; means stand with their 95% intervals.
pub fn render(summary: &Summary) -> String {
    write(grids(summary))
}

pub(super) fn write(grids: Vec<Grid>) -> String {
    let mut text = String::new();
    for grid in grids {
        let mut table = Table::new();
        table.load_style(UTF8_FULL_CONDENSED).set_header(&grid.header);
        table.add_rows(&grid.rows);
        for column in table.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        text.push_str(&format!("{}\n{table}\n", grid.title));
        for note in grid.notes {
            text.push_str(&format!("! {note}\n"));
        }
        text.push('\n');
    }
    text.push_str("[low, high]: 95% interval by bootstrap; ↓ lower is better, ↑ higher is better\n");
    text
}
