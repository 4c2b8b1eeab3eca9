//! The document's tree as a `State`: types, required fields, enum words. What the fields mean to one another is
//! `invariants`.

use std::fmt;

use indexmap::IndexMap;

use super::decode_checks::proving;
use super::document::{Kind, Node};
use super::finding::{Findings, Severity};
use super::read::{Fields, Need, wrong_type};
use crate::state::{
    Atom, AtomId, AtomStatus, Binding, Confirmation, Constraints, Control, Correction, CorrectionKind,
    DEFAULT_MAX_ITERATIONS, DEFAULT_MAX_PARALLEL_AGENTS, DEFAULT_MAX_STALL_COUNT, Decomposition, Fingerprint,
    GroupName, Isolation, IsolationMode, LIMITS, LoopStatus, MAX_PARALLEL_AGENTS, Objective, OpenIteration,
    OrGroup, Spent, Stamp, State, TrailEntry, VerifyWhen,
};

const KEYS: [&str; 8] =
    ["objective", "control", "atoms", "decompositions", "or_groups", "bindings", "trail", "corrections"];

/// Reads what can be read. The state is whole only if no error was noted.
pub(super) fn state(root: Node<'_>, findings: &mut Findings) -> Option<State> {
    let root = Fields::of(root, &"the state", &KEYS, findings)?;
    let objective = root.need("objective", Need::Required, findings).map(|node| objective(node, findings));
    let control = root.need("control", Need::Required, findings).map(|node| control(node, findings));
    let atoms = atoms(&root, findings);
    let decompositions = root.list("decompositions", Need::Optional, findings);
    let or_groups = root.entries("or_groups", Need::Optional, findings);
    let bindings = root.entries("bindings", Need::Required, findings);
    let trail = root.list("trail", Need::Required, findings);
    let corrections = root.list("corrections", Need::Required, findings);
    Some(State {
        atoms,
        decompositions: each(decompositions, findings, decomposition),
        or_groups: named(or_groups, "OR group", findings, or_group),
        bindings: named(bindings, "the binding of", findings, binding),
        trail: each(trail, findings, trail_entry),
        corrections: each(corrections, findings, correction),
        objective: objective.flatten().unwrap_or_else(Objective::blank),
        control: control.flatten().unwrap_or_else(Control::fresh),
    })
}

pub(super) fn each<'d, T>(
    nodes: Vec<Node<'d>>,
    findings: &mut Findings,
    read: impl Fn(usize, Node<'d>, &mut Findings) -> Option<T>,
) -> Vec<T> {
    nodes.into_iter().enumerate().filter_map(|(place, node)| read(place, node, findings)).collect()
}

pub(super) fn named<'d, K: for<'k> From<&'k str> + std::hash::Hash + Eq, T>(
    entries: Vec<(Node<'d>, Node<'d>)>,
    what: &str,
    findings: &mut Findings,
    read: impl Fn(&dyn fmt::Display, Node<'d>, &mut Findings) -> Option<T>,
) -> IndexMap<K, T> {
    let mut found = IndexMap::with_capacity(entries.len());
    for (key, node) in entries {
        let name = key.scalar_text().unwrap_or_default();
        if name.trim().is_empty() {
            let hint = "give it a name";
            findings.note(
                Severity::Error,
                "bad_name",
                key.offset(),
                format!("{what} `{name}` has no name"),
                hint,
            );
        }
        if let Some(value) = read(&Named(what, &name), node, findings) {
            found.insert(K::from(&*name), value);
        }
    }
    found
}

pub(super) struct Named<'a>(pub &'a str, pub &'a str);

impl fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} `{}`", self.0, self.1)
    }
}

pub(super) struct Numbered(pub &'static str, pub usize);

impl fmt::Display for Numbered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.0, self.1 + 1)
    }
}

