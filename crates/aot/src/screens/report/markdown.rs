//! A report for a pull request: what code hosts draw of Markdown, within what they take. Texts of agents are only texts there:
//! no markup, no mention of a person or an issue, no end of a block.

use aot_core::state::Stamp;
use aot_core::verdict::Evidence;
use aot_core::view::ResultProof;
use aot_runner::plain_text;

use super::gantt;
use super::{LoopReport, MARK, ReportedCheck, dollars, ending, outcome_word, took};
use crate::screens::clock;
use crate::screens::diagram::mermaid;
use crate::text::{self, counted};

/// Hosts take 65 536 characters for a description.
const LONGEST: usize = 60 << 10;

/// So much is kept for the last words.
const CLOSING: usize = 1 << 10;

/// Of a text in a table or a list so many columns are shown.
const SHOWN: usize = 240;

/// Of an output or a difference so many bytes.
const BLOCK: usize = 3 << 10;
const DIFFERENCE: usize = 4 << 10;

/// So many of a list.
const MOST: usize = 60;

/// Behind a sign that hosts act upon stands this: it has no width.
const NOTHING: char = '\u{200b}';

/// The report. Parts for which there is no room are left out, the least needed first, and named.
pub fn markdown(report: &LoopReport) -> String {
    let parts = [
        ("", head(report)),
        ("evidence", evidence(report)),
        ("what is open", standing(report)),
        ("graph", graph(report)),
        ("who ran when", timeline(report)),
        ("work", work(report)),
        ("failures and turns", trail(report)),
        ("corrections", people(report)),
        ("agents and cost", cost(report)),
        ("agreement", agreement(report)),
        ("attempts", attempts(report)),
        ("commits", commits(report)),
    ];
    let (mut page, mut left_out) = (format!("{MARK}\n"), Vec::new());
    for (name, part) in parts {
        match page.len() + part.len() + CLOSING <= LONGEST {
            true => page += &part,
            false => left_out.push(name),
        }
    }
    let missing: String = report.missing.iter().map(|missing| format!("\n> {}\n", shown(missing))).collect();
    let left_out = match left_out.is_empty() {
        true => String::new(),
        false => format!(" There was no room for: {}. `aot report` writes all of it.", left_out.join(", ")),
    };
    let closing = format!("\n---\nMade by {}.{left_out}\n", report.made_by);
    if page.len() + missing.len() + closing.len() <= LONGEST {
        page += &missing;
    }
    page + &closing
}

/// A text on one line in which Markdown and code hosts find nothing but a text.
pub(super) fn inline(said: &str) -> String {
    let mut safe = String::with_capacity(said.len());
    for c in plain_text::text(said).split_whitespace().collect::<Vec<_>>().join(" ").chars() {
        match c {
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '&' => safe.push_str("&amp;"),
            // `@name`, `#12`, `!12`, `~label`, `%1`, `$1`, and `https://`, which a host may follow to an issue.
            '@' | '#' | '!' | '~' | '%' | '$' | ':' => safe.extend(['\\', c, NOTHING]),
            '-' if ends_with(&safe, "gh") => safe.extend(['\\', c, NOTHING]),
            '.' if ends_with(&safe, "www") => safe.extend(['\\', c, NOTHING]),
            ',' | ';' | '?' | '/' | '=' | '\'' | '"' => safe.push(c),
            c if c.is_ascii_punctuation() => safe.extend(['\\', c]),
            c => safe.push(c),
        }
    }
    safe
}

fn ends_with(said: &str, word: &str) -> bool {
    said.get(said.len().saturating_sub(word.len())..).is_some_and(|end| end.eq_ignore_ascii_case(word))
}

/// The same, cut.
fn shown(said: &str) -> String {
    inline(&text::fit(said, SHOWN))
}

