//! The text that a loop begins with: an agreement written as a state file, or a file that somebody brought, completed to
//! one. Everything that an alignment takes goes through a text and the same strict reading; nothing is decided here.

use serde_json::{Map, Value, json};

use super::Reading;
use super::checks::proving;
use super::decode;
use super::document::{Document, Kind, Limits, Node};
use super::edit::{Edit, Path, PathStep};
use super::finding::{Finding, Findings, Severity};
use super::write::NotWritten;
use crate::state::{
    Agreement, Background, Boundaries, Checks, Constraints, Control, NewAtom, State, sequence_number,
};

/// What the text is before anything is agreed on: the sections in the order in which people read them.
const SKELETON: &str = r#"---
objective:
  goal: ""
  background_intent: ""
  deliverables: ""
  definition_of_done: ""
  base_case:
    checklist: []
  constraints:
    max_iterations: 20
    max_parallel_agents: 3
    max_stall_count: 3
clarifications: []
scope: {}
control:
  status: pending
  iteration: 0
  stall_count: 0
  prev_pending_count: -1
  stop_requested: false
  stop_reason: null
  redirect_requested: false
atoms: []
decompositions: []
or_groups: {}
bindings: {}
trail: []
corrections: []
---
"#;

const HEADING: &str = "# Original Prompt";

/// A file that was brought, as the beginning of a loop.
#[derive(Clone, Debug)]
pub struct Brought {
    pub document: Document,
    /// It told of work done; a loop that begins has done none, so that was left out.
    pub progress_left_out: bool,
}

/// An agreement as a state file.
pub fn draft(agreement: &Agreement) -> Result<Document, NotWritten> {
    let text = format!("{SKELETON}{}", body(&agreement.request));
    let mut document = Document::parse(text, &Limits::default())
        .expect("the skeleton is a document, whatever stands below it");
    let state = agreement.state();
    let mut edits = Vec::new();
    let objective = value(&state.objective);
    for (key, part) in objective.as_object().into_iter().flatten() {
        edits.push(set(["objective".into(), key.as_str().into()], part.clone()));
    }
    if state.objective.base_case.is_none() {
        edits.push(Edit::Remove { path: vec!["objective".into(), "base_case".into()] });
    }
    let sections = [
        ("atoms", json!(state.atoms.values().collect::<Vec<_>>())),
        ("or_groups", value(&state.or_groups)),
        ("clarifications", value(&agreement.clarifications)),
        ("scope", value(&agreement.scope)),
    ];
    for (section, part) in sections {
        let empty = part.as_array().is_some_and(Vec::is_empty) || part.as_object().is_some_and(Map::is_empty);
        match (empty, section) {
            (true, "clarifications" | "scope") => edits.push(Edit::Remove { path: vec![section.into()] }),
            (true, _) => {}
            (false, _) => edits.push(set([section.into()], part)),
        }
    }
    document.edit(&edits)?;
    match Reading::of(document.clone()).state {
        // What has errors says nothing yet, and is told with its place.
        Some(says) if says != state => Err(NotWritten::Misread),
        Some(_) | None => Ok(document),
    }
}

/// A text that somebody brought: a whole state file, or its frontmatter, or only what is to be agreed on. What a loop
/// begins with is filled in; comments and keys of one's own stay.
pub fn bring(bytes: Vec<u8>) -> Result<Brought, Finding> {
    let (text, frame) = match String::from_utf8(bytes) {
        Ok(text) => framed(text),
        Err(error) => {
            // The document's own words for it, with the place.
            return Err(Document::from_bytes(error.into_bytes(), &Limits::default())
                .expect_err("what is no UTF-8 is no document")
                .into());
        }
    };
    let mut document = Document::parse(text, &Limits::default()).map_err(|mut error| {
        error.place.line = error.place.line.saturating_sub(frame).max(1);
        error
    })?;
    let progress_left_out = tells_of_work(document.root());
    let mut edits = objective_edits(document.root());
    edits.extend(atom_edits(document.root()));
    if document.root().get("atoms").is_none() {
        // Goal and checks suffice: the plan is completed later.
        edits.push(set(["atoms".into()], json!([])));
    }
    edits.push(set(["control".into()], value(&Control::fresh())));
    for (section, empty) in [("bindings", json!({})), ("trail", json!([])), ("corrections", json!([]))] {
        edits.push(set([section.into()], empty));
    }
    let request = document.root().get("request").and_then(|node| node.str()).map(String::from);
    if request.is_some() {
        edits.push(Edit::Remove { path: vec!["request".into()] });
    }
    document.edit(&edits).map_err(|refused| Finding {
        severity: Severity::Error,
        code: refused.code.into(),
        message: refused.to_string(),
        place: document.place(0),
        hint: "write the place in plain block style".into(),
    })?;
    if let Some(request) = request.filter(|_| document.body().trim().is_empty()) {
        let text = document.into_text();
        document = Document::parse(format!("{}\n{}", text.trim_end(), body(&request)), &Limits::default())?;
    }
    Ok(Brought { document, progress_left_out })
}

