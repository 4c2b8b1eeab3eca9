//! `aot report`: what was seen, told whole and told harmlessly.

use std::collections::BTreeSet;
use std::fs;

use serde_json::{Value, json};

use crate::repo::{Plan, Repo, atom, check};

/// What a browser, a terminal or a code host would act upon.
const EVIL: &str = "</title></style></script><script>alert(1)</script><img src=x onerror=alert(2)> @admin #12 ``` --> ]]> \
                    https://evil.example/issues/1 | a | <b onclick=x> \u{1b}[31mred\u{1b}[0m\u{1b}]0;title\u{7} a\u{202e}b GH-7";

/// An agent that costs something, says what is evil, and needs a second turn.
const AGENT: &str = r#"
cat > /dev/null
echo '{"t": "use", "tokens": 40, "usd": 0.25}'
if test -e agent.txt; then echo fine > agent.txt; else echo first > agent.txt; fi
printf '<script>alert(3)</script>\n' > "$(printf 'name\033[2J<i>.txt')"
cat "$ANSWER"
"#;

fn json_text(said: &str) -> String {
    json!(said).to_string()
}

/// A loop with an agent, a command, alternatives of which one fails, and every text evil.
fn ran() -> Repo {
    let atoms = [
        format!(
            "  - {{id: A1, description: {}, status: pending, depends_on: [], check: {{type: command, value: \"grep -q fine agent.txt\"}}}}\n",
            json_text(EVIL)
        ),
        "  - {id: A3, description: \"Bad\", status: pending, depends_on: [A1], or_group: way, run: \"echo '<script>no</script>'; exit 3\"}\n".into(),
        "  - {id: A4, description: \"Good\", status: pending, depends_on: [A1], or_group: way, run: \"printf '4\\\\033[35mred\\\\033[0m\\\\n' > four\"}\n".into(),
    ];
    let base_case = "      - {item: \"Four is there\", check: {type: command, value: \"cat four && echo '<script>x</script>'\"}}\n      \
                     - {item: \"The agent wrote\", check: {type: file, value: agent.txt}}\n";
    let repo = Repo::with(&Plan {
        atoms: &atoms.concat(),
        or_groups: "  way: {choices: [A3, A4], selected: A3, failed: []}",
        base_case,
        ..Plan::default()
    });
    // Control characters in an answer are refused before anybody reads it.
    let summary: String = EVIL.replace("\u{1b}[31m", "").chars().filter(|c| !c.is_control()).collect();
    let summary = summary.replace("[0m", "").replace("]0;title", "");
    let answer = json!({"t": "end", "v": {
        "success": true, "summary": summary, "artifacts": ["agent.txt"], "reason": null, "too_large": false,
    }});
    repo.write("../answer.json", &format!("{answer}\n"));
    repo.write("../agent.sh", &AGENT.replace("$ANSWER", &repo.path("../answer.json").display().to_string()));
    repo.write(
        "../config/aot/aot.toml",
        &format!(
            "[cage]\nkind = \"none\"\n[agents]\nprobe = \"none\"\ncoordinator = \"none\"\n[agent.mine]\nprogram = \"/bin/sh\"\n\
             arguments = [{:?}]\ninput = \"prompt\"\nanswer = \"event\"\n\
             session = {{ resume = [\"--resume\"] }}\n\
             [[agent.mine.events]]\nwhen = {{ t = \"end\" }}\nanswer = \"v\"\n\
             [[agent.mine.events]]\nwhen = {{ t = \"use\" }}\ninput_tokens = [\"tokens\"]\ncost_usd = \"usd\"\n",
            repo.path("../agent.sh").display().to_string()
        ),
    );
    let said = repo.aot(&["run", "--json", "--agent", "mine"]);
    assert_eq!(said.exit, 0, "{}{}", said.out, said.err);
    repo
}

fn object(repo: &Repo) -> Value {
    let said = repo.aot(&["report", "--json"]);
    assert_eq!((said.exit, said.err.as_str()), (0, ""), "{}", said.out);
    said.halted()
}