/// In a line of HTML, where Markdown has no say.
fn summary(said: &str) -> String {
    let mut safe = String::new();
    for c in text::fit(said, SHOWN).chars() {
        match c {
            '@' | '#' | '!' | ':' | '.' | '~' | '%' | '$' => safe.extend([c, NOTHING]),
            c => safe.push_str(&crate::screens::markup::escaped(c.encode_utf8(&mut [0; 4]))),
        }
    }
    safe
}

/// Words as code; what would end them is left out.
fn code(said: &str) -> String {
    let flat = text::fit(said, SHOWN).replace('`', "'").replace('|', "\u{00a6}");
    if flat.trim().is_empty() { String::new() } else { format!("`{}`", flat.trim()) }
}

/// Lines as a block that no line of theirs ends. Of long ones the beginning or the end is left out.
pub(super) fn block(language: &str, said: &str) -> String {
    let said = plain_text::text(said);
    let longest = said.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}{language}\n{}\n{fence}\n", said.trim_end())
}

fn first_bytes(said: &str, most: usize) -> &str {
    match said.len() <= most {
        true => said,
        false => &said[..said.floor_char_boundary(most)],
    }
}

fn last_bytes(said: &str, most: usize) -> &str {
    match said.len() <= most {
        true => said,
        false => &said[said.ceil_char_boundary(said.len() - most)..],
    }
}

fn folded(title: &str, inside: &str) -> String {
    format!("\n<details><summary>{}</summary>\n\n{inside}\n</details>\n", summary(title))
}

fn at(stamp: &Stamp) -> String {
    stamp.at().strftime("%Y-%m-%d %H:%M:%S UTC").to_string()
}

fn head(report: &LoopReport) -> String {
    let standing = &report.standing;
    let sign = if standing.is_proven { "✅" } else { "⚠️" };
    let unproven = match standing.is_proven {
        true => "",
        false => "\n> **This work is not proven: the loop did not complete.**\n",
    };
    let figures = report.figures().into_iter().filter(|(what, _)| *what != "lines");
    let figures: Vec<String> =
        figures.map(|(what, figure)| format!("**{}** {what}", shown(&figure))).collect();
    format!(
        "## {}\n\n{sign} **{}** {}\n{unproven}\n{}\n",
        shown(&report.goal),
        standing.word,
        shown(&standing.reason),
        figures.join(" · ")
    )
}

fn evidence(report: &LoopReport) -> String {
    let mut page = String::from("\n### Evidence\n\n");
    if report.checks.is_empty() {
        return page + "The base case has no checks, so nothing can be proven.\n";
    }
    page += "| | Check | What ran | Found | Took | Seen | Tree |\n|---|---|---|---|---|---|---|\n";
    for check in report.checks.iter().take(MOST) {
        page += &row(check);
    }
    if report.checks.len() > MOST {
        page += &format!("\n{} more\n", report.checks.len() - MOST);
    }
    for check in report.checks.iter().take(MOST) {
        let output = check.evidence.as_ref().and_then(|evidence| evidence.output.as_ref());
        let Some(output) = output else { continue };
        let printed = format!("{}{}", output.head, output.tail);
        if printed.trim().is_empty() || page.len() > LONGEST / 4 {
            continue;
        }
        let tail = last_bytes(&printed, BLOCK);
        let cut = if tail.len() < output.bytes as usize { ", the end" } else { "" };
        page += &folded(&format!("Output of {}{cut}", check.item), &block("text", tail));
    }
    page
}

fn row(check: &ReportedCheck) -> String {
    let sign = match outcome_word(check.outcome) {
        "pass" => "✅",
        "fail" => "❌",
        "error" => "⚠️",
        "waits" => "⏳",
        _ => "—",
    };
    let (ran, found, took, seen, tree) = match (&check.confirmed, &check.evidence) {
        (Some(confirmed), _) => {
            let word = if confirmed.holds() { "confirmed by" } else { "denied by" };
            (
                String::new(),
                format!("{word} {}", shown(&confirmed.by)),
                String::new(),
                at(&confirmed.at),
                code(&short(&confirmed.tree)),
            )
        }
        (None, Some(evidence)) => (
            code(&evidence.ran),
            found(evidence),
            took(evidence.milliseconds as f64 / 1e3),
            at(&evidence.at),
            code(&short(&evidence.tree)),
        ),
        (None, None) => {
            (String::new(), "not looked at yet".into(), String::new(), String::new(), String::new())
        }
    };
    format!("| {sign} | {} | {ran} | {found} | {took} | {seen} | {tree} |\n", shown(&check.item))
}