fn objective(node: Node<'_>, findings: &mut Findings) -> Option<Objective> {
    let known = [
        "goal",
        "base_case",
        "background_intent",
        "deliverables",
        "definition_of_done",
        "constraints",
        "protected",
        "verify",
        "isolation",
    ];
    let fields = Fields::of(node, &"`objective`", &known, findings)?;
    let goal = fields.text("goal", Need::Alignment, findings);
    let base_case = fields.need("base_case", Need::Alignment, findings);
    let base_case = base_case.and_then(|node| proving(node, &"`base_case`", findings));
    let background_intent = fields.text("background_intent", Need::Alignment, findings);
    let deliverables = fields.text("deliverables", Need::Alignment, findings);
    let definition_of_done = fields.text("definition_of_done", Need::Alignment, findings);
    let constraints = constraints(&fields, findings);
    let verify_words = [("at_end", VerifyWhen::AtEnd), ("each_iteration", VerifyWhen::EachIteration)];
    Some(Objective {
        goal: goal.unwrap_or_default(),
        base_case,
        background_intent: background_intent.unwrap_or_default(),
        deliverables: deliverables.unwrap_or_default(),
        definition_of_done: definition_of_done.unwrap_or_default(),
        constraints,
        protected: fields.texts("protected", Need::Optional, findings),
        verify: fields.word("verify", &verify_words, Need::Optional, findings),
        isolation: fields
            .need("isolation", Need::Optional, findings)
            .and_then(|node| isolation(node, findings)),
    })
}

fn isolation(node: Node<'_>, findings: &mut Findings) -> Option<Isolation> {
    let fields = Fields::of(node, &"`isolation`", &["mode", "share", "setup"], findings)?;
    let modes = [
        ("worktree", IsolationMode::Worktree),
        ("in_place", IsolationMode::InPlace),
        ("none", IsolationMode::None),
    ];
    Some(Isolation {
        mode: fields.word("mode", &modes, Need::Optional, findings),
        share: fields.texts("share", Need::Optional, findings),
        setup: fields.text("setup", Need::Optional, findings),
    })
}

fn constraints(objective: &Fields<'_, '_>, findings: &mut Findings) -> Constraints {
    let Some(node) = objective.need("constraints", Need::Optional, findings) else {
        let defaults = Constraints::default();
        findings.note(
            Severity::Warning,
            "default_taken",
            objective.node.offset(),
            "`objective` has no `constraints`; the defaults are taken".into(),
            format!(
                "write `constraints: {{max_iterations: {}, max_parallel_agents: {}, max_stall_count: {}}}`",
                defaults.max_iterations, defaults.max_parallel_agents, defaults.max_stall_count
            ),
        );
        return defaults;
    };
    let Some(fields) = Fields::of(node, &"`constraints`", &LIMITS, findings) else {
        return Constraints::default();
    };
    let mut limit = |key: &str, default: u32, most: u32| {
        if fields.need(key, Need::Optional, findings).is_none() {
            let message = format!("`constraints` has no `{key}`; the default {default} is taken");
            let hint = format!("write `{key}: {default}`");
            findings.note(Severity::Warning, "default_taken", node.offset(), message, hint);
        }
        fields.count_up_to(most, key, 1, Need::Optional, findings).unwrap_or(default)
    };
    Constraints {
        max_iterations: limit("max_iterations", DEFAULT_MAX_ITERATIONS, u32::MAX),
        max_parallel_agents: limit("max_parallel_agents", DEFAULT_MAX_PARALLEL_AGENTS, MAX_PARALLEL_AGENTS),
        max_stall_count: limit("max_stall_count", DEFAULT_MAX_STALL_COUNT, u32::MAX),
        agent_timeout: fields.span("agent_timeout", findings),
        check_timeout: fields.span("check_timeout", findings),
        max_wall_time: fields.span("max_wall_time", findings),
        max_cost_usd: fields.amount("max_cost_usd", Need::Optional, findings),
        max_tokens: fields.number("max_tokens", 0, Need::Optional, findings).map(i64::unsigned_abs),
    }
}

