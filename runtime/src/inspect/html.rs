//! The common parts of both programs' pages. `maud` escapes every text, and there is no script.
//!
//! A page without input fields loads itself again every ten seconds. A page with fields stays, since loading it again
//! would delete the text in them.

pub mod table;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::problems::{Problem, Problems, explain_path};
use crate::{VERSION, admin::Condition, instance::Instance};

/// How often a page loads itself again, in seconds.
const REFRESH_SECONDS: u32 = 10;

/// The most problems at the beginning of a page.
const MOST_PROBLEMS: usize = 20;

/// The most parts of a short list.
const FEW: usize = 5;

const STYLE: PreEscaped<&str> = PreEscaped(include_str!("html/style.css"));

/// The pages of a program.
#[derive(Clone, Debug, Default)]
pub struct Site {
    /// The program's name.
    pub program: &'static str,
    /// Where the process runs.
    pub instance: Instance,
    /// The pages of the other program.
    pub other: OtherSite,
}

/// The pages of the other program, as an administrator reaches them.
#[derive(Clone, Copy, Debug, Default)]
pub struct OtherSite {
    /// The program's name.
    pub program: &'static str,
    /// The content of its pages.
    pub shows: &'static str,
    /// Their port, at a loopback address, and that of the forwarded pod.
    pub port: u16,
}

/// The collector's pages.
pub const COLLECTOR: OtherSite = OtherSite {
    program: "collector",
    shows: "the names in rules, their look-ups, and the DNS servers",
    port: 9092,
};

/// An ovn-writer's pages.
pub const OVN_WRITER: OtherSite = OtherSite {
    program: "ovn-writer",
    shows: "the address sets in the OVN database of a node or of the cluster",
    port: 9093,
};

/// Whether a page loads itself again.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Refresh {
    /// It does, and has no input fields.
    On,
    /// It does not, and may have input fields.
    Off,
}

impl Refresh {
    /// The value of the parameter `refresh` of a URL.
    pub fn of(value: Option<&str>) -> Self {
        match value {
            Some("off") => Self::Off,
            _ => Self::On,
        }
    }
}

impl Site {
    /// The status page: the problems come first.
    pub fn status(&self, problems: &Problems, refresh: Refresh, body: Markup) -> String {
        let count = problems.count();
        let title = match count {
            0 => self.program.to_owned(),
            count => format!("({count}) {}", self.program),
        };
        let body = html! {
            h1 { (self.program) }
            p.quiet { (self.place()) }
            (self.problems(problems))
            (body)
            (self.footer(None))
        };
        self.page(&title, refresh, count == 0, body)
    }

    /// The page that explains, with its lines; without any it has only the form.
    pub fn explanation(
        &self,
        about: Option<&str>,
        namespace: Option<&str>,
        lines: &[String],
    ) -> String {
        let title = format!("{}: explain", self.program);
        let body = html! {
            h1 { (title) }
            p { a href="/" { "Status" } " · " (docs_link("explain.md", "How to read it")) }
            (explain_form(about, namespace))
            @if !lines.is_empty() {
                pre { @for line in lines { (line) "\n" } }
            }
            (self.footer(about))
        };
        self.page(&title, Refresh::Off, true, body)
    }

    fn place(&self) -> String {
        let Instance { pod, node } = &self.instance;
        let pod = pod.iter().map(|pod| format!("pod {pod}"));
        let node = node.iter().map(|node| format!("node {node}"));
        let parts: Vec<_> = [VERSION.to_owned()]
            .into_iter()
            .chain(pod)
            .chain(node)
            .collect();
        parts.join(" · ")
    }

    fn problems(&self, problems: &Problems) -> Markup {
        let count = problems.count();
        let hidden = count - problems.listed.len().min(MOST_PROBLEMS);
        html! {
            @if count == 0 {
                p.problems.good { strong { "No problems" } }
            } @else {
                div.problems.bad {
                    strong { (count) (if count == 1 { " problem" } else { " problems" }) }
                    ul {
                        @for problem in problems.listed.iter().take(MOST_PROBLEMS) { li { (self.problem(problem)) } }
                    }
                    @if hidden > 0 { "and " (hidden) " more: " a href="/status.json" { "/status.json" } " lists 1,000" }
                }
            }
        }
    }

    fn problem(&self, problem: &Problem) -> Markup {
        html! {
            a href=(problem.link) { (problem.subject) } ": " (problem.words)
            @if !problem.docs.is_empty() { " (" (docs_link(problem.docs, "remedy")) ")" }
        }
    }

