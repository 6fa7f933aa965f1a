use super::*;
use crate::facts::pages as page_of;

fn troubled() -> NameView {
    NameView {
        denied: true,
        failing: 12,
        failures: vec![FailureView {
            name: DnsName::parse("a.example.com").unwrap(),
            failures: 4,
            failure: Some(Failure::NXDOMAIN),
        }],
        evictions: Evictions {
            addresses: 0,
            names: 9,
        },
        ..name_view("*.example.com")
    }
}

#[tokio::test]
async fn a_deny_rule_that_cannot_hold_all_addresses_says_that_they_are_open() {
    let lost = |denied| NameView {
        denied,
        full: denied,
        evictions: Evictions {
            addresses: 5,
            names: 0,
        },
        ..name_view("www.example.com")
    };
    let open = "the latest addresses were left out, and traffic to them is not blocked (5 times)";
    let (page, json) = shown(vec![lost(true)]).await;
    assert!(page.contains(open), "{page}");
    assert_eq!(json["names"][0]["full"], true);
    let (page, json) = shown(vec![lost(false)]).await;
    assert!(page.contains("5 addresses left out"), "{page}");
    assert!(!page.contains("is open"), "{page}");
    assert_eq!(json["names"][0]["full"], false);
}

#[tokio::test]
async fn the_page_and_the_json_say_what_is_wrong_and_what_is_known() {
    let (page, json) = shown(vec![name_view("www.example.com"), troubled()]).await;
    for part in [
        "This replica leads",
        "NameRefused",
        "DenyRuleByName",
        "ovn/broken",
        "www.example.com.",
        "ovn/dns-1",
        "in 12 s",
        "a.example.com.: NXDOMAIN, 4 look-ups failed",
        "11 more names cannot be looked up",
        "9 names left out",
        "192.0.2.10 and 2 more",
        "team-a and 1 more",
        "Namespaces at a cap",
        "Evicted because of a limit: 7 addresses",
        "Allow, Deny",
    ] {
        assert!(page.contains(part), "{part:?} is missing in {page}");
    }
    // The name with trouble comes first.
    let (_, table) = page.split_once("id=\"names\"").unwrap();
    let place = |text: &str| table.find(text).unwrap();
    assert!(place(">*.example.com.</a>") < place(">www.example.com.</a>"));

    assert_eq!(json["leader"], true);
    assert_eq!(json["at"], "2027-01-15T08:00:00Z");
    assert_eq!(json["conditions"][0]["name"], "store-writes");
    assert_eq!(json["faults"][0]["reason"], "NameRefused");
    assert_eq!(json["rules"][0]["unknown"][0], "ovn/broken");
    let [www, wildcard] = [&json["names"][0], &json["names"][1]];
    assert_eq!(www["nextLookup"], "2027-01-15T08:00:12Z");
    assert_eq!(www["addresses"], 3);
    assert_eq!(wildcard["failures"][0]["degraded"], "NXDOMAIN");
    assert_eq!(wildcard["evictions"]["names"], 9);
    assert_eq!(json["evictions"]["addresses"], 7);
    let namespace = &json["namespacesAtCap"][0];
    assert_eq!(namespace["addresses"], 19_990);
    assert_eq!(namespace["namesLeftOut"], 12);
}

#[tokio::test]
async fn what_others_wrote_is_escaped_and_the_page_has_no_script() {
    let (page, json) = shown(Vec::new()).await;
    assert!(!page.contains("<script"), "{page}");
    let escaped = "&lt;script&gt;alert(1)&lt;/script&gt;&quot;'&amp;";
    assert_eq!(page.matches(escaped).count(), 6, "{page}");
    let headers = page.to_ascii_lowercase();
    for header in [
        "content-type: text/html; charset=utf-8\r\n",
        "content-security-policy: default-src 'none'; ",
        "x-content-type-options: nosniff\r\n",
    ] {
        assert!(headers.contains(header), "{header:?} is missing in {page}");
    }
    assert_eq!(json["faults"][0]["subjects"][0], HOSTILE);
}

