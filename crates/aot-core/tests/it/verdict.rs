//! Verdicts against a truth table, the schedule against traces, the linter against a list.

use std::sync::Arc;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::num::NonZeroUsize;

use aot_core::contract::{Document, Limits, Reading};
use aot_core::rules::{Change, apply};
use aot_core::state::{
    Agreement, AtomStatus, Check, Checks, Confirmation, Fingerprint, Item, NewAtom, Objective, Stamp, State,
    Wants,
};
use aot_core::verdict::{
    CageRefusal, CheckTree, Excerpt, Jobs, LintFacts, LintQuestions, NextCheck, Outcome, Schedule, Tampered,
    TreeOutcome, Verdict, WorkPhase, all_of, any_of, canonical, confirmed_outcome, lint, lint_loop, tampered,
};

fn letter(outcome: Outcome) -> char {
    match outcome {
        Outcome::Pass => 'P',
        Outcome::Fail => 'F',
        Outcome::Error => 'E',
        Outcome::Pending => '?',
    }
}

/// The tables themselves, for two: rows and columns are pass, fail, error, pending.
#[test]
fn the_truth_tables() {
    let table = |fold: &dyn Fn([Outcome; 2]) -> Outcome| {
        let row = |a: Outcome| Outcome::ALL.map(|b| letter(fold([a, b]))).iter().collect::<String>();
        Outcome::ALL.map(row).join(" ")
    };
    assert_eq!(table(&|pair| all_of(pair)), "PFE? FFFF EFEE ?FE?");
    assert_eq!(table(&|pair| any_of(pair)), "PPPP PFE? PEE? P???");
    assert_eq!((all_of([]), any_of([])), (Outcome::Error, Outcome::Error), "nothing proves nothing");
}

/// A shape of nested items with so many checks.
#[derive(Clone, Debug)]
enum Shape {
    Leaf,
    Group(Vec<Shape>),
    AnyOf(Vec<Shape>),
}

/// Every shape with exactly so many checks and at most so many levels.
fn shapes(leaves: usize, depth: usize) -> Vec<Shape> {
    let mut found = if leaves == 1 { vec![Shape::Leaf] } else { Vec::new() };
    if depth == 0 {
        return found;
    }
    for inner in lists(leaves, depth - 1) {
        found.push(Shape::Group(inner.clone()));
        found.push(Shape::AnyOf(inner));
    }
    found
}

fn lists(leaves: usize, depth: usize) -> Vec<Vec<Shape>> {
    if leaves == 0 {
        return vec![Vec::new()];
    }
    let mut found = Vec::new();
    for first in 1..=leaves {
        for shape in shapes(first, depth) {
            for mut rest in lists(leaves - first, depth) {
                rest.insert(0, shape.clone());
                found.push(rest);
            }
        }
    }
    found
}

fn items(shapes: &[Shape], names: &mut usize) -> Vec<Item> {
    let item = |shape: &Shape, names: &mut usize| {
        *names += 1;
        let item = format!("i{names}");
        let wants = match shape {
            Shape::Leaf => Wants::Check(Check::Command { value: "x".into() }),
            Shape::Group(inner) => Wants::Group(items(inner, names)),
            Shape::AnyOf(inner) => Wants::AnyOf(items(inner, names)),
        };
        Item { item, wants }
    };
    shapes.iter().map(|shape| item(shape, names)).collect()
}

/// Plain logic over what is true, without our four outcomes.
fn holds(shapes: &[Shape], any: bool, truth: &mut impl Iterator<Item = bool>) -> bool {
    let each: Vec<bool> = shapes
        .iter()
        .map(|shape| match shape {
            Shape::Leaf => truth.next().expect("a truth for each check"),
            Shape::Group(inner) => holds(inner, false, truth),
            Shape::AnyOf(inner) => holds(inner, true, truth),
        })
        .collect();
    if any { each.contains(&true) } else { !each.contains(&false) }
}