fn control(node: Node<'_>, findings: &mut Findings) -> Option<Control> {
    let known = [
        "status",
        "iteration",
        "stall_count",
        "prev_pending_count",
        "stop_requested",
        "stop_reason",
        "stop_now",
        "redirect_requested",
        "loop",
        "revision",
        "session",
        "branch",
        "open",
        "attempts",
        "fruitless",
        "fewest_red",
        "parked_until",
        "spent",
        "fingerprint",
        "confirmed",
    ];
    let fields = Fields::of(node, &"`control`", &known, findings)?;
    let statuses = [
        ("pending", LoopStatus::Pending),
        ("running", LoopStatus::Running),
        ("stopped", LoopStatus::Stopped),
        ("completed", LoopStatus::Completed),
    ];
    let fresh = Control::fresh();
    let confirmed = fields.list("confirmed", Need::Optional, findings);
    let attempts = fields.entries("attempts", Need::Optional, findings);
    Some(Control {
        status: fields.word("status", &statuses, Need::Required, findings).unwrap_or(fresh.status),
        iteration: fields.count("iteration", 0, Need::Required, findings).unwrap_or(0),
        stall_count: fields.count("stall_count", 0, Need::Required, findings).unwrap_or(0),
        prev_pending_count: fields.number("prev_pending_count", -1, Need::Required, findings).unwrap_or(-1),
        stop_requested: fields.flag("stop_requested", Need::Required, findings).unwrap_or(false),
        stop_reason: fields.text("stop_reason", Need::Optional, findings),
        stop_now: fields.flag("stop_now", Need::Optional, findings).unwrap_or(false),
        redirect_requested: fields.flag("redirect_requested", Need::Required, findings).unwrap_or(false),
        loop_id: fields.text("loop", Need::Optional, findings),
        revision: fields.number("revision", 0, Need::Optional, findings).map(i64::unsigned_abs),
        session: fields.text("session", Need::Optional, findings),
        branch: fields.text("branch", Need::Optional, findings),
        open: fields.need("open", Need::Optional, findings).and_then(|node| open(node, findings)),
        attempts: named(attempts, "the attempt of", findings, |what, node, findings| {
            let number = node.int().and_then(|number| u32::try_from(number).ok());
            if number.is_none() {
                wrong_type(findings, node, what, "a count");
            }
            number
        }),
        fruitless: fields.count("fruitless", 0, Need::Optional, findings),
        fewest_red: fields.count("fewest_red", 0, Need::Optional, findings),
        parked_until: fields.stamp("parked_until", Need::Optional, findings),
        spent: fields.need("spent", Need::Optional, findings).and_then(|node| spent(node, findings)),
        fingerprint: fields
            .need("fingerprint", Need::Optional, findings)
            .and_then(|node| fingerprint(node, findings)),
        confirmed: each(confirmed, findings, confirmation),
    })
}

fn open(node: Node<'_>, findings: &mut Findings) -> Option<OpenIteration> {
    let fields = Fields::of(node, &"`open`", &["started", "results", "moved"], findings)?;
    Some(OpenIteration {
        started: ids(fields.texts("started", Need::Optional, findings)),
        results: fields.count("results", 0, Need::Optional, findings).unwrap_or(0),
        moved: fields.flag("moved", Need::Optional, findings).unwrap_or(false),
    })
}

fn spent(node: Node<'_>, findings: &mut Findings) -> Option<Spent> {
    let fields = Fields::of(node, &"`spent`", &["agent_runs", "seconds", "cost_usd", "tokens"], findings)?;
    let mut count = |key| fields.number(key, 0, Need::Optional, findings).unwrap_or(0).unsigned_abs();
    Some(Spent {
        agent_runs: count("agent_runs"),
        seconds: count("seconds"),
        tokens: count("tokens"),
        cost_usd: fields.amount("cost_usd", Need::Optional, findings).unwrap_or(0.0),
    })
}

fn fingerprint(node: Node<'_>, findings: &mut Findings) -> Option<Fingerprint> {
    let fields = Fields::of(node, &"`fingerprint`", &["base_case", "protected"], findings)?;
    let base_case = fields.text("base_case", Need::Required, findings);
    let protected = fields.text("protected", Need::Required, findings);
    Some(Fingerprint { base_case: base_case?, protected: protected? })
}

fn confirmation(place: usize, node: Node<'_>, findings: &mut Findings) -> Option<Confirmation> {
    let what = Numbered("confirmation", place);
    let fields = Fields::of(node, &what, &["item", "by", "at", "tree", "holds"], findings)?;
    let item = fields.text("item", Need::Required, findings);
    let by = fields.text("by", Need::Required, findings);
    let at = fields.stamp("at", Need::Required, findings);
    let tree = fields.text("tree", Need::Required, findings);
    let holds = fields.flag("holds", Need::Optional, findings);
    Some(Confirmation { item: item?, by: by?, at: at?, tree: tree?, holds })
}