#[test]
fn the_evidence_is_that_of_verify() {
    let repo = ran();
    let verified = repo.aot(&["verify", "--json"]).halted();
    let report = object(&repo);
    // Where a pass is shown again instead of looked at again, only that differs.
    let seen = |of: &Value| {
        let mut checks = of["checks"].as_array().expect("checks").clone();
        for check in &mut checks {
            check["evidence"].as_object_mut().expect("evidence").remove("source");
            check.as_object_mut().expect("a check").remove("confirmed");
        }
        checks
    };
    assert_eq!(seen(&report), seen(&verified));
    assert_eq!(seen(&report).len(), 2);
    assert_eq!(
        (&report["standing"]["word"], &report["standing"]["is_proven"]),
        (&json!("DONE"), &json!(true))
    );
    let page = html(&repo);
    for check in seen(&verified) {
        let evidence = &check["evidence"];
        let tree: String = evidence["tree"].as_str().expect("a tree").chars().take(10).collect();
        assert!(page.contains(&tree), "{check}");
    }
    assert!(page.contains("exit 0") && page.contains("What it printed"), "{page}");
}

#[test]
fn who_used_what_is_in_the_journal_and_in_the_report() {
    let repo = ran();
    let report = object(&repo);
    let spent = &repo.state()["control"]["spent"];
    let agents = report["agents"].as_array().expect("agents");
    assert_eq!(agents.len(), 1, "{agents:?}");
    assert_eq!((&agents[0]["agent"], &agents[0]["role"]), (&json!("mine"), &json!("worker")));
    for key in ["tokens", "cost_usd"] {
        assert_eq!(agents[0][key], spent[key], "{key} of {report}");
        assert_eq!(report["not_by_run"][key].as_f64(), Some(0.0), "{key}");
        assert_eq!(report["atoms"]["listed"][0][key], spent[key], "{key}");
    }
    assert!(spent["tokens"].as_u64().is_some_and(|tokens| tokens >= 40), "{spent}");
    // The run stands in the same line of the journal as its result.
    let log = repo.aot(&["log", "-n", "1000", "--json"]).halted();
    let entries = log["entries"].as_array().expect("entries");
    let has = |entry: &Value, is: &dyn Fn(&Value) -> bool| {
        entry["changes"].as_array().expect("changes").iter().any(is)
    };
    let with_run =
        entries.iter().find(|entry| has(entry, &|change| change["runs"].is_array())).expect("a run");
    let starts = entries.iter().position(|entry| has(entry, &|change| change["type"] == "atom_started"));
    let place = entries.iter().position(|entry| entry == with_run);
    assert!(place > starts, "{log}");
}

#[test]
fn a_report_tells_what_happened() {
    let repo = ran();
    let report = object(&repo);
    let outcomes = &report["outcomes"];
    assert_eq!((&outcomes["resolved"], &outcomes["failed"]), (&json!(2), &json!(1)), "{outcomes}");
    let trail = report["trail"]["listed"].as_array().expect("a trail");
    assert!(
        trail
            .iter()
            .any(|one| one["told"].as_str().is_some_and(|told| told.starts_with("way switches to A4")))
    );
    let delivery = &report["delivery"];
    assert_eq!(
        (&delivery["branch"], &delivery["count"], &delivery["is_alone"]),
        (&json!("main"), &json!(2), &json!(true))
    );
    let commits = delivery["commits"].as_array().expect("commits");
    assert_eq!((&commits[0]["atom"], &commits[1]["atom"]), (&json!("A1"), &json!("A4")));
    assert!(
        commits[1]["difference"].as_str().is_some_and(|text| text.contains("+4\u{1b}[35mred")),
        "{delivery}"
    );
    // A person took something back.
    let said = repo.aot(&["redirect", "--goal", "Another goal", "--yes"]);
    assert_eq!(said.exit, 0, "{}{}", said.out, said.err);
    let report = object(&repo);
    assert_eq!(report["corrections"].as_array().map(Vec::len), Some(1), "{report}");
}

/// The page as it is written, whole.
fn html(repo: &Repo) -> String {
    let said = repo.aot(&["report", "--out", "-"]);
    assert_eq!((said.exit, said.err.as_str()), (0, ""));
    said.out
}