/// It passes if it would, whatever the unknown checks turn out to be; it fails if it would not, whatever they turn out
/// to be; it is pending if answers alone, with all errors against it, could still make it pass; else it is an error.
fn oracle(shapes: &[Shape], outcomes: &[Outcome]) -> Outcome {
    let world = |error: bool, pending: bool| {
        let mut truth = outcomes.iter().map(|outcome| match outcome {
            Outcome::Pass => true,
            Outcome::Fail => false,
            Outcome::Error => error,
            Outcome::Pending => pending,
        });
        holds(shapes, false, &mut truth)
    };
    // More truth never makes less pass, so the extremes stand for all worlds.
    match (world(false, false), world(true, true), world(false, true)) {
        (true, _, _) => Outcome::Pass,
        (_, false, _) => Outcome::Fail,
        (_, _, true) => Outcome::Pending,
        _ => Outcome::Error,
    }
}

#[test]
fn every_outcome_through_every_nesting() {
    let mut seen = 0_usize;
    for leaves in 1..=4 {
        for list in lists(leaves, [3, 3, 2, 1][leaves - 1]) {
            let checks = Checks::Checklist(items(&list, &mut 0));
            let sheet = CheckTree::of(&checks);
            assert_eq!(sheet.leaves.len(), leaves);
            for code in 0..4_usize.pow(leaves as u32) {
                let outcomes: Vec<Outcome> =
                    (0..leaves).map(|place| Outcome::ALL[code / 4_usize.pow(place as u32) % 4]).collect();
                let folded = sheet.fold(|place| Some(outcomes[place]));
                assert_eq!(folded, oracle(&list, &outcomes), "{list:?} {outcomes:?}");
                if folded == Outcome::Pass {
                    assert!(
                        outcomes.contains(&Outcome::Pass),
                        "a pass out of nothing: {list:?} {outcomes:?}"
                    );
                }
                seen += 1;
            }
        }
    }
    assert!(seen > 10_000, "{seen} cases");
    println!("{seen} cases");
    for outcome in Outcome::ALL {
        let single = CheckTree::of(&Checks::Single(Check::Assertion { value: "x".into() }));
        assert_eq!(single.fold(|_| Some(outcome)), outcome);
        assert_eq!(single.fold(|_| None), Outcome::Pending);
    }
    assert_eq!(Verdict::from(Outcome::Pass), Verdict::Passed);
}

fn objective(base_case: &str, protected: &str) -> Objective {
    let text = aot_testkit::fixtures::INITIAL_LEGACY;
    let (before, after) = text.split_once("  base_case:").expect("it has one");
    let (_, after) = after.split_once("  background_intent").expect("it has one");
    let text =
        format!("{before}  base_case: {base_case}\n  protected: {protected}\n  background_intent{after}");
    let document = Document::from_bytes(text.clone().into_bytes(), &Limits::default()).expect("YAML");
    let reading = Reading::of(document);
    reading.state.unwrap_or_else(|| panic!("{:?} in {text}", reading.findings)).objective
}

fn base_case(yaml: &str) -> Checks {
    objective(yaml, "[]").base_case.expect("it has one")
}

/// What happens when checks end as scripted, one word per check, one letter per run: `+a` starts, `aP` has passed.
fn trace(jobs: usize, checks: &str, script: &str) -> String {
    let checks = base_case(&format!("{{checklist: [{checks}]}}"));
    let sheet = CheckTree::of(&checks);
    let mut ends: BTreeMap<String, VecDeque<Outcome>> = BTreeMap::new();
    for word in script.split_whitespace() {
        let (name, letters) = word.split_once('=').expect("name=letters");
        let outcome =
            |c: char| Outcome::ALL.into_iter().find(|outcome| letter(*outcome) == c).expect("a letter");
        ends.insert(name.into(), letters.chars().map(outcome).collect());
    }
    let said = |place: usize| match sheet.leaves[place].check {
        Check::Assertion { .. } => ends.get(&sheet.leaves[place].name).and_then(|ends| ends.front().copied()),
        _ => None,
    };
    let jobs = Jobs(NonZeroUsize::new(jobs).expect("not zero"));
    let mut schedule = Schedule::new(&sheet, jobs, said);
    let mut running: VecDeque<usize> = VecDeque::new();
    let mut told: Vec<String> = Vec::new();
    loop {
        match schedule.what_next() {
            NextCheck::Start(place) => {
                told.push(format!("+{}", sheet.leaves[place].name));
                running.push_back(place);
                assert!(running.len() <= jobs.0.get(), "{told:?}");
            }
            NextCheck::Wait => {
                let place = running.pop_front().expect("something runs");
                let name = &sheet.leaves[place].name;
                let outcome = ends.get_mut(name).and_then(VecDeque::pop_front).expect("scripted");
                told.push(format!("{name}{}", letter(outcome)));
                schedule.ended(place, outcome);
            }
            NextCheck::Done => break,
        }
    }
    format!("{} = {}", told.join(" "), letter(schedule.folded()))
}