fn atoms(root: &Fields<'_, '_>, findings: &mut Findings) -> IndexMap<AtomId, Atom> {
    let nodes = root.list("atoms", Need::Required, findings);
    if nodes.is_empty()
        && let Some(node) = root.node.get("atoms")
        && matches!(node.kind(), Kind::Seq | Kind::Null)
    {
        let message = "`atoms` is empty".to_owned();
        let hint = "a work graph has at least one atom; add one with `aot atom add`";
        findings.note(Severity::Incomplete, "empty", node.offset(), message, hint);
    }
    let mut found: IndexMap<AtomId, Atom> = IndexMap::with_capacity(nodes.len());
    for (place, node) in nodes.into_iter().enumerate() {
        let Some(atom) = atom(place, node, findings) else { continue };
        if let Some(first) = found.get_index_of(&atom.id) {
            findings.note(
                Severity::Error,
                "duplicate_id",
                node.get("id").unwrap_or(node).offset(),
                format!("atom id `{}` is used twice (first by atom {})", atom.id, first + 1),
                "give each atom an id of its own",
            );
            continue;
        }
        found.insert(atom.id.clone(), atom);
    }
    found
}

const ATOM_KEYS: [&str; 11] = [
    "id",
    "description",
    "status",
    "depends_on",
    "or_group",
    "check",
    "run",
    "probe",
    "agent",
    "writes",
    "resource",
];

fn atom(place: usize, node: Node<'_>, findings: &mut Findings) -> Option<Atom> {
    let what = Numbered("atom", place);
    let fields = Fields::of(node, &what, &ATOM_KEYS, findings)?;
    let id = fields.text("id", Need::Required, findings)?;
    let what = Named("atom", &id);
    let fields = Fields { node, what: &what };
    if !id.trim().is_empty() && !AtomId::is_usable(&id) {
        let hint = "use letters, digits, `_`, `-` and `.`, at most 128 of them";
        let offset = node.get("id").unwrap_or(node).offset();
        findings.note(Severity::Error, "bad_id", offset, format!("`{id}` is no usable id"), hint);
    }
    let statuses = [AtomStatus::Pending, AtomStatus::InProgress, AtomStatus::Resolved].map(|s| (s.word(), s));
    let description = fields.text("description", Need::Required, findings);
    let status = fields.word("status", &statuses, Need::Required, findings);
    Some(Atom {
        id: AtomId::from(id.as_str()),
        description: description.unwrap_or_default(),
        status: status.unwrap_or(AtomStatus::Pending),
        depends_on: ids(fields.texts("depends_on", Need::Required, findings)),
        or_group: fields.text("or_group", Need::Optional, findings).map(GroupName::new),
        check: fields
            .need("check", Need::Optional, findings)
            .and_then(|node| proving(node, &Named("the check of atom", &id), findings)),
        run: fields.text("run", Need::Optional, findings),
        probe: fields.flag("probe", Need::Optional, findings),
        agent: fields.text("agent", Need::Optional, findings),
        writes: fields.texts("writes", Need::Optional, findings),
        resource: fields.text("resource", Need::Optional, findings),
    })
}

fn ids(texts: Vec<String>) -> Vec<AtomId> {
    texts.iter().map(AtomId::new).collect()
}

fn decomposition(place: usize, node: Node<'_>, findings: &mut Findings) -> Option<Decomposition> {
    let what = Numbered("decomposition", place);
    let fields = Fields::of(node, &what, &["parent", "children", "reason"], findings)?;
    let parent = fields.text("parent", Need::Required, findings);
    let children = fields.texts("children", Need::Required, findings);
    let reason = fields.words("reason", findings);
    Some(Decomposition {
        parent: AtomId::new(parent?),
        children: ids(children),
        reason: reason.unwrap_or_default(),
    })
}

fn or_group(what: &dyn fmt::Display, node: Node<'_>, findings: &mut Findings) -> Option<OrGroup> {
    let fields = Fields::of(node, what, &["choices", "selected", "failed", "speculative"], findings)?;
    let choices = ids(fields.texts("choices", Need::Required, findings));
    let selected = fields.text("selected", Need::Required, findings).map(AtomId::new);
    if node.get("failed").is_none() {
        let message = format!("{what} has no `failed`; none is taken as failed");
        findings.note(Severity::Warning, "default_taken", node.offset(), message, "write `failed: []`");
    }
    Some(OrGroup {
        // Any choice will do here: that none is selected has been noted, and is enough of a mistake.
        selected: selected.or_else(|| choices.first().cloned()).unwrap_or_else(|| AtomId::new("")),
        choices,
        failed: ids(fields.texts("failed", Need::Optional, findings)),
        speculative: fields.flag("speculative", Need::Optional, findings),
    })
}

