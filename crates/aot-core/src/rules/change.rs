//! The one vocabulary of change: what rules produce, `apply` performs, the journal keeps and views follow.

use serde::{Deserialize, Serialize};

use crate::state::{
    AgentRun, Atom, AtomId, AtomStatus, Binding, Checks, Confirmation, Constraints, CorrectionKind,
    Fingerprint, GroupName, Isolation, OrGroup, SelectionCause, Spent, Stamp, StopKind,
};

/// A fact about a loop. Moments are not in it: whoever applies a change says when it happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Change {
    // The loop.
    LoopNamed {
        id: String,
    },
    /// Taken up, from the beginning or after a stop: counters that judge progress start anew (decision D15).
    LoopStarted,
    /// Somebody typed another status into the file; it is not believed.
    StatusRestored,
    /// The loop is taken up again: a stop that was asked for before is over.
    StopWithdrawn,
    SessionTaken {
        session: Option<String>,
    },
    StopRequested {
        reason: Option<String>,
        /// What runs is killed.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        now: bool,
    },
    /// Work lands on this branch, and the checkout is left alone.
    BranchChosen {
        branch: String,
    },
    RedirectRequested,
    RedirectEnded,
    Stopped {
        reason: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        verdict: Option<StopKind>,
    },
    Completed,
    /// A person asked for these when the base case held: it completes nothing before they are resolved (D14).
    WorkWanted {
        atoms: Vec<AtomId>,
    },
    Parked {
        until: Stamp,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    Unparked,
    SpentSoFar {
        spent: Spent,
        /// The runs of agents that have ended since the last time.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        runs: Vec<AgentRun>,
    },

    // Iterations.
    IterationOpened,
    ResultCounted,
    IterationClosed {
        unresolved: u32,
        stall_count: u32,
    },
    /// Nothing could be started in it: it was none (D12).
    IterationTakenBack,
    /// Something was resolved at the stall limit: the loop goes on (D11).
    StallCleared,
    /// The count of unresolved atoms moved without a resolution; progress is measured from the moved mark (D9).
    CountMoved {
        by: i64,
    },

    // Atoms.
    AtomAdded {
        atom: Box<Atom>,
    },
    AtomRemoved {
        atom: AtomId,
    },
    AtomStarted {
        atom: AtomId,
        attempt: Option<u32>,
    },
    AtomResolved {
        atom: AtomId,
        binding: Binding,
    },
    /// Back to pending, without its binding.
    AtomReset {
        atom: AtomId,
    },
    /// Somebody typed `resolved` into the file; it is not believed (D22).
    ResultNotBelieved {
        atom: AtomId,
        /// What it was before, and is again.
        status: AtomStatus,
    },
    /// Back to pending without a failure: a conflict, a check that could not run, a kill (D10).
    AtomReturned {
        atom: AtomId,
        reason: String,
    },
    /// Back to pending, as if it had not been picked: what it needs was refused (D12).
    AtomNotStarted {
        atom: AtomId,
        reason: String,
    },
    DependenciesSet {
        atom: AtomId,
        depends_on: Vec<AtomId>,
    },
    BindingSet {
        atom: AtomId,
        binding: Binding,
    },
    FailureNoted {
        atom: AtomId,
        reason: String,
    },
    ReplanNoted {
        atom: AtomId,
        reason: String,
    },
    /// An agent's plan was against the rules: nothing of it was taken over, and its next brief says why.
    PlanRefused {
        reason: String,
    },

    // Decompositions.
    Decomposed {
        parent: AtomId,
        children: Vec<AtomId>,
        reason: String,
    },
    ChildAdded {
        parent: AtomId,
        child: AtomId,
    },
    ChildRemoved {
        parent: AtomId,
        child: AtomId,
    },
    DecompositionWithdrawn {
        parent: AtomId,
    },

    // OR groups.
    GroupAdded {
        group: GroupName,
        entry: OrGroup,
    },
    GroupRemoved {
        group: GroupName,
    },
    ChoiceAdded {
        group: GroupName,
        choice: AtomId,
    },
    ChoiceRemoved {
        group: GroupName,
        choice: AtomId,
    },
    /// The choices of a group are tried at once, or one after the other.
    SpeculationSet {
        group: GroupName,
        speculative: bool,
    },
    ChoicesOrdered {
        group: GroupName,
        choices: Vec<AtomId>,
    },
    ChoiceFailed {
        group: GroupName,
        choice: AtomId,
    },
    ChoiceForgiven {
        group: GroupName,
        choice: AtomId,
    },
    ChoiceSelected {
        group: GroupName,
        choice: AtomId,
        reason: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cause: Option<SelectionCause>,
    },

    // Redirects.
    GoalSet {
        goal: String,
    },
    BaseCaseSet {
        base_case: Checks,
    },
    BackgroundIntentSet {
        background_intent: String,
    },
    DeliverablesSet {
        deliverables: String,
    },
    DefinitionOfDoneSet {
        definition_of_done: String,
    },
    ProtectedSet {
        protected: Vec<String>,
    },
    IsolationSet {
        isolation: Option<Isolation>,
    },
    ConstraintsSet {
        constraints: Constraints,
    },
    TrailCleared,
    /// Entries of these groups are taken out of the trail.
    TrailPruned {
        groups: Vec<GroupName>,
    },
    UserCorrected {
        description: String,
    },
    CorrectionNoted {
        kind: CorrectionKind,
        description: String,
        trail_cleared: bool,
    },

    // Verification.
    Verified {
        fruitless: u32,
        fewest_red: Option<u32>,
    },
    FingerprintTaken {
        fingerprint: Fingerprint,
    },
    ItemConfirmed {
        confirmation: Confirmation,
    },
    ConfirmationWithdrawn {
        item: String,
    },
}

impl Change {
    /// Whether the shape of the graph is another one afterwards.
    pub fn reshapes(&self) -> bool {
        matches!(
            self,
            Change::AtomAdded { .. }
                | Change::AtomRemoved { .. }
                | Change::DependenciesSet { .. }
                | Change::Decomposed { .. }
                | Change::ChildAdded { .. }
                | Change::ChildRemoved { .. }
                | Change::DecompositionWithdrawn { .. }
                | Change::GroupAdded { .. }
                | Change::GroupRemoved { .. }
                | Change::ChoiceAdded { .. }
                | Change::ChoiceRemoved { .. }
                | Change::SpeculationSet { .. }
                | Change::ChoicesOrdered { .. }
        )
    }
}