/// A draft that says something else in part; the rest of its text stays.
pub fn revise(
    document: &Document,
    old: &State,
    new: &State,
    scope: &Boundaries,
) -> Result<Document, NotWritten> {
    let mut revised = document.clone();
    if background(document).scope != *scope {
        revised.edit(&[match scope.is_empty() {
            true => Edit::Remove { path: vec!["scope".into()] },
            false => set(["scope".into()], value(scope)),
        }])?;
    }
    super::write(&revised, old, new)
}

/// A base case that somebody brought: alone, under its own key, or in a whole state file.
pub fn bring_checks(bytes: Vec<u8>) -> Result<Checks, Vec<Finding>> {
    let (text, frame) = match String::from_utf8(bytes) {
        Ok(text) => framed(text),
        Err(error) => {
            let error = Document::from_bytes(error.into_bytes(), &Limits::default());
            return Err(vec![error.expect_err("what is no UTF-8 is no document").into()]);
        }
    };
    let own_lines = |mut finding: Finding| {
        finding.place.line = finding.place.line.saturating_sub(frame).max(1);
        finding
    };
    let document =
        Document::parse(text, &Limits::default()).map_err(|error| vec![own_lines(error.into())])?;
    let root = document.root();
    let nested = root.get("objective").and_then(|objective| objective.get("base_case"));
    let node = nested.or_else(|| root.get("base_case")).unwrap_or(root);
    let mut findings = Findings::default();
    let checks = proving(node, &"the base case", &mut findings);
    // A list may only be empty because what stood in it is wrong; and what proves nothing cannot be agreed on either.
    let worst = if findings.has_errors() { Severity::Error } else { Severity::Incomplete };
    let found =
        findings.place(&document).into_iter().filter(|finding| finding.severity == worst).map(own_lines);
    let found: Vec<Finding> = found.map(|finding| Finding { severity: Severity::Error, ..finding }).collect();
    checks.filter(|_| found.is_empty()).ok_or(found)
}

/// What was asked and answered, and what lies outside, as the text tells it. What has another form is left alone.
pub fn background(document: &Document) -> Background {
    decode::background(document.root())
}

/// The request, as it stands below the frontmatter.
pub fn request(document: &Document) -> &str {
    let body = document.body().trim();
    body.strip_prefix(HEADING).map_or(body, str::trim_start)
}

fn body(request: &str) -> String {
    let request = request.trim();
    if request.is_empty() { format!("\n{HEADING}\n") } else { format!("\n{HEADING}\n\n{request}\n") }
}

/// Frontmatter between its two lines, whether or not somebody drew them, and how many lines were put before it.
fn framed(text: String) -> (String, u32) {
    let plain = text.trim_start_matches('\u{feff}');
    let mut lines = plain.lines();
    let opened = lines.next().is_some_and(|line| line.trim_end() == "---");
    if opened && lines.any(|line| line.trim_end() == "---") {
        return (text, 0);
    }
    let inner = if opened { plain.split_once('\n').map_or("", |(_, rest)| rest) } else { plain };
    (format!("---\n{}\n---\n", inner.trim_end()), u32::from(!opened))
}

fn objective_edits(root: Node<'_>) -> Vec<Edit> {
    let mut edits = Vec::new();
    let nested = root.get("objective").is_some_and(|node| node.kind() == Kind::Map);
    if !nested {
        // The objective's keys may stand at the top of a file that has no `objective`.
        let schema = super::schema();
        let known = &schema["$defs"]["Objective"]["properties"];
        for (key, node) in root.entries() {
            let Some(key) = key.scalar_str().filter(|key| known.get(key).is_some()) else { continue };
            edits.push(set(["objective".into(), key.into()], node.value()));
            edits.push(Edit::Remove { path: vec![key.into()] });
        }
    }
    let place = if nested {
        root.get("objective").and_then(|node| node.get("constraints"))
    } else {
        root.get("constraints")
    };
    let defaults = value(&Constraints::default());
    for (key, default) in defaults.as_object().into_iter().flatten() {
        if place.is_none_or(|node| node.get(key).is_none()) {
            edits.push(set(["objective".into(), "constraints".into(), key.as_str().into()], default.clone()));
        }
    }
    edits
}

