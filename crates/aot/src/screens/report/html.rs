//! A report as one file for a browser: no script, nothing from elsewhere, and every text only a text.

mod commits;

use std::fmt::Write;

use aot_core::state::{LoopStatus, Stamp, is_same_failure};
use aot_core::verdict::{Evidence, Outcome, Source};
use aot_core::view::{DisplayStatus, ResultProof};
use aot_runner::plain_text;
use jiff::tz::TimeZone;

use super::gantt::gantt;
use super::style::STYLE;
use super::{
    Listed, LoopReport, ReportedAtom, ReportedAttempt, ReportedCheck, dollars, ending, outcome_word,
    thousands, took,
};
use crate::screens::diagram::svg;
use crate::screens::{clock, markup};
use crate::text::{self, counted};

/// By these words a file is known as one of ours.
pub const MARK: &str = "<!-- a report of aot -->";

/// Lists that are longer than this begin closed.
const OPEN_UP_TO: usize = 12;

/// A picture that is not wider than this can be read on a page.
const READABLE: f64 = 1_450.0;

/// Nothing is loaded, nothing runs, nothing is sent.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";

pub fn html(report: &LoopReport, zone: &TimeZone) -> String {
    let mut page = HtmlPage { text: String::new(), zone };
    page.head(report);
    page.evidence(report);
    page.standing(report);
    page.graph(report);
    page.timeline(report);
    page.work(report);
    page.attempts(report);
    page.way(report);
    page.people(report);
    page.cost(report);
    page.commits(report);
    page.agreement(report);
    page.foot(report);
    page.text
}

struct HtmlPage<'z> {
    text: String,
    zone: &'z TimeZone,
}

/// A text of anybody as text of the page: without escape sequences, without marks of direction, without markup.
fn e(said: &str) -> String {
    markup::escaped(&plain_text::text(said))
}

/// The same on one line.
fn flat(said: &str) -> String {
    e(&said.split_whitespace().collect::<Vec<_>>().join(" "))
}

fn pill(class: &str, word: &str) -> String {
    format!("<span class=\"pill {class}\">{}</span>", e(word))
}

fn of_outcome(outcome: Option<Outcome>) -> &'static str {
    match outcome {
        Some(Outcome::Pass) => "good",
        Some(Outcome::Fail) => "bad",
        Some(Outcome::Error | Outcome::Pending) => "warn",
        None => "",
    }
}

fn of_attempt(outcome: &str) -> &'static str {
    match outcome {
        "resolved" | "decomposed" => "good",
        "failed" => "bad",
        "open" => "live",
        _ => "",
    }
}