#[test]
fn the_schedule() {
    let check = |jobs: usize, checks: &str, script: &str, expected: &str| {
        assert_eq!(trace(jobs, checks, script), expected, "{checks} with {script}");
    };
    let c = |name: &str| format!("{{item: {name}, check: {{type: command, value: x}}}}");
    let n = |name: &str| format!("{{item: {name}, check: {{type: not_command, value: x}}}}");
    let q =
        |name: &str| format!("{{item: {name}, check: {{type: quality, criteria: x, pass_threshold: 3}}}}");
    let s = |name: &str| format!("{{item: {name}, check: {{type: assertion, value: x}}}}");
    let any = |inner: &[String]| format!("{{item: any, any_of: [{}]}}", inner.join(", "));
    let all = |inner: &[String]| format!("{{item: all, group: [{}]}}", inner.join(", "));
    let list = |inner: &[String]| inner.join(", ");

    // Together, as many as allowed.
    check(2, &list(&[c("a"), c("b"), c("d")]), "a=P b=P d=P", "+a +b aP +d bP dP = P");
    check(8, &list(&[c("a"), c("b"), c("d")]), "a=P b=P d=P", "+a +b +d aP bP dP = P");
    // What does not pass runs once more, alone, in the written order; errors, too.
    check(8, &list(&[c("a"), c("b"), c("d")]), "a=FF b=P d=EP", "+a +b +d aF bP dE +a aF +d dP = F");
    // What ran alone counts at once; one at a time is strictly sequential.
    check(8, &c("a"), "a=F", "+a aF = F");
    check(1, &list(&[c("a"), n("n"), c("b")]), "a=F b=P n=P", "+a aF +b bP +n nP = F");
    // Negatives always alone, after the others and after what runs again.
    check(
        8,
        &list(&[n("n"), c("a"), n("m"), c("b")]),
        "n=P a=FP m=F b=P",
        "+a +b aF bP +a aP +n nP +m mF = F",
    );
    // Alternatives in the written order, none after the first that passes.
    check(8, &any(&[c("a"), c("b"), c("d")]), "a=P", "+a aP = P");
    check(8, &any(&[c("a"), c("b"), c("d")]), "a=F b=P", "+a aF +b bP = P");
    check(8, &any(&[c("a"), c("b")]), "a=FP b=F", "+a aF +b bF +a aP = P");
    check(8, &any(&[n("n"), c("a")]), "a=P", "+a aP = P");
    check(8, &any(&[n("n"), c("a"), n("m")]), "a=F n=P", "+a aF +n nP = P");
    check(8, &list(&[any(&[c("a"), c("b")]), c("d")]), "a=F b=P d=P", "+a +d aF +b dP bP = P");
    check(8, &any(&[all(&[c("a"), c("b")]), c("d")]), "a=P b=FF d=FF", "+a +b aP bF +d dF +b bF +d dF = F");
    // A judge comes last, and only if it can decide.
    check(8, &list(&[q("q"), c("a"), n("n")]), "q=P a=P n=P", "+a aP +n nP +q qP = P");
    check(8, &list(&[q("q"), c("a")]), "a=F", "+a aF = F");
    check(8, &list(&[q("q"), n("n")]), "n=E", "+n nE = E");
    check(8, &list(&[q("q"), q("r")]), "q=F", "+q qF = F");
    check(8, &any(&[q("q"), c("a")]), "a=P", "+a aP = P");
    check(8, &any(&[c("a"), q("q")]), "a=F q=P", "+a aF +q qP = P");
    // A person's word is there or it is not.
    check(8, &list(&[s("s"), c("a")]), "a=P", "+a aP = ?");
    check(8, &list(&[s("s"), c("a")]), "s=P a=P", "+a aP = P");
    check(8, &list(&[s("s"), c("a")]), "s=F a=P", "+a aP = F");
    check(8, &list(&[s("s"), q("q")]), "s=F", " = F");
}

