//! Which names leave a full wildcard.

use super::*;

/// A wildcard that holds so many names.
fn full(names: usize) -> Known {
    let mut known = Known::new("*.example.com");
    known.limits.names_per_wildcard = names;
    known
}

/// A client asks for a name.
fn ask(known: &mut Known, label: &str, client: u8, second: f64) {
    let name = format!("{label}.example.com");
    let mut observation = answer(&name, &[("1.1.1.1", 36_000)], second);
    observation.client = Some([10, 0, 0, client].into());
    known.hear(&observation);
}

/// A client asks for three names.
fn ask_for_many(known: &mut Known, second: f64) {
    for i in 0..3_u8 {
        ask(known, &format!("many{i}"), 2, second + f64::from(i + 1));
    }
}

fn names(known: &Known) -> Vec<String> {
    let names = known.state.list().names();
    let labels = names.map(|name| name.as_str().split('.').next().unwrap().to_owned());
    labels.collect()
}

#[test]
fn names_asked_for_in_one_minute_only_leave_before_all_others() {
    let mut known = full(20);
    // One client uses twelve names all the time.
    for round in 0..3 {
        for i in 0..12 {
            ask(&mut known, &format!("own{i}"), 1, f64::from(round * 60 + i));
        }
    }
    // Another one, and many, ask for ever new labels.
    for i in 0..1_000 {
        ask(&mut known, &format!("x{i}"), 2, 200.0 + f64::from(i) / 20.0);
    }
    for i in 0..200_u8 {
        ask(&mut known, &format!("y{i}"), i, 260.0 + f64::from(i) / 20.0);
    }
    let own = names(&known);
    let own = own.iter().filter(|label| label.starts_with("own"));
    assert_eq!(own.count(), 12);
}

#[test]
fn names_of_the_client_with_most_names_leave_the_oldest_first() {
    let mut known = full(4);
    for second in [0.0, 60.0] {
        ask(&mut known, "few", 1, second);
        ask_for_many(&mut known, second);
    }
    // A name of one minute leaves before those that were asked for twice.
    ask(&mut known, "new", 1, 100.0);
    assert_eq!(names(&known), ["few", "many0", "many1", "many2"]);
    known.limits.names_per_wildcard = 2;
    known.enforce();
    assert_eq!(names(&known), ["few", "many2"]);
}

#[test]
fn name_that_several_clients_ask_for_belongs_to_one_with_fewest() {
    let mut known = full(4);
    for second in [0.0, 60.0] {
        ask(&mut known, "shared", 1, second);
        ask_for_many(&mut known, second);
        // The client with many names cannot push it out by asking for it.
        ask(&mut known, "shared", 2, second + 5.0);
    }
    known.limits.names_per_wildcard = 2;
    known.enforce();
    assert_eq!(names(&known), ["many2", "shared"]);
}

#[test]
fn names_of_stored_status_stay_when_client_asks_for_new_labels() {
    let mut known = full(10);
    for i in 0..10 {
        ask(&mut known, &format!("known{i}"), 1, 0.0);
    }
    known.write(0.0);
    let mut again = full(10);
    again.stored = known.stored.clone();
    again.apply_stored(&known.stored, 1.0);
    for i in 0..500 {
        ask(&mut again, &format!("x{i}"), 2, 2.0 + f64::from(i) / 20.0);
    }
    again.write(60.0);
    let left = names(&again);
    let known: Vec<_> = (0..10).map(|i| format!("known{i}")).collect();
    assert_eq!(left, known);
}