impl HtmlPage<'_> {
    fn add(&mut self, markup: &str) {
        self.text.push_str(markup);
        self.text.push('\n');
    }

    fn heading(&mut self, id: &str, words: &str) {
        self.add(&format!("<h2 id=\"{id}\">{words}</h2>"));
    }

    fn time(&self, at: &Stamp) -> String {
        let zoned = at.at().to_zoned(self.zone.clone());
        format!("<time datetime=\"{}\">{}</time>", e(at.as_str()), zoned.strftime("%Y-%m-%d %H:%M:%S"))
    }

    fn left_out<T>(&mut self, listed: &Listed<T>, what: &str, where_: &str) {
        if listed.left_out > 0 {
            let count = counted(listed.left_out as u64, what);
            self.add(&format!("<p class=\"dim small\">{count} {where_} not listed here.</p>"));
        }
    }

    fn head(&mut self, report: &LoopReport) {
        let standing = &report.standing;
        let class = match standing.status {
            LoopStatus::Completed => "good",
            LoopStatus::Stopped => "bad",
            LoopStatus::Running => "live",
            LoopStatus::Pending => "warn",
        };
        let title = flat(&report.title());
        self.add(&format!(
            "<!doctype html>\n{MARK}\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
             <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n\
             <meta name=\"referrer\" content=\"no-referrer\">\n<title>{} · {title}</title>\n{STYLE}</head>\n<body>\n<main>",
            e(&standing.word)
        ));
        self.add(&format!(
            "<p class=\"over\">{} · {}</p>\n<h1>{}</h1>",
            flat(&report.project),
            self.time(&report.made_at),
            flat(&report.goal)
        ));
        self.add(&format!(
            "<div class=\"banner {class}\"><b>{}</b><span>{}</span></div>\n<dl class=\"figures\">",
            e(&standing.word),
            flat(&standing.reason)
        ));
        for (what, figure) in report.figures() {
            self.add(&format!("<div><dt>{what}</dt><dd>{}</dd></div>", e(&figure)));
        }
        self.add("</dl>");
        for missing in &report.missing {
            self.add(&format!("<p class=\"dim small\">{}</p>", flat(missing)));
        }
    }

    fn evidence(&mut self, report: &LoopReport) {
        self.heading("evidence", "Evidence");
        if report.checks.is_empty() {
            return self.add("<p>The base case has no checks, so nothing can be proven.</p>");
        }
        if let Some(tree) = report.checks.iter().find_map(|check| check.evidence.as_ref()) {
            let told = if report.standing.is_proven {
                "aot ran every check itself. This is what it saw last"
            } else {
                "This is what was last seen of each check"
            };
            self.add(&format!(
                "<p class=\"dim small\">{told}. A tree is named by the hash of its content, here in <code>{}</code>. \
                 To see it again: <code class=\"k\">aot verify --fresh</code>.</p>",
                e(&tree.folder)
            ));
        }
        for check in &report.checks {
            self.check(check);
        }
    }

    fn check(&mut self, check: &ReportedCheck) {
        let class = of_outcome(check.outcome);
        let above = match check.path.split_last() {
            Some((_, above)) if !above.is_empty() => {
                format!("<span class=\"dim small\">{}</span>", flat(&above.join(" › ")))
            }
            _ => String::new(),
        };
        self.add(&format!(
            "<section class=\"check {class}\"><header><strong>{}</strong>{above}<span class=\"dim small\">{}</span>{}</header>",
            flat(&check.item),
            e(&check.kind),
            pill(class, outcome_word(check.outcome))
        ));
        if let Some(confirmed) = &check.confirmed {
            let word = if confirmed.holds() { "confirmed" } else { "denied" };
            self.add(&format!(
                "<p class=\"facts\"><span>{word} by {}</span><span>{}</span><span>tree <code>{}</code></span></p>",
                flat(&confirmed.by),
                self.time(&confirmed.at),
                e(&short(&confirmed.tree))
            ));
        }
        match &check.evidence {
            Some(evidence) => self.seen(evidence, check.outcome),
            None if check.confirmed.is_none() => self.add("<p class=\"facts\">It was not looked at yet.</p>"),
            None => {}
        }
        self.add("</section>");
    }

    fn seen(&mut self, evidence: &Evidence, outcome: Option<Outcome>) {
        if !evidence.ran.is_empty() {
            self.add(&format!("<div><code>{}</code></div>", flat(&evidence.ran)));
        }
        let mut facts = vec![flat(&evidence.why)];
        let end = ending(evidence);
        if !end.is_empty() && !evidence.why.contains(&end) {
            facts.push(end);
        }
        if evidence.source != Source::NotRun {
            facts.push(took(evidence.milliseconds as f64 / 1e3));
        }
        if evidence.runs > 1 {
            facts.push(format!("{} runs", evidence.runs));
        }
        facts.push(self.time(&evidence.at));
        facts.push(format!(
            "tree <code title=\"{}\">{}</code>",
            e(&evidence.tree),
            e(&short(&evidence.tree))
        ));
        facts.retain(|fact| !fact.is_empty());
        let facts: String = facts.iter().map(|fact| format!("<span>{fact}</span>")).collect();
        self.add(&format!("<p class=\"facts\">{facts}</p>"));
        for score in evidence.judged.iter().flat_map(|judged| &judged.scores) {
            self.add(&format!(
                "<p class=\"small\"><b>{} of 5</b> {}: {}</p>",
                score.score,
                flat(&score.criterion),
                flat(&score.reason)
            ));
        }
        if !evidence.files.is_empty() && evidence.files != [evidence.ran.as_str()] {
            let files: Vec<String> = evidence.files.iter().take(20).map(|file| flat(file)).collect();
            self.add(&format!("<p class=\"small dim\">{}</p>", files.join(", ")));
        }
        let Some(output) = &evidence.output else { return };
        let omitted = match output.omitted {
            0 => String::new(),
            bytes => format!("\n… {bytes} bytes are left out …\n"),
        };
        let printed = format!("{}{omitted}{}", output.head, output.tail);
        if printed.trim().is_empty() {
            return;
        }
        let lines = printed.lines().count() as u64;
        let open = if outcome == Some(Outcome::Pass) { "" } else { " open" };
        self.add(&format!(
            "<details{open}><summary>What it printed ({})</summary><pre>{}</pre></details>",
            counted(lines, "line"),
            e(printed.trim_end())
        ));
    }

    fn standing(&mut self, report: &LoopReport) {
        let standing = &report.standing;
        if standing.tried.is_empty() && standing.next.is_empty() {
            return;
        }
        self.heading("standing", "What is open");
        for tried in &standing.tried {
            let times = counted(tried.attempts as u64, "attempt");
            self.add(&format!("<h3><code>{}</code> after {times}</h3>\n<ul>", e(tried.atom.as_str())));
            let mut told: Vec<&String> = Vec::new();
            for reason in tried.reasons.iter().rev() {
                if told.len() == 3 || told.iter().any(|other| is_same_failure(other, reason)) {
                    continue;
                }
                told.push(reason);
                let mut lines = reason.lines();
                let first = flat(lines.next().unwrap_or_default());
                let rest: Vec<&str> = lines.collect();
                let rest = match rest.is_empty() {
                    true => String::new(),
                    false => format!("<pre>{}</pre>", e(&rest.join("\n"))),
                };
                self.add(&format!("<li>{first}{rest}</li>"));
            }
            self.add("</ul>");
        }
        if !standing.next.is_empty() {
            let steps: String = standing.next.iter().map(|step| format!("{}\n", e(step))).collect();
            self.add(&format!("<h3>To go on</h3>\n<pre>{}</pre>", steps.trim_end()));
        }
    }

    fn graph(&mut self, report: &LoopReport) {
        self.heading("graph", "Graph");
        let drawn = svg(&report.diagram);
        self.add(&format!("<div class=\"wide {}\">{drawn}</div>", fitting(&drawn)));
    }

    fn timeline(&mut self, report: &LoopReport) {
        let Some(drawn) = gantt(&report.timeline, self.zone) else { return };
        self.heading("time", "Who ran when");
        self.add(&format!("<div class=\"wide draw fits\">{drawn}</div>"));
        let keys = [
            ("good", "resolved", "bar good"),
            ("bad", "failed", "bar bad"),
            ("", "came back without a failure", "bar back"),
            ("wait", "nothing could start", "bar wait"),
            ("live", "runs", "bar live"),
        ];
        let keys = keys.iter().filter(|(.., bar)| drawn.contains(&format!("class=\"{bar}\"")));
        let keys: String =
            keys.map(|(class, words, _)| format!("<span class=\"{class}\"><i></i>{words}</span>")).collect();
        let zone = report.now.to_zoned(self.zone.clone()).strftime("%Z").to_string();
        self.add(&format!("<p class=\"key\">{keys}<span>times in {}</span></p>", e(&zone)));
    }

    fn work(&mut self, report: &LoopReport) {
        self.heading("work", "Work");
        let claimed = report.counts.claimed;
        let told = match claimed {
            0 => "Proven: aot saw the atom's check pass or its command succeed.".to_owned(),
            _ => format!(
                "Proven: aot saw the atom's check pass or its command succeed. Claimed: an agent says so; look at {}.",
                if claimed == 1 { "it" } else { "these" }
            ),
        };
        self.add(&format!("<p class=\"dim small\">{told}</p>\n<div class=\"wide\"><table class=\"stack\">"));
        let has_cost = report.atoms.listed.iter().any(|atom| atom.tokens > 0 || atom.cost_usd > 0.0);
        let cost = if has_cost { "<th class=\"n\">Tokens<th class=\"n\">Cost" } else { "" };
        self.add(&format!(
            "<thead><tr><th>Atom<th>What<th>How it stands<th class=\"n\">Attempts<th class=\"n\">Time{cost}</tr></thead>\n<tbody>"
        ));
        for atom in &report.atoms.listed {
            self.atom(atom, has_cost);
        }
        self.add("</tbody></table></div>");
        self.left_out(&report.atoms, "more atom", "are");
    }

    fn atom(&mut self, atom: &ReportedAtom, has_cost: bool) {
        let (class, word) = match (atom.proof, atom.status) {
            (Some(ResultProof::Proven), _) => ("good", "proven"),
            (Some(ResultProof::Claimed), _) => ("warn", "claimed"),
            (None, DisplayStatus::Running) => ("live", "running"),
            (None, DisplayStatus::Failed) => ("bad", "failed"),
            (None, DisplayStatus::Dormant) => ("", "not needed"),
            (None, DisplayStatus::Ready) => ("", "ready"),
            (None, DisplayStatus::Pending | DisplayStatus::Resolved | DisplayStatus::Claimed) => {
                ("", "pending")
            }
        };
        let mut below = String::new();
        if !atom.summary.is_empty() {
            let _ = write!(below, "<span class=\"dim\">{}</span>", flat(&atom.summary));
        }
        if !atom.artifacts.is_empty() {
            let named: Vec<String> = atom.artifacts.iter().take(8).map(|path| flat(path)).collect();
            let more = if atom.artifacts.len() > 8 { ", …" } else { "" };
            let _ = write!(below, "<span class=\"dim\">{}{more}</span>", named.join(", "));
        }
        let commit = match &atom.commit {
            Some(commit) => format!(" <code>{}</code>", e(&short(commit))),
            None => String::new(),
        };
        let number = |number: String, name: &str, is_there: bool| {
            let number = if is_there { number } else { String::new() };
            format!("<td class=\"n\" data-name=\"{name}\">{number}</td>")
        };
        let time = took(atom.seconds);
        let mut row = format!(
            "<tr><td class=\"t\"><code>{}</code></td><td>{}{below}</td><td class=\"t\">{}{commit}</td>{}{}",
            e(atom.atom.as_str()),
            flat(&atom.description),
            pill(class, word),
            number(atom.attempts.to_string(), "attempts", atom.attempts > 0),
            number(time, "time", atom.attempts > 0),
        );
        if has_cost {
            row += &number(thousands(atom.tokens), "tokens", atom.tokens > 0);
            row += &number(dollars(atom.cost_usd), "cost", atom.cost_usd > 0.0);
        }
        self.add(&(row + "</tr>"));
    }

    fn attempts(&mut self, report: &LoopReport) {
        if report.attempts.listed.is_empty() {
            return;
        }
        self.heading("attempts", "Attempts");
        self.add(&format!("<p class=\"dim small\">{}.</p>", flat(&report.told_outcomes())));
        let failed =
            report.attempts.listed.iter().filter(|one| !matches!(one.outcome.as_str(), "resolved")).count();
        let open = if report.attempts.listed.len() <= OPEN_UP_TO || failed <= 3 { " open" } else { "" };
        let open = if report.attempts.listed.len() <= 2 * OPEN_UP_TO { open } else { "" };
        self.add(&format!(
            "<details{open}><summary>Each of them</summary>\n<div class=\"wide\"><table class=\"stack\">\n\
             <thead><tr><th>Began<th>Atom<th>Outcome<th class=\"n\">Time<th>What it said</tr></thead>\n<tbody>"
        ));
        for one in &report.attempts.listed {
            self.attempt(one);
        }
        self.add("</tbody></table></div></details>");
        self.left_out(&report.attempts, "earlier attempt", "are");
    }

    fn attempt(&mut self, one: &ReportedAttempt) {
        let mut lines = one.reason.lines();
        let first = flat(lines.next().unwrap_or_default());
        let rest: Vec<&str> = lines.take(12).collect();
        let rest = match rest.is_empty() {
            true => String::new(),
            false => format!("<details><summary>more</summary><pre>{}</pre></details>", e(&rest.join("\n"))),
        };
        let number = one.attempt.map(|number| format!(" <span class=\"dim\">iteration {number}</span>"));
        self.add(&format!(
            "<tr><td class=\"t\">{}</td><td class=\"t\"><code>{}</code>{}</td><td>{}</td><td class=\"n\">{}</td><td>{first}{rest}</td></tr>",
            self.time(&one.began),
            flat(&one.atom),
            number.unwrap_or_default(),
            pill(of_attempt(&one.outcome), &one.outcome),
            took(one.seconds)
        ));
    }

    fn way(&mut self, report: &LoopReport) {
        if !report.trail.listed.is_empty() {
            self.heading("trail", "Failures and turns");
            self.left_out(&report.trail, "earlier one", "are");
            self.add("<ul>");
            for one in &report.trail.listed {
                self.add(&format!(
                    "<li>{} <span class=\"dim small\">{}</span></li>",
                    flat(&one.told),
                    self.time(&one.at)
                ));
            }
            self.add("</ul>");
        }
        if !report.mends.listed.is_empty() || report.spent.mends > 0 {
            self.heading("mends", "Mends");
            let times = text::times(usize::try_from(report.spent.mends).unwrap_or(usize::MAX));
            self.add(&format!(
                "<p class=\"dim small\">An agent went on in the same tree {times}, because something was missing.</p>\n<ul>"
            ));
            for run in &report.mends.listed {
                let atom = run.atom.as_ref().map_or("", |atom| atom.as_str());
                let why = run.mends.as_deref().unwrap_or_default();
                self.add(&format!("<li><code>{}</code> {}</li>", e(atom), flat(why)));
            }
            self.add("</ul>");
        }
    }

    fn people(&mut self, report: &LoopReport) {
        if report.corrections.is_empty() {
            return;
        }
        self.heading("people", "Corrections by people");
        self.add("<ul>");
        for one in &report.corrections {
            let at = self.time(&one.timestamp);
            let cleared = if one.trail_cleared { " The history of failures was cleared." } else { "" };
            self.add(&format!(
                "<li>{}.{cleared} <span class=\"dim small\">{at}</span></li>",
                flat(&one.description)
            ));
        }
        self.add("</ul>");
    }

    fn cost(&mut self, report: &LoopReport) {
        if report.agents.is_empty() && report.spent.agent_runs == 0 {
            return;
        }
        self.heading("cost", "Agents and cost");
        self.add(
            "<div class=\"wide\"><table class=\"stack\">\n<thead><tr><th>Agent<th>Role<th class=\"n\">Runs<th class=\"n\">Time\
             <th class=\"n\">Tokens<th class=\"n\">Cost</tr></thead>\n<tbody>",
        );
        for total in &report.agents {
            self.add(&format!(
                "<tr><td>{}</td><td>{}</td><td class=\"n\" data-name=\"runs\">{}</td><td class=\"n\" data-name=\"time\">{}</td>\
                 <td class=\"n\" data-name=\"tokens\">{}</td><td class=\"n\" data-name=\"cost\">{}</td></tr>",
                flat(&total.agent),
                e(&total.role),
                total.runs,
                clock::span(total.seconds),
                thousands(total.tokens),
                dollars(total.cost_usd)
            ));
        }
        let rest = &report.not_by_run;
        if rest.tokens > 0 || rest.cost_usd > 0.0 {
            self.add(&format!(
                "<tr><td colspan=\"4\">not told for a single run</td><td class=\"n\" data-name=\"tokens\">{}</td>\
                 <td class=\"n\" data-name=\"cost\">{}</td></tr>",
                thousands(rest.tokens),
                dollars(rest.cost_usd)
            ));
        }
        self.add(&format!(
            "<tr><td colspan=\"2\"><b>all</b></td><td class=\"n\" data-name=\"runs\"><b>{}</b></td>\
             <td class=\"n\" data-name=\"time\"><b>{}</b></td><td class=\"n\" data-name=\"tokens\"><b>{}</b></td>\
             <td class=\"n\" data-name=\"cost\"><b>{}</b></td></tr>",
            report.spent.agent_runs,
            clock::span(report.spent.seconds),
            thousands(report.spent.tokens),
            dollars(report.spent.cost_usd)
        ));
        self.add("</tbody></table></div>");
    }

    fn agreement(&mut self, report: &LoopReport) {
        self.heading("agreement", "What was agreed");
        for (name, said) in
            [("Done means", &report.definition_of_done), ("Deliverables", &report.deliverables)]
        {
            if !said.trim().is_empty() {
                self.add(&format!("<h3>{name}</h3>\n<p>{}</p>", e(said.trim())));
            }
        }
        if !report.protected.is_empty() {
            let globs: Vec<String> =
                report.protected.iter().map(|glob| format!("<code>{}</code>", flat(glob))).collect();
            self.add(&format!("<h3>Files that no worker may change</h3>\n<p>{}</p>", globs.join(" ")));
        }
        let limits = &report.constraints;
        self.add(&format!(
            "<h3>Limits</h3>\n<p>{}, {} at a time, stopped after {}.</p>",
            counted(u64::from(limits.max_iterations), "iteration"),
            counted(u64::from(limits.max_parallel_agents), "agent"),
            counted(u64::from(limits.max_stall_count), "stall")
        ));
    }

    fn foot(&mut self, report: &LoopReport) {
        let of_loop = match &report.loop_id {
            Some(id) => format!(" of the loop <code>{}</code>", e(id)),
            None => String::new(),
        };
        self.add(&format!(
            "<footer>A report{of_loop} by {}. It loads nothing and runs nothing. Outputs and differences are cut where they are long, \
             and it says where.</footer>\n</main>\n</body>\n</html>",
            e(&report.made_by)
        ));
    }
}

/// A picture that can still be read when it is made as narrow as the page is made so. Others are scrolled.
fn fitting(drawn: &str) -> &'static str {
    let width =
        drawn.split_once(" width=\"").and_then(|(_, rest)| rest.split('"').next()?.parse::<f64>().ok());
    if width.is_some_and(|width| width <= READABLE) { "fits" } else { "" }
}

/// The first letters of an id or a hash.
fn short(id: &str) -> String {
    id.chars().take(10).collect()
}
