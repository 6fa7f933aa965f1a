//! The figures as a table in Markdown.

use super::{
    Change, Row,
    legs::{LEGS, Quantiles, quantiles},
};

/// The table. Each cell has the median and the 99th percentile, in milliseconds.
pub fn markdown(rows: &[Row]) -> String {
    let mut text = "| change |".to_owned();
    for leg in LEGS {
        text += &format!(" {leg} |");
    }
    text += " whole way |\n|---|";
    text += &"---|".repeat(LEGS.len() + 1);
    text += "\n";
    rows.iter().for_each(|row| text += &line(row));
    text
}

/// A line of the table.
pub(super) fn line(row: &Row) -> String {
    let mut text = format!("| {} |", row.change.words());
    for leg in row.quantiles() {
        text += &format!(" {} |", cell(leg));
    }
    let all = row.samples.iter().map(|it| it.all);
    text + &format!(" {} |\n", cell(quantiles(all.collect())))
}

fn cell(of: Quantiles) -> String {
    format!("{}/{}", of.p50, of.p99)
}

impl Change {
    fn words(self) -> String {
        match self {
            Self::Wildcard(1) => "new name under a wildcard of 1 name".to_owned(),
            Self::Wildcard(size) => format!("new name under a wildcard of {size} names"),
            Self::Rule => "new address of a name in a rule".to_owned(),
        }
    }
}

impl Row {
    /// Those of each leg of [`LEGS`].
    fn quantiles(&self) -> [Quantiles; LEGS.len()] {
        std::array::from_fn(|leg| {
            let times = self.samples.iter().map(|sample| sample.legs[leg]);
            quantiles(times.collect())
        })
    }
}
