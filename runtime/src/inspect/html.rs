//! The common parts of both programs' pages. `maud` escapes every text, and there is no script.

use maud::{DOCTYPE, Markup, html};

use super::problems::explain_path;

const STYLE: &str = "
body { font: 14px/1.4 sans-serif; margin: 1.5em; max-width: 90em }
table { border-collapse: collapse; margin: .5em 0 1.5em }
th, td { border-bottom: 1px solid #ccc; padding: .2em .8em .2em 0; text-align: left; vertical-align: top }
td.number, th.number { text-align: right }
td { overflow-wrap: anywhere }
pre { white-space: pre-wrap }
.bad { color: #a00 }
";

/// A whole page.
pub fn page(title: &str, body: Markup) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width";
                title { (title) }
                style { (STYLE) }
            }
            body { (body) }
        }
    };
    page.into_string()
}

/// The page that explains, with its lines; without any it has only the form.
pub fn explanation(
    program: &str,
    about: Option<&str>,
    namespace: Option<&str>,
    lines: &[String],
) -> String {
    let title = format!("{program}: explain");
    page(
        &title,
        html! {
            h1 { (title) }
            p { a href="/" { "All names" } }
            (explain_form(about, namespace))
            @if !lines.is_empty() {
                pre { @for line in lines { (line) "\n" } }
            }
        },
    )
}

/// The form that asks for an explanation.
pub fn explain_form(about: Option<&str>, namespace: Option<&str>) -> Markup {
    html! {
        form action="/explain" {
            label { "Name or address " input name="about" size="40" maxlength="255" required value=[about]; }
            label { " only for namespace " input name="namespace" size="20" maxlength="63" value=[namespace]; }
            " " button { "Explain" }
        }
    }
}

/// A link to the explanation of a name.
pub fn explain_link(about: &str) -> Markup {
    html! { a href=(explain_path(about)) { (about) } }
}

/// The form that filters the rows of a table by a text.
pub fn filter_form(rows: &str, filter: &str) -> Markup {
    html! {
        form {
            label { "Only " (rows) " with " input name="filter" size="40" maxlength="255" value=(filter); }
            " " button { "Filter" }
        }
    }
}
