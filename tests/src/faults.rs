//! Faults, and what a person is told of each.

use crate::wait::eventually;

/// A fault, and a part of what each command and the page say of it.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    pub fault: &'static str,
    /// The name or address that is explained.
    pub about: &'static str,
    pub check: &'static str,
    pub list: &'static str,
    pub explain: &'static str,
    /// In `/status.json`, which the page shows.
    pub page: &'static str,
}

impl Fault {
    /// The row of a table with this fault.
    ///
    /// # Panics
    /// If there is none.
    pub fn named(table: &[Self], fault: &str) -> Self {
        let mut rows = table.iter();
        *rows.find(|it| it.fault == fault).expect("a row")
    }

    /// Waits until everything says what this row has. `ask` gives the answer to a command, or to `page`.
    ///
    /// # Panics
    /// If one does not say it within a minute.
    pub async fn is_told(&self, ask: impl AsyncFn(&[&str]) -> String) {
        for (command, words) in [
            (&["check"][..], self.check),
            (&["list"], self.list),
            (&["explain", self.about], self.explain),
            (&["page"], self.page),
        ] {
            let what = format!("{}: {command:?} says {words:?}", self.fault);
            eventually(&what, async || {
                let said = ask(command).await;
                has(&said, words).then_some(()).ok_or(said)
            })
            .await;
        }
    }
}

/// Whether a line of the text has these words, or there are none. `…` stands for any text of the line.
pub fn has(text: &str, words: &str) -> bool {
    words.is_empty()
        || text.lines().any(|line| {
            let mut rest = Some(line);
            for part in words.split('…') {
                rest = rest.and_then(|rest| Some(rest.split_once(part)?.1));
            }
            rest.is_some()
        })
}

/// The problems of a `/status.json`, and the sets without a rule, as lines.
///
/// # Panics
/// If it is another text.
pub fn problems(status: &str) -> String {
    let status: serde_json::Value = serde_json::from_str(status).expect("JSON");
    let problems = status["problems"].as_array().expect("a list").iter();
    let text = |it: &serde_json::Value| it.as_str().expect("a text").to_owned();
    let lines = problems.map(|it| {
        let (subject, sentence) = (text(&it["subject"]), text(&it["sentence"]));
        format!("{subject}: {sentence}\n")
    });
    let unreferenced = status["ovnWriter"]["unreferenced"].as_array();
    let unreferenced = unreferenced.into_iter().flatten();
    let unreferenced = unreferenced.map(|it| format!("unreferenced: {}\n", text(it)));
    lines.chain(unreferenced).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stand_in_one_line_in_their_order() {
        assert!(has("x\none two three", "one…three"));
        assert!(!has("one\nthree", "one…three"));
        assert!(!has("three one", "one…three"));
    }
}
