use super::*;

const COLOURS: &Metric = &Metric::gauge(
    "metrics_tests_colours",
    &[Label::any("of", "a thing")],
    "Colours of things",
);

#[test]
fn a_series_is_shown_until_it_is_not_there_any_more() {
    let series = Series::of(COLOURS);
    assert!(!series::render("x").contains("colours"));
    series.replace([(["a \"b\"\\\n".to_owned()], 1.0), (["c".to_owned()], 2.5)]);
    let expected = "# HELP metrics_tests_colours Colours of things\n\
                    # TYPE metrics_tests_colours gauge\n\
                    metrics_tests_colours{program=\"x\",of=\"a \\\"b\\\"\\\\\\n\"} 1\n\
                    metrics_tests_colours{program=\"x\",of=\"c\"} 2.5\n";
    assert!(
        series::render("x").contains(expected),
        "{}",
        series::render("x")
    );
    // Another one of the same metric has the same series.
    Series::of(COLOURS).replace([(["c".to_owned()], 3.0)]);
    let text = series::render("x");
    assert!(
        text.contains("of=\"c\"} 3\n") && !text.contains("a \\\""),
        "{text}"
    );
    series.put(["d".to_owned()], Some(4.0));
    series.put(["c".to_owned()], None);
    let text = series::render("x");
    assert!(
        text.contains("of=\"d\"} 4\n") && !text.contains("of=\"c\"}"),
        "{text}"
    );
    series.replace::<1>([]);
    assert!(!series::render("x").contains("colours"));
}

#[test]
fn a_counter_of_known_series_has_them_all_at_once() {
    const KIND: Label = Label::one_of("kind", &["a", "b"]);
    const OUTCOME: Label = Label::one_of("outcome", &["x", "y"]);
    const ANY: Label = Label::any("what", "a thing");
    let series = |labels| Metric::counter("seen_total", labels, "Seen").series();
    let known = series(&[KIND, OUTCOME]);
    assert_eq!(known.len(), 4);
    assert!(known.contains(&vec![("kind", "b"), ("outcome", "x")]));
    assert!(series(&[KIND, ANY]).is_empty());
    assert_eq!(series(&[]), [vec![]]);
}

#[test]
fn the_unit_stands_in_the_name() {
    let unit = |name| Metric::counter(name, &[], "").unit();
    assert_eq!(unit("received_bytes_total"), Some(Unit::Bytes));
    assert_eq!(unit("delay_seconds"), Some(Unit::Seconds));
    assert_eq!(unit("events_total"), None);
}
