//! Horizontal bars as an SVG image, for a light or a dark page.

use std::fmt::Write as _;

/// Sizes in pixels.
const WIDTH: f64 = 760.0;
const LABELS: f64 = 270.0;
const VALUES: f64 = 90.0;
const LINE: f64 = 28.0;
const TOP: f64 = 44.0;

/// The colours of a page.
#[derive(Clone, Copy, Debug)]
pub struct Theme {
    text: &'static str,
    ours: &'static str,
    others: &'static str,
}

/// The themes, with the end of their files' names.
pub const THEMES: [(&str, Theme); 2] = [
    (
        "light",
        Theme {
            text: "#1f2328",
            ours: "#0969da",
            others: "#8c959f",
        },
    ),
    (
        "dark",
        Theme {
            text: "#e6edf3",
            ours: "#4493f8",
            others: "#6e7681",
        },
    ),
];

/// A bar. Its label and the text of its value have no characters that XML reserves.
#[derive(Clone, Debug)]
pub struct Bar {
    pub label: String,
    pub value: f64,
    /// The value in words.
    pub text: String,
    /// Whether the bar is one of this project.
    pub is_ours: bool,
}

/// The image. The longest bar has the largest value.
pub fn svg(title: &str, bars: &[Bar], theme: Theme) -> String {
    let height = TOP + LINE * bars.len() as f64 + 8.0;
    let largest = bars
        .iter()
        .map(|bar| bar.value)
        .fold(f64::MIN_POSITIVE, f64::max);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" font-size=\"14\" \
         fill=\"{}\">\n<title>{title}</title>\n<text x=\"8\" y=\"24\" font-weight=\"bold\">{title}</text>\n",
        theme.text
    );
    for (at, bar) in bars.iter().enumerate() {
        let top = TOP + LINE * at as f64;
        let width = (WIDTH - LABELS - VALUES) * bar.value / largest;
        let colour = if bar.is_ours {
            theme.ours
        } else {
            theme.others
        };
        let (label, text, baseline) = (&bar.label, &bar.text, top + 15.0);
        let [ends, starts, after] = [LABELS - 8.0, LABELS, LABELS + width + 6.0];
        let _written = writeln!(
            svg,
            "<text x=\"{ends}\" y=\"{baseline}\" text-anchor=\"end\">{label}</text>\
             <rect x=\"{starts}\" y=\"{top}\" width=\"{width:.1}\" height=\"20\" fill=\"{colour}\"/>\
             <text x=\"{after:.1}\" y=\"{baseline}\">{text}</text>"
        );
    }
    svg + "</svg>\n"
}