#[test]
fn a_confirmation_counts_for_its_item_and_its_tree() {
    let sheet = CheckTree::of(&base_case("{checklist: [{item: a, check: {type: assertion, value: x}}]}"));
    let said = |item: &str, tree: &str, holds: Option<bool>| {
        let at = Stamp::parse("2026-01-01T00:00:00Z").expect("a moment");
        let confirmed = [Confirmation { item: item.into(), by: "Ada".into(), at, tree: tree.into(), holds }];
        confirmed_outcome(&confirmed, &sheet.leaves[0], "t1").0
    };
    assert_eq!(said("a", "t1", None), Outcome::Pass);
    assert_eq!(said("a", "t1", Some(true)), Outcome::Pass);
    assert_eq!(said("a", "t1", Some(false)), Outcome::Fail);
    assert_eq!(said("a", "t2", None), Outcome::Pending);
    assert_eq!(said("b", "t1", None), Outcome::Pending);
}

/// The same item may ask for something else afterwards.
#[test]
fn another_base_case_is_confirmed_anew() {
    let text = aot_testkit::fixtures::INITIAL_LEGACY.as_bytes().to_vec();
    let document = Document::from_bytes(text, &Limits::default()).expect("YAML");
    let mut state = Reading::of(document).state.expect("a state");
    let at = Stamp::parse("2026-01-01T00:00:00Z").expect("a moment");
    let now = at.at();
    let confirmation = Confirmation { item: "a".into(), by: "Ada".into(), at, tree: "t".into(), holds: None };
    apply(&mut state, &Change::ItemConfirmed { confirmation }, now).expect("it fits");
    let same = state.objective.base_case.clone().expect("it has one");
    apply(&mut state, &Change::BaseCaseSet { base_case: same }, now).expect("it fits");
    assert_eq!(state.control.confirmed.len(), 1);
    let other = base_case("{type: assertion, value: something else}");
    apply(&mut state, &Change::BaseCaseSet { base_case: other }, now).expect("it fits");
    assert_eq!(state.control.confirmed, []);
}

#[test]
fn names_are_unique() {
    let item = |name: &str| format!("{{item: {name}, check: {{type: command, value: x}}}}");
    let yaml = format!(
        "{{checklist: [{{item: g, group: [{0}, {0}]}}, {{item: h, any_of: [{0}]}}, {1}]}}",
        item("a"),
        item("b")
    );
    let sheet = CheckTree::of(&base_case(&yaml));
    let names: Vec<&str> = sheet.leaves.iter().map(|leaf| leaf.name.as_str()).collect();
    assert_eq!(names, ["g / a", "g / a #2", "h / a", "b"]);
}

#[test]
fn what_was_agreed_on_is_compared() {
    let print = |base_case: &str, protected: &str| Fingerprint {
        base_case: base_case.into(),
        protected: protected.into(),
    };
    assert_eq!(tampered(&print("a", "b"), &print("a", "b")), []);
    assert_eq!(tampered(&print("a", "b"), &print("x", "b")), [Tampered::BaseCase]);
    assert_eq!(tampered(&print("a", "b"), &print("x", "y")), [Tampered::BaseCase, Tampered::Protected]);
    let same = canonical(Some(&base_case("{value: x, type: command}")));
    assert_eq!(same, canonical(Some(&base_case("{type: command, value: 'x'}"))));
    assert_ne!(same, canonical(Some(&base_case("{type: not_command, value: x}"))));
    assert_ne!(
        same,
        canonical(Some(&base_case("{checklist: [{item: x, check: {type: command, value: x}}]}")))
    );
    assert_ne!(same, canonical(None));
}

