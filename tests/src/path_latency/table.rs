//! The figures as a table in Markdown.

use super::{
    Between, Change, Row,
    legs::{LEGS, Quantiles, quantiles},
};

/// The table, and a sentence about the longest leg. Each cell has the median and the 99th percentile, in milliseconds.
pub fn markdown(rows: &[Row]) -> String {
    let mut text = "| change | store | load |".to_owned();
    for leg in LEGS {
        text += &format!(" {leg} |");
    }
    text += " whole way |\n|---|---|---|";
    text += &"---|".repeat(LEGS.len() + 1);
    text += "\n";
    let mut longest = [0; LEGS.len()];
    for row in rows {
        text += &line(row);
        let legs = row.quantiles();
        let medians = legs.iter().enumerate();
        let slowest = medians.max_by_key(|(_, leg)| leg.p50);
        if let Some((index, _)) = slowest {
            longest[index] += 1;
        }
    }
    let named = LEGS.iter().zip(longest);
    let mut named: Vec<_> = named.filter(|(_, count)| *count > 0).collect();
    named.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let count = rows.len();
    let named = named
        .iter()
        .map(|(leg, longest)| format!("`{leg}` in {longest}"));
    let named: Vec<_> = named.collect();
    text + &format!(
        "\nOf {count} rows, the leg with the largest median is {}.\n",
        named.join(", ")
    )
}

/// A line of the table.
pub(super) fn line(row: &Row) -> String {
    let store = match row.between {
        Between::Folder => "folder",
        Between::ApiServer => "API server",
    };
    let load = if row.is_loaded { "loaded" } else { "quiet" };
    let mut text = format!("| {} | {store} | {load} |", row.change.words());
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path_latency::Legs;

    #[test]
    fn the_table_has_the_quantiles_of_each_leg_and_names_the_longest() {
        let row = |change: Change, legs: [i64; LEGS.len()]| Row {
            change,
            between: Between::Folder,
            is_loaded: false,
            samples: vec![Legs { legs, all: 20 }],
        };
        let text = markdown(&[
            row(Change::Wildcard(1), [9, 2, 3, 4, 5]),
            row(Change::Rule, [1, 2, 3, 4, 5]),
        ]);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(
            lines[2..],
            [
                "| new name under a wildcard of 1 name | folder | quiet | 9/9 | 2/2 | 3/3 | 4/4 | 5/5 | 20/20 |",
                "| new address of a name in a rule | folder | quiet | 1/1 | 2/2 | 3/3 | 4/4 | 5/5 | 20/20 |",
                "",
                "Of 2 rows, the leg with the largest median is `event` in 1, `packet` in 1.",
            ]
        );
    }
}
