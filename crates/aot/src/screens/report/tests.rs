//! What the writers make of any text and of any amount.

use aot_core::state::{Agreement, NewAtom};

use super::*;

fn entry(revision: u64, second: i64, changes: Vec<Change>) -> JournalEntry<Change> {
    let at = Timestamp::from_second(1_800_000_000 + second).expect("a moment").to_string();
    JournalEntry { revision, at, from: String::new(), hash: String::new(), changes }
}

/// A loop in which so many attempts failed, on so many atoms, each with a long reason.
fn failed(attempts: usize, atoms: usize) -> LoopReport {
    let mut agreement = Agreement::about("Much");
    agreement.objective.goal = "Much".into();
    agreement.atoms = (0..atoms)
        .map(|number| NewAtom { description: format!("Part {number} of it"), ..NewAtom::default() })
        .collect();
    let state = agreement.state();
    let ids: Vec<AtomId> = state.atoms.keys().cloned().collect();
    let entries: Vec<JournalEntry<Change>> = (0..attempts)
        .flat_map(|number| {
            let (atom, at) = (ids[number % ids.len()].clone(), number as i64 * 3);
            let reason = format!("no {number}\n{}", "output of it\n".repeat(20));
            let started = Change::AtomStarted { atom: atom.clone(), attempt: u32::try_from(number).ok() };
            let noted = Change::FailureNoted { atom: atom.clone(), reason };
            [entry(1, at, vec![started]), entry(2, at + 2, vec![Change::AtomReset { atom }, noted])]
        })
        .collect();
    LoopReport::of(ReportSources {
        state: &state,
        entries: &entries,
        evidence: &[],
        delivery: None,
        missing: Vec::new(),
        project: "much",
        driver: None,
        now: Timestamp::from_second(1_800_100_000).expect("a moment"),
    })
}

#[test]
fn a_report_is_bounded_and_says_what_is_left_out() {
    let report = failed(10_000, 900);
    let page = html(&report, &jiff::tz::TimeZone::UTC);
    assert!(page.len() < 2 << 20, "{}", page.len());
    for told in [
        "9500 earlier attempts are not listed",
        "500 more atoms are not listed",
        "10000 attempts: 10000 failed",
    ] {
        assert!(page.contains(told), "{told}");
    }
    let page = markdown(&report);
    assert!(page.len() <= 60 << 10, "{}", page.len());
    assert!(
        page.contains("9940 earlier attempts not listed here")
            && page.contains("9940 attempts that took less time")
    );
    assert!(failed(0, 1).timeline.spans.is_empty());
}

#[test]
fn a_text_in_markdown_is_only_a_text() {
    let shown = |said: &str| markdown::inline(said).replace('\u{200b}', "·");
    for (said, expected) in [
        ("plain, with: commas", "plain, with\\:· commas"),
        ("@ada and a@b.c", "\\@·ada and a\\@·b\\.c"),
        ("#12 GH-12 gh-1 well-known !3", "\\#·12 GH\\-·12 gh\\-·1 well\\-known \\!·3"),
        ("https://a.b www.a.b", "https\\:·//a\\.b www\\.·a\\.b"),
        ("<b>*x*</b> `y` [z](w) | a & b", "&lt;b&gt;\\*x\\*&lt;/b&gt; \\`y\\` \\[z\\]\\(w\\) \\| a &amp; b"),
        ("\u{1b}[31mred\u{1b}[0m\u{202e} a\n\n# b", "red a \\#· b"),
    ] {
        assert_eq!(shown(said), expected, "{said}");
    }
    assert_eq!(markdown::block("text", "a\n````\n```\nb"), "`````text\na\n````\n```\nb\n`````\n");
}

#[test]
fn numbers_are_grouped() {
    assert_eq!(
        [0, 999, 1_000, 1_234_567].map(thousands).join(" ").replace('\u{202f}', "_"),
        "0 999 1_000 1_234_567"
    );
    assert_eq!([0.0, 0.0123, 1.5].map(dollars).join(", "), "0.00 USD, 0.0123 USD, 1.50 USD");
}