/// What is said of one check, without any fact of the world.
fn codes(item: &str, check: &str) -> String {
    let objective = objective(&format!("{{checklist: [{{item: {item:?}, check: {check}}}]}}"), "[]");
    let advice = lint(&objective, &LintFacts::default());
    advice.iter().map(|advice| advice.code).collect::<Vec<_>>().join(" ")
}

#[test]
fn likely_inverted_checks_are_named() {
    let check = |kind: &str, item: &str, command: &str, expected: &str| {
        assert_eq!(
            codes(item, &format!("{{type: {kind}, value: {command:?}}}")),
            expected,
            "{kind} {item}: {command}"
        );
    };
    for command in [
        "npm audit --audit-level=high",
        "yarn audit",
        "cargo audit",
        "pip-audit",
        "npx eslint src",
        "npm run lint",
        "ruff check .",
        "cargo clippy -- -D warnings",
        "cd web && npm run lint:css",
        "golangci-lint run",
        "prettier --check .",
        "pytest -q",
        "! make",
    ] {
        check("not_command", "No trouble", command, "inverted");
        check("command", "No trouble", command, "");
    }
    check("not_command", "No TODO is left", "grep -rq TODO src", "hides_errors");
    check("not_command", "The word is there", "grep -q word file", "inverted");
    check("not_command", "No file is without a header", "grep -L header src/a", "inverted");
    check("command", "No TODO is left", "grep -rq TODO src", "inverted");
    check("command", "No TODO is left", "! grep -rq TODO src", "");
    check("command", "The word is there", "grep -q word file", "");
    check("command", "There isn't a debug print", "rg dbg! src", "inverted");
    check("not_command", "Port is free", "./probe.sh 80", "");
}

#[test]
fn scores_weights_and_endless_commands_are_looked_at() {
    let rubric = |weights: &str| {
        let criteria: Vec<String> =
            weights.split(' ').map(|weight| format!("{{criterion: c{weight}, weight: {weight}}}")).collect();
        format!("{{type: quality, rubric: [{}], pass_threshold: 3.5}}", criteria.join(", "))
    };
    for (check, expected) in [
        (rubric("0.4 0.6"), ""),
        (rubric("0.4 0.4"), "weights"),
        (rubric("1 2"), "weights"),
        ("{type: quality, criteria: x, pass_threshold: 3}".into(), ""),
        ("{type: quality, criteria: x, pass_threshold: 6}".into(), "threshold"),
        ("{type: quality, criteria: x, pass_threshold: 0.5}".into(), "threshold"),
        ("{type: command, value: \"curl -f http://localhost\"}".into(), "no_timeout"),
        ("{type: command, value: \"curl -f -m 5 http://localhost\"}".into(), ""),
        ("{type: command, value: \"timeout 5 curl http://localhost\"}".into(), ""),
        ("{type: command, value: \"jest --watch\"}".into(), "no_timeout"),
        ("{type: command, value: \"tail -f log\"}".into(), "no_timeout"),
        ("{type: command, value: \"npm start\"}".into(), "no_timeout"),
        ("{type: command, value: \"# nothing\"}".into(), "empty"),
    ] {
        assert_eq!(codes("x", &check), expected, "{check}");
    }
}

