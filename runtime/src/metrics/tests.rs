use super::*;

const fn counter(name: &'static str, labels: &'static [Label]) -> Metric {
    Metric {
        name,
        kind: MetricKind::Counter,
        labels,
        meaning: "Seen",
    }
}

#[test]
fn a_counter_of_known_series_has_them_all_at_once() {
    const KIND: Label = Label::one_of("kind", &["a", "b"]);
    const OUTCOME: Label = Label::one_of("outcome", &["x", "y"]);
    const ANY: Label = Label::any("what", "a thing");
    let series = |labels| counter("seen_total", labels).series();
    let known = series(&[KIND, OUTCOME]);
    assert_eq!(known.len(), 4);
    assert!(known.contains(&vec![("kind", "b"), ("outcome", "x")]));
    assert!(series(&[KIND, ANY]).is_empty());
    assert_eq!(series(&[]), [vec![]]);
}