/// Every tag of a page with its attributes. Our own markup quotes all values, so that a `<` in a text would show here.
fn tags(page: &str) -> Vec<(String, Vec<(String, String)>)> {
    let mut found = Vec::new();
    let mut rest = page;
    while let Some(at) = rest.find('<') {
        rest = &rest[at + 1..];
        if let Some(comment) = rest.strip_prefix("!--") {
            rest = comment.split_once("-->").expect("a comment ends").1;
            continue;
        }
        let end = rest.find(|c: char| c == '>' || c.is_whitespace()).expect("a tag ends");
        let name = rest[..end].to_lowercase();
        rest = &rest[end..];
        let mut attributes = Vec::new();
        loop {
            rest = rest.trim_start();
            if let Some(after) = rest.strip_prefix("/>").or(rest.strip_prefix('>')) {
                rest = after;
                break;
            }
            let end = rest.find(['=', '>', ' ']).expect("an attribute ends");
            let key = rest[..end].to_lowercase();
            let value = match rest[end..].strip_prefix("=\"") {
                Some(quoted) => {
                    let (value, after) = quoted.split_once('"').expect("a value ends");
                    rest = after;
                    value.to_owned()
                }
                None => {
                    rest = &rest[end..];
                    String::new()
                }
            };
            attributes.push((key, value));
        }
        found.push((name, attributes));
    }
    found
}

#[test]
fn nothing_in_a_page_is_more_than_a_text() {
    let repo = ran();
    let page = html(&repo);
    let known: BTreeSet<&str> = "!doctype html head meta title style body main p h1 h2 h3 div b span dl dt dd section header strong code pre \
                                 details summary table thead tbody tr th td ul li time footer i svg g rect path text tspan line"
        .split_whitespace()
        .collect();
    let tags = tags(&page);
    assert!(tags.len() > 200, "{}", tags.len());
    for (name, attributes) in &tags {
        assert!(known.contains(name.trim_start_matches('/')), "<{name}> {attributes:?}");
        for (key, value) in attributes {
            assert!(!key.starts_with("on"), "{name} {key}={value}");
            assert!(
                !["src", "href", "style", "srcset", "xlink:href"].contains(&key.as_str()),
                "{name} {key}={value}"
            );
        }
    }
    let policy = tags
        .iter()
        .find(|(name, of)| name == "meta" && of.iter().any(|(_, value)| value == "Content-Security-Policy"));
    assert!(
        policy.is_some_and(|(_, of)| of.iter().any(|(_, value)| value.starts_with("default-src 'none'"))),
        "{policy:?}"
    );
    assert_eq!(page.matches("url(").count() + page.matches("@import").count(), 0);
    let obeyed =
        |c: char| (c.is_control() && !matches!(c, '\n' | '\t')) || ('\u{202a}'..='\u{202e}').contains(&c);
    assert!(!page.contains(obeyed));
    let left = page.find("[31m").map(|at| &page[at.saturating_sub(200)..at + 40]);
    assert_eq!(left, None, "an escape sequence leaves nothing behind");
    // It is all there, as text.
    for text in [
        "&lt;script&gt;alert(1)&lt;/script&gt;",
        "&lt;script&gt;alert(3)&lt;/script&gt;",
        "name&lt;i&gt;.txt",
        ">+4red<",
    ] {
        assert!(page.contains(text), "{text}");
    }
}

