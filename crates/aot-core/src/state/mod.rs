//! The contract's nouns, and pure questions about them. Nothing here changes itself: that is `rules::apply`.

mod agreement;
mod atom;
mod checks;
mod frontier;
mod graph;
mod ids;
mod limit;
mod path;
mod stop;
mod trust;

pub use agreement::{Agreement, Background, Boundaries, Clarification};
pub use atom::{Atom, AtomStatus, NewAtom};
pub use checks::{Check, CheckKind, Checks, Criterion, Item, Quality, Scope, Wants};
pub use frontier::Frontier;
pub use graph::{Closes, Cycle, Graph, MAX_NESTING, Target};
pub use ids::{AtomId, GroupName, Span, Stamp};
pub use limit::{LIMITS, Limit};
pub use path::{RemainingWork, Weights};
pub use stop::{Budget, Failed, SelectionCause, StopKind, headline, is_same_failure};
pub use trust::TrustItem;

use std::sync::Arc;

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub const DEFAULT_MAX_ITERATIONS: u32 = 20;
pub const DEFAULT_MAX_PARALLEL_AGENTS: u32 = 3;
pub const DEFAULT_MAX_STALL_COUNT: u32 = 3;
/// No loop has more agents at a time. Hooks keep what is in progress beside the state file, and rely on this limit.
pub const MAX_PARALLEL_AGENTS: u32 = 1024;
pub const DEFAULT_AGENT_TIMEOUT: Span = Span::from_seconds(30 * 60);
pub const DEFAULT_CHECK_TIMEOUT: Span = Span::from_seconds(10 * 60);
pub const DEFAULT_MAX_WALL_TIME: Span = Span::from_seconds(24 * 3600);

/// The frontmatter of a state file, contract v1.3.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct State {
    pub objective: Objective,
    // What the program owns may be missing in a file that a person writes, until the loop has begun (D39).
    #[serde(default = "Control::fresh")]
    pub control: Control,
    #[serde(serialize_with = "as_list", deserialize_with = "by_id")]
    #[schemars(with = "Vec<Atom>", length(min = 1))]
    // Shared with the state before, of which few atoms change at a time.
    pub atoms: IndexMap<AtomId, Arc<Atom>>,
    #[serde(default)]
    pub decompositions: Vec<Decomposition>,
    #[serde(default)]
    pub or_groups: IndexMap<GroupName, OrGroup>,
    #[serde(default)]
    pub bindings: IndexMap<AtomId, Binding>,
    #[serde(default)]
    pub trail: Vec<TrailEntry>,
    #[serde(default)]
    pub corrections: Vec<Correction>,
    /// What stands beside the contract's own fields and is told to agents.
    #[serde(skip)]
    pub background: Background,
}

/// What must be satisfied.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(transform = require_base_case)]
pub struct Objective {
    #[schemars(length(min = 1))]
    pub goal: String,
    /// Absent only while the alignment is being made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Checks")]
    pub base_case: Option<Checks>,
    #[schemars(length(min = 1))]
    pub background_intent: String,
    #[schemars(length(min = 1))]
    pub deliverables: String,
    #[schemars(length(min = 1))]
    pub definition_of_done: String,
    #[serde(default)]
    pub constraints: Constraints,
    /// Globs that no worker may change.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub protected: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verify: Option<VerifyWhen>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub isolation: Option<Isolation>,
    /// Runs all commands of the loop; without it the system's own, or bash for what only bash understands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shell: Option<String>,
}

