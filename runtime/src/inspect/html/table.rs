//! Tables, whose rows become blocks on a narrow screen.

use maud::{Markup, html};

/// A column of a table.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    heading: &'static str,
    has_numbers: bool,
}

impl Column {
    /// A column of texts.
    pub const fn text(heading: &'static str) -> Self {
        Self {
            heading,
            has_numbers: false,
        }
    }

    /// A column of numbers.
    pub const fn number(heading: &'static str) -> Self {
        Self {
            heading,
            has_numbers: true,
        }
    }

    fn class(&self) -> Option<&'static str> {
        self.has_numbers.then_some("number")
    }
}

/// A table with a cell for each column in each row. Without rows there is none.
pub fn table<const N: usize>(
    columns: &[Column; N],
    rows: impl IntoIterator<Item = [Markup; N]>,
) -> Markup {
    let mut rows = rows.into_iter().peekable();
    html! {
        @if rows.peek().is_some() {
            table {
                @if columns.iter().any(|column| !column.heading.is_empty()) {
                    tr {
                        @for column in columns {
                            th class=[column.class()] { (column.heading) }
                        }
                    }
                }
                @for row in rows {
                    tr {
                        @for (column, cell) in columns.iter().zip(row) {
                            td class=[column.class()] data-label=(column.heading) { (cell) }
                        }
                    }
                }
            }
        }
    }
}

/// A cell with any text or number.
pub fn cell(content: impl maud::Render) -> Markup {
    html! { (content) }
}

/// A cell with a text about a fault; empty for an empty text.
pub fn bad(words: &str) -> Markup {
    html! { @if !words.is_empty() { span.bad { (words) } } }
}

/// A cell with a text on each line.
pub fn lines<T: maud::Render>(lines: impl IntoIterator<Item = T>) -> Markup {
    html! {
        @for (index, line) in lines.into_iter().enumerate() {
            @if index > 0 { br; }
            (line)
        }
    }
}