#[test]
fn a_runner_of_tests_rests_on_the_folders_with_tests() {
    let facts = LintFacts { unprotected_tests: vec!["test/**".into()], ..LintFacts::default() };
    for (command, expected) in [
        ("npm test", true),
        ("node --test", true),
        ("node --test && test -f new", true),
        ("pytest -q", true),
        ("python3 -m unittest", true),
        ("node build.js", false),
        ("cat notes", false),
    ] {
        let objective = objective(
            &format!("{{checklist: [{{item: t, check: {{type: command, value: {command:?}}}}}]}}"),
            "[]",
        );
        let found = lint(&objective, &facts).iter().any(|advice| advice.code == "unprotected");
        assert_eq!(found, expected, "{command}");
    }
}

#[test]
fn the_linter_uses_what_the_world_says() {
    let yaml = r#"{checklist: [{item: t, check: {type: command, value: "cd web && npm test && ./run.sh"}}, {item: f, check: {type: file, value: "a/*/"}}]}"#;
    let objective = objective(yaml, "[\"tests/**\", \"nothing/**\"]");
    let sheet = CheckTree::of(objective.base_case.as_ref().expect("it has one"));
    let questions = LintQuestions::of(&sheet, &objective);
    assert_eq!(questions.programs, BTreeSet::from(["npm".to_owned()]));
    assert!(questions.paths.contains("web/./run.sh"), "{:?}", questions.paths);
    let mut facts = LintFacts {
        missing_programs: BTreeSet::from(["npm".to_owned()]),
        unprotected: BTreeMap::from([("web/./run.sh".to_owned(), "web/run.sh".to_owned())]),
        unprotected_tests: vec!["spec/**".into()],
        never_match: BTreeMap::from([("a/*/".to_owned(), "so".to_owned())]),
        protect_nothing: vec!["nothing/**".into()],
        seen: vec![Some(Outcome::Pass), Some(Outcome::Fail)],
        out_of_time: BTreeSet::from([1]),
        refused: BTreeMap::from([(
            1,
            vec![CageRefusal { path: "/home/ada/.cache/x".into(), remedy: "open it".into() }],
        )]),
        steerable: BTreeSet::from(["web/package.json".to_owned(), "package.json".to_owned()]),
        wrote: BTreeMap::from([(1, vec!["made".to_owned()])]),
        in_a_tree: BTreeMap::from([(
            0,
            TreeOutcome { outcome: Outcome::Fail, last_line: "no .env".into(), missing: vec![".env".into()] },
        )]),
        phase: WorkPhase::NotStarted,
    };
    let said = |facts: &LintFacts| {
        let advice = lint(&objective, facts);
        advice.iter().map(|advice| format!("{}:{}", advice.item, advice.code)).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(
        said(&facts),
        "t:missing_program t:unprotected t:unprotected t:already_true t:in_a_tree f:never_matches f:times_out f:caged f:writes_tree :never_matches t:steerable"
    );
    let message = |facts: &LintFacts| {
        let found = lint(&objective, facts).into_iter().find(|advice| advice.code == "in_a_tree");
        found.map(|advice| advice.message).unwrap_or_default()
    };
    assert_eq!(
        message(&facts),
        "it passes here and fails in a worker's tree, which does not have `.env`; there it ends with: no .env"
    );
    facts.seen[0] = Some(Outcome::Fail);
    assert!(message(&facts).starts_with("it fails in another way in a worker's tree, which"));
    facts.phase = WorkPhase::Started;
    assert!(!said(&facts).contains("already_true") && !said(&facts).contains("times_out"));
}

#[test]
fn sets_without_anything_in_them_are_named() {
    for (yaml, expected) in [
        ("{checklist: []}", "empty"),
        ("{checklist: [{item: g, group: []}]}", "empty"),
        ("{checklist: [{item: g, group: [{item: h, any_of: []}]}]}", "empty"),
    ] {
        let advice = lint(&objective(yaml, "[]"), &LintFacts::default());
        assert_eq!(advice.iter().map(|advice| advice.code).collect::<Vec<_>>(), [expected], "{yaml}");
    }
}

/// A loop with these atoms, by what each has besides its description.
fn loop_of(atoms: &[&str], checked: &str) -> State {
    let mut agreement = Agreement::about("");
    agreement.objective = objective(checked, "[]");
    agreement.atoms = atoms
        .iter()
        .map(|has| {
            let mut atom = NewAtom { description: "x".into(), ..NewAtom::default() };
            match *has {
                "check" => atom.check = Some(base_case("{type: command, value: x}")),
                "run" => atom.run = Some("make".into()),
                "reason" => atom.no_check = Some("a document".into()),
                _ => {}
            }
            atom
        })
        .collect();
    agreement.state()
}

#[test]
fn atoms_that_nothing_checks_are_named() {
    let sound = "{checklist: [{item: Built, check: {type: file, value: dist}}]}";
    for (atoms, expected) in [
        (&["check", "run", "reason"][..], ""),
        (&["", "check"], "`A1` has no check, so its worker's claim counts"),
        (&["check", "", ""], "`A2`, `A3` have no check, so their workers' claims count"),
    ] {
        let found = lint_loop(&loop_of(atoms, sound), &LintFacts::default());
        let said: Vec<String> = found.iter().map(|advice| advice.message.clone()).collect();
        assert_eq!(said.join("; "), expected, "{atoms:?}");
        assert!(found.iter().all(|advice| advice.code == "no_check"), "{atoms:?}");
    }
    let mut resolved = loop_of(&[""], sound);
    Arc::make_mut(&mut resolved.atoms[0]).status = AtomStatus::Resolved;
    assert_eq!(lint_loop(&resolved, &LintFacts::default()), []);
}

#[test]
fn a_lone_atom_takes_what_the_program_sees_of_the_base_case() {
    let command = "{item: c, check: {type: command, value: c}}";
    let person = "{item: p, check: {type: assertion, value: p}}";
    let judge = "{item: q, check: {type: quality, criteria: q, pass_threshold: 3}}";
    for (items, taken) in [
        (command.to_owned(), command.to_owned()),
        (format!("{command}, {person}, {judge}"), command.to_owned()),
        (
            format!("{{item: g, group: [{command}, {person}]}}, {{item: h, group: [{judge}]}}"),
            format!("{{item: g, group: [{command}]}}"),
        ),
        // Without one of its alternatives it would ask for more.
        (format!("{command}, {{item: a, any_of: [{command}, {person}]}}"), command.to_owned()),
        (format!("{{item: a, any_of: [{command}]}}"), format!("{{item: a, any_of: [{command}]}}")),
    ] {
        let state = loop_of(&[""], &format!("{{checklist: [{items}]}}"));
        let taken = base_case(&format!("{{checklist: [{taken}]}}"));
        assert_eq!(state.check_of_lone_atom(), Some((&"A1".into(), taken)), "{items}");
    }
    let only_person = format!("{{checklist: [{person}]}}");
    assert_eq!(loop_of(&[""], &only_person).check_of_lone_atom(), None);
    for atoms in [&["check"][..], &["run"], &["reason"], &["", ""]] {
        let state = loop_of(atoms, &format!("{{checklist: [{command}]}}"));
        assert_eq!(state.check_of_lone_atom(), None, "{atoms:?}");
    }
}

#[test]
fn what_npm_adds_to_a_failure_is_no_last_line() {
    for (head, told) in [
        ("one\ntwo\n\n", "two"),
        (
            "expected 4, got 5\nnpm error Lifecycle script `test` failed with error:\nnpm error code 1\nnpm error path /p",
            "expected 4, got 5",
        ),
        ("FAIL a.test.js\nnpm ERR! Test failed.  See above for more details.\nnpm ERR!", "FAIL a.test.js"),
        ("1 failed\nnpm notice\nnpm notice New major version\nnpm warn config x", "1 failed"),
        ("1 failed\nnpm error A complete log of this run can be found in: /x", "1 failed"),
        ("> build\nnpm error Missing script: \"test\"\nnpm error", "npm error Missing script: \"test\""),
        ("npm notice a\nnpm notice b", "npm notice b"),
    ] {
        let excerpt = Excerpt { head: head.into(), ..Excerpt::default() };
        assert_eq!(excerpt.last_lines(1), [told], "{head}");
    }
}