fn found(evidence: &Evidence) -> String {
    let end = ending(evidence);
    if end.is_empty() || evidence.why.contains(&end) {
        shown(&evidence.why)
    } else {
        format!("{end}, {}", shown(&evidence.why))
    }
}

fn standing(report: &LoopReport) -> String {
    let standing = &report.standing;
    if standing.tried.is_empty() && standing.next.is_empty() {
        return String::new();
    }
    let mut page = String::from("\n### What is open\n\n");
    for tried in standing.tried.iter().take(MOST) {
        let last = tried.reasons.last().map(String::as_str).unwrap_or_default();
        let times = counted(tried.attempts as u64, "attempt");
        page += &format!(
            "- {} after {times}: {}\n",
            code(tried.atom.as_str()),
            shown(last.lines().next().unwrap_or_default())
        );
    }
    if !standing.next.is_empty() {
        page += &format!("\nTo go on:\n\n{}", block("sh", &standing.next.join("\n")));
    }
    page
}

fn graph(report: &LoopReport) -> String {
    let drawn = mermaid(&report.diagram);
    // Larger pictures are refused by the hosts.
    if drawn.len() > LONGEST / 3 {
        return String::from("\nThe graph is too large to be drawn here: `aot graph --svg > graph.svg`.\n");
    }
    format!("\n### Graph\n\n{}", block("mermaid", &drawn))
}

fn timeline(report: &LoopReport) -> String {
    let Some((drawn, left_out)) = gantt::mermaid(&report.timeline) else { return String::new() };
    let more = match left_out {
        0 => String::new(),
        _ => format!("\n{} that took less time are not drawn.\n", counted(left_out as u64, "attempt")),
    };
    format!("\n### Who ran when\n\n{}{more}", block("mermaid", &drawn))
}

fn work(report: &LoopReport) -> String {
    let mut page = String::from("| Atom | What | | Result |\n|---|---|---|---|\n");
    for atom in report.atoms.listed.iter().take(MOST) {
        let word = match atom.proof {
            Some(ResultProof::Proven) => "proven",
            Some(ResultProof::Claimed) => "claimed",
            None => "",
        };
        page += &format!(
            "| {} | {} | {word} | {} |\n",
            code(atom.atom.as_str()),
            shown(&atom.description),
            shown(&atom.summary)
        );
    }
    let more = (report.atoms.listed.len() + report.atoms.left_out).saturating_sub(MOST);
    if more > 0 {
        page += &format!("\n{} not listed here\n", counted(more as u64, "more atom"));
    }
    folded(&format!("Work: {}", report.counts.proof()), &page)
}

fn trail(report: &LoopReport) -> String {
    if report.trail.listed.is_empty() && report.mends.listed.is_empty() {
        return String::new();
    }
    let mut page = String::new();
    let trail = &report.trail.listed;
    for one in trail.iter().skip(trail.len().saturating_sub(MOST)) {
        page += &format!("- {} — {}\n", at(&one.at), shown(&one.told));
    }
    let mends = &report.mends.listed;
    for run in mends.iter().skip(mends.len().saturating_sub(MOST)) {
        let atom = run.atom.as_ref().map_or("", |atom| atom.as_str());
        page +=
            &format!("- {} was mended: {}\n", code(atom), shown(run.mends.as_deref().unwrap_or_default()));
    }
    folded("Failures, turns and mends", &page)
}