    /// The pages of the other program, and the documentation. `about`: the subject of an explanation.
    fn footer(&self, about: Option<&str>) -> Markup {
        let OtherSite {
            program,
            shows,
            port,
        } = self.other;
        let path = about.map_or_else(|| "/".to_owned(), explain_path);
        html! {
            h2 id="other-pages" { "Other pages" }
            p {
                a href=(format!("http://127.0.0.1:{port}{path}")) rel="noreferrer" { "The " (program) } " shows " (shows)
                @if about.is_some() { ", and explains this, too" }
                ". Its page is there while its port is forwarded:"
            }
            pre {
                "kubectl get pods -A -l app.kubernetes.io/component=" (program) " -o wide\n"
                "kubectl -n NAMESPACE port-forward POD " (port)
            }
            p { (docs_link("explain.md#status-pages", "About these pages")) }
        }
    }

    fn page(&self, title: &str, refresh: Refresh, is_good: bool, body: Markup) -> String {
        let page = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    @if refresh == Refresh::On { meta http-equiv="refresh" content=(REFRESH_SECONDS); }
                    title { (title) }
                    link rel="icon" href=(icon(is_good));
                    style { (STYLE) }
                }
                body { (body) }
            }
        };
        page.into_string()
    }
}

/// The path of a section of the documentation.
pub fn docs_link(section: &str, words: &str) -> Markup {
    html! { span.quiet { (words) ": docs/" (section) } }
}

/// A dot: green, or red if there are problems.
fn icon(is_good: bool) -> String {
    let colour = if is_good { "1e8e3e" } else { "d93025" };
    format!(
        "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E%3Ccircle cx='8' cy='8' r='7' fill='%23{colour}'/%3E%3C/svg%3E"
    )
}

/// The conditions of readiness, those that do not hold in a line of their own.
pub fn conditions(conditions: &[Condition]) -> Markup {
    let (ok, others): (Vec<_>, Vec<_>) = conditions.iter().partition(|it| it.reason.is_none());
    html! {
        @for condition in others {
            p { (condition.name) ": " span.bad { (condition.reason.as_deref().unwrap_or_default()) } }
        }
        @if !ok.is_empty() {
            p {
                @for (index, condition) in ok.iter().enumerate() {
                    @if index > 0 { " · " }
                    (condition.name) " " span.good { "ok" }
                }
            }
        }
    }
}

/// Links to stop or to start the refresh, and the input fields while it is off. `path` is the path of this page with its
/// query, for each of both.
pub fn controls(
    refresh: Refresh,
    rows: &str,
    filter: &str,
    path: impl Fn(Refresh) -> String,
) -> Markup {
    html! {
        @match refresh {
            Refresh::On => p {
                "Loads again every " (REFRESH_SECONDS) " s. "
                a href=(path(Refresh::Off)) { "Stop, to filter or to explain" }
                " · " a href="/status.json" { "JSON" }
            },
            Refresh::Off => {
                p { a href=(path(Refresh::On)) { "Load again every " (REFRESH_SECONDS) " s" } }
                (explain_form(None, None))
                form {
                    label { "Only " (rows) " with " input name="filter" size="40" maxlength="255" value=(filter); }
                    " " button { "Filter" }
                }
            }
        }
    }
}

/// The path of the status page with these parameters; empty ones are left out.
pub fn page_path(parameters: &[(&str, &str)], refresh: Refresh) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    for (name, value) in parameters.iter().filter(|(_, value)| !value.is_empty()) {
        query.append_pair(name, value);
    }
    if refresh == Refresh::Off {
        query.append_pair("refresh", "off");
    }
    match query.finish() {
        query if query.is_empty() => "/".to_owned(),
        query => format!("/?{query}"),
    }
}

/// The form that asks for an explanation.
fn explain_form(about: Option<&str>, namespace: Option<&str>) -> Markup {
    html! {
        form action="/explain" {
            label { "Name or address " input name="about" size="40" maxlength="255" required value=[about]; }
            " " label { "only for namespace " input name="namespace" size="20" maxlength="63" value=[namespace]; }
            " " button { "Explain" }
        }
    }
}

/// A link to the explanation of a name.
pub fn explain_link(about: &str) -> Markup {
    html! { a href=(explain_path(about)) { (about) } }
}

/// The first few parts, separated by commas, and the number of the others of `count`.
pub fn few_of<T: ToString>(parts: impl IntoIterator<Item = T>, count: usize) -> String {
    let shown: Vec<_> = parts
        .into_iter()
        .take(FEW)
        .map(|it| it.to_string())
        .collect();
    match count - shown.len().min(count) {
        0 => shown.join(", "),
        more if shown.is_empty() => more.to_string(),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}