#[test]
fn nothing_in_markdown_pings_anybody_or_breaks_out() {
    let repo = ran();
    let said = repo.aot(&["report", "--markdown"]);
    assert_eq!((said.exit, said.err.as_str()), (0, ""));
    let page = said.out;
    assert!(page.len() <= 60 << 10);
    let mut fence: Option<String> = None;
    for line in page.lines() {
        let ticks: String = line.chars().take_while(|c| *c == '`').collect();
        match &fence {
            Some(open) if line == open => fence = None,
            Some(_) => {}
            None if ticks.len() >= 3 => fence = Some(ticks),
            None => {
                // Between blocks code hosts look for these, and for HTML.
                let outside: String = line.split('`').step_by(2).collect();
                for what in ["@admin", "#12", "GH-7", "https://", "<script", "<img", "<b "] {
                    assert!(!outside.contains(what), "{what}: {line}");
                }
            }
        }
    }
    assert_eq!(fence, None, "every block is closed");
    for part in
        ["### Evidence", "```mermaid\nflowchart", "```mermaid\ngantt", "```diff\n", "<details><summary>"]
    {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(!page.contains('\u{1b}') && !page.contains('\u{202e}'));
    let rows = |line: &&str| line.starts_with("| ✅") || line.starts_with("| ❌");
    for row in page.lines().filter(rows) {
        let cells = row.replace("\\|", "").matches('|').count();
        assert_eq!(cells, 8, "{row}");
    }
}

#[test]
fn a_file_of_somebody_else_is_not_replaced() {
    let repo = Repo::with(&Plan::default());
    assert_eq!(repo.run().exit, 0);
    let before = repo.git(&["status", "--porcelain"]);
    let said = repo.aot(&["report"]);
    assert!(
        said.exit == 0 && said.out.contains("report.html: DONE, 1 of 1 check passed"),
        "{}{}",
        said.out,
        said.err
    );
    assert_eq!(repo.git(&["status", "--porcelain"]), before);
    for _ in 0..2 {
        assert_eq!(repo.aot(&["report", "--out", "mine.html"]).exit, 0);
    }
    assert_eq!(repo.aot(&["report", "--markdown", "--out", "mine.html"]).exit, 0);
    repo.write("mine.html", "a page of mine");
    let said = repo.aot(&["report", "--out", "mine.html"]);
    assert!(said.exit == 1 && said.err.contains("is no report of aot"), "{}{}", said.out, said.err);
    assert_eq!(repo.read("mine.html"), "a page of mine");
    assert_eq!(repo.aot(&["report", "--out", "mine.html", "--force"]).exit, 0);
    let in_job = |words: &[&str]| {
        let live = repo.start_dressed(words, |command| {
            command.env("AOT_JOB", "1");
        });
        live.end().exit
    };
    assert_eq!((in_job(&["report"]), in_job(&["report", "--out", "no.html"])), (1, 1));
    assert!(!repo.path("no.html").exists());
    assert_eq!((in_job(&["report", "--markdown"]), in_job(&["report", "--out", "-"])), (0, 0));
}

#[test]
fn a_loop_that_is_not_done_has_a_report_too() {
    // Not begun.
    let repo = Repo::with(&Plan::default());
    assert_eq!(object(&repo)["standing"]["word"], "NOT STARTED");
    assert!(html(&repo).contains("It was not looked at yet."));
    // Stopped, with what failed and what to do.
    let repo = Repo::with(&Plan {
        atoms: &atom("A1", "", "echo why; exit 3"),
        base_case: &check("false"),
        ..Plan::default()
    });
    assert_ne!(repo.run().exit, 0);
    let report = object(&repo);
    assert_eq!(report["standing"]["is_proven"], false);
    assert!(report["standing"]["tried"][0]["attempts"].as_u64().is_some_and(|times| times > 0), "{report}");
    assert!(!report["standing"]["next"].as_array().expect("steps").is_empty());
    let page = repo.aot(&["report", "--markdown"]).out;
    assert!(page.contains("This work is not proven"), "{page}");
    // Without a journal.
    fs::remove_file(repo.path(".claude/aot/journal.jsonl")).expect("it was there");
    let report = object(&repo);
    assert!(
        report["missing"][0].as_str().is_some_and(|missing| missing.starts_with("There is no journal")),
        "{report}"
    );
    // While it runs.
    let repo = Repo::with(&Plan { atoms: &atom("A1", "", "sleep 600"), ..Plan::default() });
    let mut live = repo.start(&["run", "--json"]);
    live.hear("\"type\":\"started\"");
    let report = object(&repo);
    assert_eq!(
        (&report["standing"]["word"], &report["outcomes"]["open"]),
        (&json!("RUNNING"), &json!(1)),
        "{report}"
    );
    assert_eq!(repo.aot(&["stop", "--now"]).exit, 0);
    assert_eq!(live.end().exit, 10);
}