fn people(report: &LoopReport) -> String {
    if report.corrections.is_empty() {
        return String::new();
    }
    let mut page = String::from("\n### Corrections by people\n\n");
    for one in report.corrections.iter().rev().take(MOST).rev() {
        page += &format!("- {} — {}\n", at(&one.timestamp), shown(&one.description));
    }
    page
}

fn cost(report: &LoopReport) -> String {
    if report.agents.is_empty() {
        return String::new();
    }
    let mut page =
        String::from("| Agent | Role | Runs | Time | Tokens | Cost |\n|---|---|--:|--:|--:|--:|\n");
    for total in report.agents.iter().take(MOST) {
        page += &format!(
            "| {} | {} | {} | {} | {} | {} |\n",
            shown(&total.agent),
            shown(&total.role),
            total.runs,
            clock::span(total.seconds),
            total.tokens,
            dollars(total.cost_usd)
        );
    }
    let rest = &report.not_by_run;
    if rest.tokens > 0 || rest.cost_usd > 0.0 {
        page +=
            &format!("| not told for a single run | | | | {} | {} |\n", rest.tokens, dollars(rest.cost_usd));
    }
    folded("Agents and cost", &page)
}

fn agreement(report: &LoopReport) -> String {
    let globs: Vec<String> = report.protected.iter().take(MOST).map(|glob| code(glob)).collect();
    let globs = if globs.is_empty() { "no file".to_owned() } else { globs.join(", ") };
    folded(
        "What was agreed",
        &format!(
            "- Done means: {}\n- Deliverables: {}\n- No worker may change: {globs}\n",
            shown(&report.definition_of_done),
            shown(&report.deliverables)
        ),
    )
}

fn attempts(report: &LoopReport) -> String {
    let all = &report.attempts.listed;
    if all.is_empty() {
        return String::new();
    }
    let mut page = String::from("| Began | Atom | Outcome | Time | What it said |\n|---|---|---|--:|---|\n");
    for one in all.iter().skip(all.len().saturating_sub(MOST)) {
        let said = one.reason.lines().next().unwrap_or_default();
        page += &format!(
            "| {} | {} | {} | {} | {} |\n",
            at(&one.began),
            code(&one.atom),
            shown(&one.outcome),
            took(one.seconds),
            shown(said)
        );
    }
    let more = report.attempts.left_out + all.len().saturating_sub(MOST);
    if more > 0 {
        page += &format!("\n{} not listed here\n", counted(more as u64, "earlier attempt"));
    }
    folded(&report.told_outcomes(), &page)
}

fn commits(report: &LoopReport) -> String {
    let Some(delivery) = &report.delivery else { return String::new() };
    let mut page = format!(
        "\n### Commits\n\n{} on {}: {}, +{} −{}. All of it is taken back by {}.\n",
        counted(delivery.count as u64, "commit"),
        code(&delivery.branch),
        counted(delivery.files as u64, "file"),
        delivery.insertions,
        delivery.deletions,
        code(&report.undo().unwrap_or_default())
    );
    let mut named = 0;
    for one in &delivery.commits {
        // The host shows the differences too: here there are those for which there is room.
        if page.len() > LONGEST / 4 {
            break;
        }
        named += 1;
        let title =
            format!("{} {} (+{} −{})", short(&one.commit), one.subject, one.insertions, one.deletions);
        let files: Vec<String> = one.files.iter().take(12).map(|file| code(&file.path)).collect();
        let difference = first_bytes(&one.difference, DIFFERENCE);
        let cut = match difference.len() < one.difference.len() || one.cut.is_some() {
            true => {
                format!("\nNot all of it is here: {}\n", code(&format!("git show {}", short(&one.commit))))
            }
            false => String::new(),
        };
        let difference = if difference.is_empty() { String::new() } else { block("diff", difference) };
        page += &folded(&title, &format!("{}\n\n{difference}{cut}", files.join(" ")));
    }
    if delivery.count > named {
        page += &format!("\n{} not listed here.\n", counted((delivery.count - named) as u64, "more commit"));
    }
    page
}

fn short(id: &str) -> String {
    id.chars().take(10).collect()
}