#[tokio::test]
async fn the_page_has_a_bounded_number_of_names_and_the_json_has_all() {
    let mut names: Vec<_> = (0..1_500)
        .map(|i| name_view(&format!("n{i:04}.example.com")))
        .collect();
    names.push(troubled());
    let (page, json) = shown(names).await;
    assert_eq!(page.matches("about=n").count(), 499);
    assert!(page.contains(">*.example.com.</a>"));
    assert!(page.contains("1501 names, page 1 of 4"), "{page}");
    assert_eq!(json["names"].as_array().unwrap().len(), 1_501);
}

#[test]
fn a_filter_finds_names_in_any_case_and_its_pages_follow_each_other() {
    let names = (0..100_000).map(|i| name_view(&format!("n{i:05}.example.com")));
    let sources = sources_of(mpsc::channel(1).0);
    let status = with_problems(view(names.collect()), &sources);
    let render = |filter: &str, page| {
        let shown = page_of::Shown {
            filter: filter.to_owned(),
            page,
            refresh: Refresh::Off,
        };
        let selected = page_of::Selected::of(&status, &shown);
        let listing = listing(&selected.query());
        page_of::render(&Site::default(), &status, &selected, &listing, &shown)
    };
    let row = "<tr><td data-label=\"Name\"><a href=\"/explain";
    let of = |page: &str| page.matches(row).count();
    let found = render("N0001", 1);
    assert!(
        found.contains("10 names, page 1 of 1") && of(&found) == 10,
        "{found}"
    );
    assert!(found.contains("value=\"N0001\""));
    for (number, previous, next) in [
        (0, false, true),
        (2, true, true),
        (200, true, false),
        (999, true, false),
    ] {
        let page = render("", number);
        assert_eq!(of(&page), 500);
        assert_eq!(
            (page.contains(">previous<"), page.contains(">next<")),
            (previous, next)
        );
        assert!(page.len() < 400_000, "{}", page.len());
    }
    let hostile = render("\"><script>&page=9", 1);
    assert!(hostile.contains("0 names, page 1 of 1") && !hostile.contains("<script"));
    assert!(
        hostile.contains("value=\"&quot;&gt;&lt;script&gt;&amp;page=9\""),
        "{hostile}"
    );
}

#[tokio::test]
async fn the_page_begins_with_its_problems_and_refreshes_only_without_fields() {
    let served = Served::start(vec![troubled()]).await;
    let page = get(&served.socket, "/").await;
    let still = get(&served.socket, "/?filter=x&refresh=off").await;
    let none = get(&served.socket, "/names.json?after=%20a").await;
    served.end().await;
    assert!(none.starts_with("HTTP/1.0 400"), "{none}");
    let (before, _) = page.split_once("id=\"conditions\"").unwrap();
    for part in [
        "<strong>5 problems</strong>",
        "<a href=\"/#dns-servers\">DNS server 10.0.0.1:53</a>: flush.cluster.local.: no stream",
        "<a href=\"/explain?about=*.example.com.\">*.example.com.</a>: a.example.com.: NXDOMAIN",
        "<meta http-equiv=\"refresh\" content=\"10\">",
    ] {
        assert!(before.contains(part), "{part:?} is missing in {before}");
    }
    for link in before.split("href=\"/#").skip(1) {
        let (id, _) = link.split_once('"').unwrap();
        assert!(page.contains(&format!("id=\"{id}\"")), "{id}");
    }
    assert!(!page.contains("<input"), "{page}");
    assert!(!still.contains("http-equiv"), "{still}");
    let field = "name=\"filter\" size=\"40\" maxlength=\"255\" value=\"x\"";
    assert!(still.contains(field), "{still}");
}

#[test]
fn without_problems_the_page_says_so_and_links_to_the_documentation() {
    let mut status = status_of(vec![name_view("www.example.com")]);
    status.problems = Default::default();
    let shown = page_of::Shown {
        filter: String::new(),
        page: 1,
        refresh: Refresh::On,
    };
    let site = Site {
        program: "collector",
        other: runtime::inspect::html::OVN_WRITER,
        ..Site::default()
    };
    let selected = page_of::Selected::of(&status, &shown);
    let listing = listing(&selected.query());
    let page = page_of::render(&site, &status, &selected, &listing, &shown);
    for part in [
        "<p class=\"problems good\"><strong>No problems</strong></p>",
        "About these pages: docs/explain.md#status-pages",
        "href=\"http://127.0.0.1:9093/\"",
    ] {
        assert!(page.contains(part), "{part:?} is missing in {page}");
    }
}