fn binding(what: &dyn fmt::Display, node: Node<'_>, findings: &mut Findings) -> Option<Binding> {
    let fields = Fields::of(node, what, &["summary", "artifacts", "commit"], findings)?;
    let summary = fields.words("summary", findings);
    let artifacts = fields.texts("artifacts", Need::Required, findings);
    // A commit is hexadecimal, and some of those look like numbers to YAML (`1234567`, `12e4567`).
    let commit = fields.need("commit", Need::Optional, findings).and_then(|node| node.scalar_text());
    Some(Binding {
        summary: summary.unwrap_or_default(),
        artifacts,
        commit: commit.map(|text| text.into_owned()),
    })
}

#[derive(Clone, Copy)]
enum TrailKind {
    Failure,
    Replan,
    UserCorrection,
}

fn trail_entry(place: usize, node: Node<'_>, findings: &mut Findings) -> Option<TrailEntry> {
    let known = ["type", "or_group", "selected", "atom", "reason", "description", "timestamp"];
    let what = Numbered("trail entry", place);
    let fields = Fields::of(node, &what, &known, findings)?;
    let kinds = [
        ("failure", TrailKind::Failure),
        ("replan", TrailKind::Replan),
        ("user_correction", TrailKind::UserCorrection),
    ];
    let kind = match node.get("type") {
        None => None,
        Some(_) => Some(fields.word("type", &kinds, Need::Required, findings)?),
    };
    match kind {
        None => {
            let or_group = fields.text("or_group", Need::Required, findings);
            let selected = fields.text("selected", Need::Required, findings);
            let reason = fields.words("reason", findings);
            let timestamp = fields.stamp("timestamp", Need::Required, findings);
            Some(TrailEntry::Selection {
                or_group: GroupName::new(or_group?),
                selected: AtomId::new(selected?),
                reason: reason?,
                timestamp: timestamp?,
            })
        }
        Some(TrailKind::Failure) => {
            let (atom, reason, timestamp) = about_atom(&fields, findings)?;
            Some(TrailEntry::Failure { atom, reason, timestamp })
        }
        Some(TrailKind::Replan) => {
            let (atom, reason, timestamp) = about_atom(&fields, findings)?;
            Some(TrailEntry::Replan { atom, reason, timestamp })
        }
        Some(TrailKind::UserCorrection) => {
            let description = fields.text("description", Need::Optional, findings).unwrap_or_default();
            let timestamp = fields.stamp("timestamp", Need::Required, findings)?;
            Some(TrailEntry::UserCorrection { description, timestamp })
        }
    }
}

fn about_atom(fields: &Fields<'_, '_>, findings: &mut Findings) -> Option<(AtomId, String, Stamp)> {
    let atom = fields.text("atom", Need::Required, findings);
    let reason = fields.text("reason", Need::Optional, findings).unwrap_or_default();
    let timestamp = fields.stamp("timestamp", Need::Required, findings);
    Some((AtomId::new(atom?), reason, timestamp?))
}

fn correction(place: usize, node: Node<'_>, findings: &mut Findings) -> Option<Correction> {
    let what = Numbered("correction", place);
    let fields = Fields::of(node, &what, &["timestamp", "type", "description", "trail_cleared"], findings)?;
    let kinds = [
        ("objective_change", CorrectionKind::ObjectiveChange),
        ("dag_adjustment", CorrectionKind::DagAdjustment),
        ("constraint_change", CorrectionKind::ConstraintChange),
        ("bindings_override", CorrectionKind::BindingsOverride),
    ];
    let timestamp = fields.stamp("timestamp", Need::Required, findings);
    let kind = fields.word("type", &kinds, Need::Required, findings);
    let description = fields.words("description", findings);
    let trail_cleared = fields.flag("trail_cleared", Need::Required, findings);
    Some(Correction {
        timestamp: timestamp?,
        kind: kind?,
        description: description?,
        trail_cleared: trail_cleared?,
    })
}