/// Atoms may be one line each, and need neither id nor status.
fn atom_edits(root: Node<'_>) -> Vec<Edit> {
    let Some(atoms) = root.get("atoms").filter(|node| node.kind() == Kind::Seq) else { return Vec::new() };
    let mut edits = Vec::new();
    let mut groups: Vec<(String, Vec<String>)> = Vec::new();
    // A choice may be listed before its atom exists, and keeps its id.
    let groups_in = root.get("or_groups").into_iter().flat_map(|groups| groups.entries());
    let choices = groups_in.filter_map(|(_, group)| group.get("choices")).flat_map(|choices| choices.items());
    let ids = atoms.items().filter_map(|atom| atom.get("id")).chain(choices);
    let mut highest = ids.filter_map(|id| sequence_number(id.scalar_str()?)).max().unwrap_or(0);
    for (place, atom) in atoms.items().enumerate() {
        let mut next = || {
            highest += 1;
            format!("A{highest}")
        };
        let at = |key: &str| vec!["atoms".into(), place.into(), key.into()];
        let id = match atom.kind() {
            Kind::Str => {
                let new = NewAtom::from_words(&atom.str().unwrap_or_default());
                let id = next();
                edits.push(set(["atoms".into(), place.into()], value(&new.called(id.as_str().into()))));
                id
            }
            Kind::Map => {
                let id = match atom.get("id").and_then(|node| node.str()) {
                    Some(id) => id.into_owned(),
                    None => {
                        let id = next();
                        edits.push(Edit::Set { path: at("id"), value: json!(id) });
                        id
                    }
                };
                if atom.get("status").and_then(|node| node.str()).as_deref() != Some("pending") {
                    edits.push(Edit::Set { path: at("status"), value: json!("pending") });
                }
                if atom.get("depends_on").is_none() {
                    edits.push(Edit::Set { path: at("depends_on"), value: json!([]) });
                }
                id
            }
            Kind::Null | Kind::Bool | Kind::Int | Kind::Float | Kind::Seq => continue,
        };
        if let Some(group) = atom.get("or_group").and_then(|node| node.str()) {
            match groups.iter_mut().find(|(name, _)| *name == group) {
                Some((_, choices)) => choices.push(id),
                None => groups.push((group.into_owned(), vec![id])),
            }
        }
    }
    for (name, choices) in groups {
        let path: Path = vec!["or_groups".into(), PathStep::Key(name.clone())];
        let listed = root.get("or_groups").and_then(|groups| groups.get(&name));
        match listed {
            None => edits.push(Edit::Set {
                path,
                value: json!({"choices": choices, "selected": choices[0], "failed": []}),
            }),
            Some(entry) => {
                let inside = |key: &str| path.iter().cloned().chain([key.into()]).collect::<Path>();
                if entry.get("failed").is_none_or(|failed| !failed.is_empty()) {
                    edits.push(Edit::Set { path: inside("failed"), value: json!([]) });
                }
                if entry.get("selected").is_none() {
                    edits.push(Edit::Set { path: inside("selected"), value: json!(choices[0]) });
                }
            }
        }
    }
    edits
}

fn tells_of_work(root: Node<'_>) -> bool {
    let filled = |section: &str| root.get(section).is_some_and(|node| !node.is_empty());
    let iteration =
        root.get("control").and_then(|control| control.get("iteration")).and_then(|node| node.int());
    let mut atoms = root.get("atoms").into_iter().flat_map(|atoms| atoms.items());
    let begun = |atom: Node<'_>| {
        atom.get("status").and_then(|node| node.str()).is_some_and(|status| status != "pending")
    };
    iteration.is_some_and(|iteration| iteration > 0)
        || filled("bindings")
        || filled("trail")
        || filled("corrections")
        || atoms.any(begun)
}

fn set<const N: usize>(path: [PathStep; N], value: Value) -> Edit {
    Edit::Set { path: path.into(), value }
}

fn value<T: serde::Serialize>(of: &T) -> Value {
    serde_json::to_value(of).expect("the contract's nouns are plain data")
}