/// It is optional only while the alignment is being made, which is not what the schema describes.
fn require_base_case(schema: &mut schemars::Schema) {
    if let Some(required) = schema.get_mut("required").and_then(|list| list.as_array_mut()) {
        required.push("base_case".into());
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Constraints {
    #[serde(default = "default_max_iterations")]
    #[schemars(range(min = 1))]
    pub max_iterations: u32,
    #[serde(default = "default_max_parallel_agents")]
    #[schemars(range(min = 1, max = MAX_PARALLEL_AGENTS))]
    pub max_parallel_agents: u32,
    #[serde(default = "default_max_stall_count")]
    #[schemars(range(min = 1))]
    pub max_stall_count: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_timeout: Option<Span>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check_timeout: Option<Span>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_wall_time: Option<Span>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub max_cost_usd: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
}

fn default_max_iterations() -> u32 {
    DEFAULT_MAX_ITERATIONS
}

fn default_max_parallel_agents() -> u32 {
    DEFAULT_MAX_PARALLEL_AGENTS
}

fn default_max_stall_count() -> u32 {
    DEFAULT_MAX_STALL_COUNT
}

impl Default for Constraints {
    fn default() -> Constraints {
        Constraints {
            max_iterations: DEFAULT_MAX_ITERATIONS,
            max_parallel_agents: DEFAULT_MAX_PARALLEL_AGENTS,
            max_stall_count: DEFAULT_MAX_STALL_COUNT,
            agent_timeout: None,
            check_timeout: None,
            max_wall_time: None,
            max_cost_usd: None,
            max_tokens: None,
        }
    }
}

impl Constraints {
    pub fn agent_timeout(&self) -> Span {
        self.agent_timeout.unwrap_or(DEFAULT_AGENT_TIMEOUT)
    }

    pub fn check_timeout(&self) -> Span {
        self.check_timeout.unwrap_or(DEFAULT_CHECK_TIMEOUT)
    }

    pub fn max_wall_time(&self) -> Span {
        self.max_wall_time.unwrap_or(DEFAULT_MAX_WALL_TIME)
    }
}

/// When the base case is evaluated at the close of an iteration, besides the beginning and the end. Without a word it is
/// [`VerifyWhen::Auto`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum VerifyWhen {
    /// When something landed, and a look is cheap beside the work (D14).
    Auto,
    AtEnd,
    EachIteration,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Isolation {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<IsolationMode>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub share: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub copy: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setup: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub teardown: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum IsolationMode {
    /// Each worker has a worktree of its own.
    Worktree,
    /// One worker at a time, in the project's folder; a failure is rolled back.
    InPlace,
    /// In the project's folder, side by side; nothing is rolled back, nothing committed.
    None,
}

/// Where the loop stands. The optional part is the program's own.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Control {
    #[serde(default)]
    pub status: LoopStatus,
    #[serde(default)]
    pub iteration: u32,
    #[serde(default)]
    pub stall_count: u32,
    /// Unresolved atoms at the last close; -1 before the first.
    #[serde(default = "before_the_first")]
    #[schemars(range(min = -1))]
    pub prev_pending_count: i64,
    #[serde(default)]
    pub stop_requested: bool,
    #[serde(default)]
    pub stop_reason: Option<String>,
    /// The fact behind `stop_reason`; absent in files of an older program.
    #[serde(default, deserialize_with = "stop::fact", skip_serializing_if = "Option::is_none")]
    pub verdict: Option<StopKind>,
    /// The stop that is asked for kills what runs.
    #[serde(default, skip_serializing_if = "is_false")]
    pub stop_now: bool,
    #[serde(default)]
    pub redirect_requested: bool,
    /// Written at alignment; the commits' `Aot-Loop`.
    #[serde(rename = "loop", default, skip_serializing_if = "Option::is_none")]
    pub loop_id: Option<String>,
    /// Counts the program's writes, so that a stale copy saved over them is noticed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The branch that work lands on, if it is not the one that was checked out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open: Option<OpenIteration>,
    /// The attempt that each atom in progress is in; the commits' `Aot-Attempt`.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub attempts: IndexMap<AtomId, u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fruitless: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fewest_red: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parked_until: Option<Stamp>,
    /// Why nothing can start until then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parked_reason: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spent: Option<Spent>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<Fingerprint>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub confirmed: Vec<Confirmation>,
    /// Work that a person asked for when the loop was completed: it is not completed again before this is resolved.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub wanted: Vec<AtomId>,
}

impl Control {
    /// Before the first iteration.
    pub fn fresh() -> Control {
        Control { prev_pending_count: before_the_first(), ..Control::default() }
    }
}

fn before_the_first() -> i64 {
    -1
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LoopStatus {
    #[default]
    Pending,
    Running,
    Stopped,
    Completed,
}

/// The iteration that is open: what was started in it, and how many results are in.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OpenIteration {
    #[serde(default)]
    pub started: Vec<AtomId>,
    #[serde(default)]
    pub results: u32,
    /// A group went to another choice: the iteration is no stall (decision D9).
    #[serde(default, skip_serializing_if = "is_false")]
    pub moved: bool,
}

fn is_false(flag: &bool) -> bool {
    !*flag
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Spent {
    #[serde(default)]
    pub agent_runs: u64,
    /// Those of the runs in which a worker went on because something was missing (D34).
    #[serde(default, skip_serializing_if = "is_zero")]
    pub mends: u64,
    #[serde(default)]
    pub seconds: u64,
    #[serde(default)]
    pub cost_usd: f64,
    #[serde(default)]
    pub tokens: u64,
}

/// A run of an agent that is over. The journal keeps it with what the loop has spent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AgentRun {
    /// What it was asked about; nothing if it was the plan or the base case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub atom: Option<AtomId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// `worker`, `probe`, `judge` or `coordinator`.
    pub role: String,
    pub agent: String,
    #[serde(default)]
    pub seconds: u64,
    #[serde(default)]
    pub tokens: u64,
    /// Absent where the agent does not report it and has no price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// How often it was asked in it, until its answer could be read.
    #[serde(default)]
    pub asked: u32,
    /// Why the same agent went on, if it did (D34).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mends: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Fingerprint {
    pub base_case: String,
    pub protected: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Confirmation {
    pub item: String,
    pub by: String,
    pub at: Stamp,
    /// The hash of the tree that the person looked at.
    pub tree: String,
    /// `false` if the person said that it is not so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holds: Option<bool>,
}

impl Confirmation {
    pub fn holds(&self) -> bool {
        self.holds != Some(false)
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Decomposition {
    pub parent: AtomId,
    #[schemars(length(min = 1))]
    pub children: Vec<AtomId>,
    pub reason: String,
}

/// Alternatives, in the order in which they are tried.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OrGroup {
    #[schemars(length(min = 1))]
    pub choices: Vec<AtomId>,
    pub selected: AtomId,
    #[serde(default)]
    pub failed: Vec<AtomId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speculative: Option<bool>,
}

impl OrGroup {
    /// The next choice in the written order that has not failed, other than the selected one.
    pub fn next_choice(&self) -> Option<&AtomId> {
        self.choices.iter().find(|choice| **choice != self.selected && !self.failed.contains(choice))
    }

    pub fn is_speculative(&self) -> bool {
        self.speculative == Some(true)
    }
}

/// What a resolved atom has shrunk to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Binding {
    pub summary: String,
    pub artifacts: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// No file was changed for it (D33).
    #[serde(default, skip_serializing_if = "is_false")]
    pub unchanged: bool,
}

/// The history that backtracking and the strategy ladder read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "TrailForm", into = "TrailForm")]
#[schemars(with = "TrailShape")]
pub enum TrailEntry {
    Selection {
        or_group: GroupName,
        selected: AtomId,
        reason: String,
        /// The fact behind `reason`; absent in entries of an older program.
        cause: Option<SelectionCause>,
        timestamp: Stamp,
    },
    Failure {
        atom: AtomId,
        reason: String,
        timestamp: Stamp,
    },
    Replan {
        atom: AtomId,
        reason: String,
        timestamp: Stamp,
    },
    UserCorrection {
        description: String,
        timestamp: Stamp,
    },
}

/// How a [`TrailEntry`] stands in the file: a selection has no `type`.
#[derive(Clone, Serialize, Deserialize)]
struct TrailForm {
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    kind: Option<TrailKind>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    or_group: Option<GroupName>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    selected: Option<AtomId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    atom: Option<AtomId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(default, deserialize_with = "stop::fact", skip_serializing_if = "Option::is_none")]
    cause: Option<SelectionCause>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    timestamp: Stamp,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum TrailKind {
    Failure,
    Replan,
    UserCorrection,
}

/// The shapes that the JSON Schema names; nothing is ever made of it.
#[derive(JsonSchema)]
#[schemars(rename = "TrailEntry", untagged)]
#[expect(dead_code, reason = "only its schema is used")]
enum TrailShape {
    Selection {
        or_group: GroupName,
        selected: AtomId,
        reason: String,
        cause: Option<SelectionCause>,
        timestamp: Stamp,
    },
    AboutAtom {
        r#type: AboutAtom,
        atom: AtomId,
        reason: Option<String>,
        timestamp: Stamp,
    },
    UserCorrection {
        r#type: ByUser,
        description: Option<String>,
        timestamp: Stamp,
    },
}

#[derive(JsonSchema)]
#[schemars(rename_all = "snake_case", inline)]
#[expect(dead_code, reason = "only its schema is used")]
enum AboutAtom {
    Failure,
    Replan,
}

#[derive(JsonSchema)]
#[schemars(rename_all = "snake_case", inline)]
#[expect(dead_code, reason = "only its schema is used")]
enum ByUser {
    UserCorrection,
}

impl From<TrailEntry> for TrailForm {
    fn from(entry: TrailEntry) -> TrailForm {
        let blank = |kind, timestamp| TrailForm {
            kind,
            or_group: None,
            selected: None,
            atom: None,
            reason: None,
            cause: None,
            description: None,
            timestamp,
        };
        match entry {
            TrailEntry::Selection { or_group, selected, reason, cause, timestamp } => TrailForm {
                or_group: Some(or_group),
                selected: Some(selected),
                reason: Some(reason),
                cause,
                ..blank(None, timestamp)
            },
            TrailEntry::Failure { atom, reason, timestamp } => TrailForm {
                atom: Some(atom),
                reason: Some(reason),
                ..blank(Some(TrailKind::Failure), timestamp)
            },
            TrailEntry::Replan { atom, reason, timestamp } => TrailForm {
                atom: Some(atom),
                reason: Some(reason),
                ..blank(Some(TrailKind::Replan), timestamp)
            },
            TrailEntry::UserCorrection { description, timestamp } => TrailForm {
                description: Some(description),
                ..blank(Some(TrailKind::UserCorrection), timestamp)
            },
        }
    }
}

impl TryFrom<TrailForm> for TrailEntry {
    type Error = &'static str;

    fn try_from(form: TrailForm) -> Result<TrailEntry, &'static str> {
        let timestamp = form.timestamp;
        match form.kind {
            None => Ok(TrailEntry::Selection {
                or_group: form.or_group.ok_or("a selection names its `or_group`")?,
                selected: form.selected.ok_or("a selection names what was `selected`")?,
                reason: form.reason.unwrap_or_default(),
                cause: form.cause,
                timestamp,
            }),
            Some(TrailKind::Failure) => Ok(TrailEntry::Failure {
                atom: form.atom.ok_or("a failure names its `atom`")?,
                reason: form.reason.unwrap_or_default(),
                timestamp,
            }),
            Some(TrailKind::Replan) => Ok(TrailEntry::Replan {
                atom: form.atom.ok_or("a replan names its `atom`")?,
                reason: form.reason.unwrap_or_default(),
                timestamp,
            }),
            Some(TrailKind::UserCorrection) => Ok(TrailEntry::UserCorrection {
                description: form.description.unwrap_or_default(),
                timestamp,
            }),
        }
    }
}

/// The record of one redirect.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Correction {
    pub timestamp: Stamp,
    #[serde(rename = "type")]
    pub kind: CorrectionKind,
    pub description: String,
    pub trail_cleared: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CorrectionKind {
    ObjectiveChange,
    DagAdjustment,
    ConstraintChange,
    BindingsOverride,
}

impl State {
    /// An atom that is to be changed: it is this state's own from then on.
    pub fn atom_mut(&mut self, id: &AtomId) -> Option<&mut Atom> {
        self.atoms.get_mut(id).map(Arc::make_mut)
    }

    pub fn atoms_mut(&mut self) -> impl Iterator<Item = &mut Atom> {
        self.atoms.values_mut().map(Arc::make_mut)
    }

    /// Adds an atom after all others, or puts it in the place of the one with its id.
    pub fn add(&mut self, atom: Atom) {
        self.atoms.insert(atom.id.clone(), Arc::new(atom));
    }

    /// The decomposition of an atom, if it has children.
    pub fn decomposition_of(&self, parent: &AtomId) -> Option<&Decomposition> {
        self.decompositions.iter().find(|decomposition| decomposition.parent == *parent)
    }

    pub fn constraints(&self) -> &Constraints {
        &self.objective.constraints
    }

    /// The first free id of the sequence `A1`, `A2`, …
    pub fn next_id(&self) -> AtomId {
        let listed = self.or_groups.values().flat_map(|group| group.choices.iter());
        let highest =
            self.atoms.keys().chain(listed).filter_map(|id| sequence_number(id.as_str())).max().unwrap_or(0);
        AtomId::new(format!("A{}", highest + 1))
    }
}

/// The number of an id of the sequence `A1`, `A2`, …; that of `A4_alt` is 4.
pub(crate) fn sequence_number(id: &str) -> Option<u64> {
    let digits = id.strip_prefix('A')?;
    let leading = digits.len() - digits.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    digits[..leading].parse().ok().filter(|number| *number < u64::MAX)
}

fn as_list<S: serde::Serializer>(
    atoms: &IndexMap<AtomId, Arc<Atom>>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(atoms.values().map(|atom| &**atom))
}

/// Of two atoms with one id the first is kept; the contract's reader refuses such a file.
fn by_id<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<IndexMap<AtomId, Arc<Atom>>, D::Error> {
    let listed = Vec::<Atom>::deserialize(deserializer)?;
    let mut atoms = IndexMap::with_capacity(listed.len());
    for atom in listed {
        atoms.entry(atom.id.clone()).or_insert_with(|| Arc::new(atom));
    }
    Ok(atoms)
}
