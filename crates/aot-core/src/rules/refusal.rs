//! Why an operation is not allowed, in words for the person or the agent who asked.

use crate::state::{AtomId, AtomStatus, GroupName};

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("atom `{0}` is not in the graph")]
    UnknownAtom(AtomId),
    #[error("OR group `{0}` does not exist")]
    UnknownGroup(GroupName),
    #[error("`{choice}` is not a choice of OR group `{group}`")]
    NotAChoice { group: GroupName, choice: AtomId },
    #[error("atom `{atom}` is {}, not {}", is.word(), wanted.word())]
    WrongStatus { atom: AtomId, is: AtomStatus, wanted: AtomStatus },
    #[error("atom `{atom}` waits for {}", list(on))]
    Waiting { atom: AtomId, on: Vec<String> },
    #[error("atom `{0}` is decomposed; its children are solved, not the atom itself")]
    IsDecomposed(AtomId),
    #[error("atom `{atom}` lies under `{choice}`, which OR group `{group}` has not selected")]
    Dormant { atom: AtomId, choice: AtomId, group: GroupName },
    #[error("atom `{atom}` lies under `{choice}`, which has failed in OR group `{group}`")]
    ChoiceFailed { atom: AtomId, choice: AtomId, group: GroupName },
    #[error("a stop is requested; nothing new starts")]
    StopRequested,
    #[error("a redirect is under way; nothing new starts")]
    RedirectRequested,
    #[error("atom `{0}` has a check of its own, and the program has not seen it pass")]
    CheckNotSeen(AtomId),
    #[error("atom id `{0}` is taken")]
    IdTaken(AtomId),
    #[error("`{0}` is no usable name: it must be one word of letters, digits, `_`, `-` and `.`, not over {max} bytes", max = AtomId::MAX_LENGTH)]
    BadId(String),
    #[error("`{0}` is given twice")]
    GivenTwice(AtomId),
    #[error("a description is needed")]
    NoDescription,
    #[error("the change would make a cycle: {}", ring(.0))]
    Cycle(Vec<String>),
    #[error("a decomposition has at least one child")]
    NoChildren,
    #[error("decompositions may be nested {limit} deep, and `{atom}` would lie deeper")]
    TooDeep { atom: AtomId, limit: usize },
    #[error("atom `{atom}` is needed by {}", list(by))]
    Needed { atom: AtomId, by: Vec<String> },
    #[error("`{0}` is the only atom left")]
    LastAtom(AtomId),
    #[error("OR group `{group}` has selected `{choice}` already")]
    SelectedAlready { group: GroupName, choice: AtomId },
    #[error("atom `{atom}` is a choice of OR group `{group}` already")]
    InGroup { atom: AtomId, group: GroupName },
    #[error("an OR group needs at least one choice")]
    NoChoices,
    #[error("the choices of OR group `{0}` do not share one parent")]
    MixedParents(GroupName),
    #[error("some children of `{0}` are resolved already")]
    ChildrenResolved(AtomId),
    #[error("atom `{0}` is not decomposed")]
    NotDecomposed(AtomId),
    #[error("atom `{0}` was started in this iteration already")]
    StartedAlready(AtomId),
    #[error("{0} agents run already, as many as `max_parallel_agents` allows")]
    SlotsFull(u32),
    #[error("this iteration has had its {0} starts")]
    IterationFull(usize),
    #[error("the iteration limit of {0} is reached")]
    IterationLimit(u32),
    #[error("what is left of the budget is reserved for the agents that run")]
    BudgetReserved,
    #[error("{0}; nothing new starts")]
    BudgetSpent(String),
    #[error("atom `{atom}` would get in the way of `{with}`, which is being worked on")]
    InTheWay { atom: AtomId, with: AtomId },
    #[error("atom `{0}` waits for a person")]
    AwaitingPerson(AtomId),
    #[error("atom `{0}` has failed too often to be tried again at the stall limit")]
    GivenUp(AtomId),
    #[error("the plan of atom `{0}` is being changed")]
    BeingReplanned(AtomId),
    #[error("atom `{0}` needs an agent, and there is none")]
    NoAgent(AtomId),
    #[error("OR group `{0}` has no other choice left")]
    NoBranchLeft(GroupName),
    #[error(
        "the plan would grow to {unresolved} atoms to be executed; {limit} can be started in the iterations left"
    )]
    TooMany { unresolved: usize, limit: usize },
    #[error("the check of `{atom}` asks a judge {wanted} times; the bound that was shown allows {limit}")]
    TooManyJudges { atom: AtomId, wanted: usize, limit: usize },
    #[error("the check of atom `{0}` has an empty list in it, and would prove nothing")]
    EmptyCheck(AtomId),
    #[error("`{0}` must not be empty")]
    Blank(&'static str),
    #[error("`{0}` must be at least 1")]
    TooSmall(&'static str),
    #[error("`{0}` is given twice")]
    Twice(&'static str),
    #[error("{one} and {other} exclude each other over `{over}`")]
    AtOdds { over: String, one: String, other: String },
}

impl Refusal {
    pub fn code(&self) -> &'static str {
        match self {
            Refusal::UnknownAtom(_) => "unknown_atom",
            Refusal::UnknownGroup(_) => "unknown_group",
            Refusal::NotAChoice { .. } => "not_a_choice",
            Refusal::WrongStatus { .. } => "wrong_status",
            Refusal::Waiting { .. } => "waiting",
            Refusal::IsDecomposed(_) => "decomposed",
            Refusal::Dormant { .. } => "dormant",
            Refusal::ChoiceFailed { .. } => "choice_failed",
            Refusal::StopRequested => "stop_requested",
            Refusal::RedirectRequested => "redirect_requested",
            Refusal::CheckNotSeen(_) => "check_not_seen",
            Refusal::IdTaken(_) => "id_taken",
            Refusal::BadId(_) => "bad_id",
            Refusal::GivenTwice(_) => "given_twice",
            Refusal::NoDescription => "no_description",
            Refusal::Cycle(_) => "cycle",
            Refusal::NoChildren => "no_children",
            Refusal::TooDeep { .. } => "too_deep",
            Refusal::Needed { .. } => "needed",
            Refusal::LastAtom(_) => "last_atom",
            Refusal::SelectedAlready { .. } => "selected_already",
            Refusal::InGroup { .. } => "in_group",
            Refusal::NoChoices => "no_choices",
            Refusal::MixedParents(_) => "mixed_parents",
            Refusal::ChildrenResolved(_) => "children_resolved",
            Refusal::NotDecomposed(_) => "not_decomposed",
            Refusal::StartedAlready(_) => "started_already",
            Refusal::SlotsFull(_) => "slots_full",
            Refusal::IterationFull(_) => "iteration_full",
            Refusal::IterationLimit(_) => "iteration_limit",
            Refusal::BudgetReserved => "budget_reserved",
            Refusal::BudgetSpent(_) => "budget_spent",
            Refusal::InTheWay { .. } => "in_the_way",
            Refusal::AwaitingPerson(_) => "held",
            Refusal::GivenUp(_) => "given_up",
            Refusal::BeingReplanned(_) => "being_replanned",
            Refusal::NoAgent(_) => "no_agent",
            Refusal::NoBranchLeft(_) => "no_branch_left",
            Refusal::TooMany { .. } => "too_many",
            Refusal::TooManyJudges { .. } => "too_many_judges",
            Refusal::EmptyCheck(_) => "empty_check",
            Refusal::Blank(_) => "blank",
            Refusal::TooSmall(_) => "too_small",
            Refusal::Twice(_) => "given_twice",
            Refusal::AtOdds { .. } => "at_odds",
        }
    }

    pub fn hint(&self) -> String {
        match self {
            Refusal::UnknownAtom(_) => "`aot show` lists the atoms".into(),
            Refusal::UnknownGroup(group) => format!("make it with `aot or add {group} --choices A1,A2`"),
            Refusal::NotAChoice { group, choice } => {
                format!("add it with `aot or add {group} --choices {choice}`")
            }
            Refusal::WrongStatus { atom, is: AtomStatus::Pending, .. } => {
                format!("start it first: `aot atom start {atom}`")
            }
            Refusal::WrongStatus { is: AtomStatus::InProgress, .. } => {
                "it is being worked on; resolve or fail it first".into()
            }
            Refusal::WrongStatus { is: AtomStatus::Resolved, .. } => {
                "what is resolved stays so; a redirect can undo it".into()
            }
            Refusal::Waiting { .. } => "`aot ready` lists what can start now".into(),
            Refusal::IsDecomposed(atom) => {
                format!("work on the children of `{atom}`; it resolves with the last")
            }
            Refusal::Dormant { group, choice, .. } | Refusal::ChoiceFailed { group, choice, .. } => {
                format!("select it with `aot or switch {group} {choice} --reason \"WHY\"`")
            }
            Refusal::StopRequested => "`aot run` takes a stopped loop up again".into(),
            Refusal::RedirectRequested => "finish or cancel the redirect first".into(),
            Refusal::CheckNotSeen(_) => "the check must be run by the program; a report is not enough".into(),
            Refusal::IdTaken(_) => "leave the id out to get the next free one".into(),
            Refusal::BadId(_) => "choose another name, or leave an id out to get the next free one".into(),
            Refusal::GivenTwice(_) => "name each choice once".into(),
            Refusal::NoDescription => "say in a sentence what to do".into(),
            Refusal::Cycle(_) => "leave out one of these dependencies".into(),
            Refusal::NoChildren => "name at least one with `--child`".into(),
            Refusal::TooDeep { .. } => "withdraw a decomposition above it".into(),
            Refusal::Needed { .. } => "remove those first, or change what they depend on".into(),
            Refusal::LastAtom(_) => "a work graph has at least one atom; add another first".into(),
            Refusal::SelectedAlready { .. } => "nothing to do".into(),
            Refusal::InGroup { .. } => "an atom is a choice of one group at most".into(),
            Refusal::NoChoices => "name them with `--choices A4,A5`".into(),
            Refusal::MixedParents(_) => "choose atoms that stand beside one another".into(),
            Refusal::ChildrenResolved(_) => "only a decomposition without results can be withdrawn".into(),
            Refusal::NotDecomposed(atom) => {
                format!("decompose it with `aot atom decompose {atom} --child \"DESCRIPTION\"`")
            }
            Refusal::StartedAlready(_) => "it can be started again in the next iteration".into(),
            Refusal::BudgetReserved => "resolve or fail one of them first, or raise the limit".into(),
            Refusal::BudgetSpent(_) => "raise the limit: `aot redirect --help` lists the flags".into(),
            Refusal::SlotsFull(_) => "resolve or fail one of them first".into(),
            Refusal::IterationFull(_) => "end the iteration first".into(),
            Refusal::IterationLimit(limit) => {
                format!("raise it with `aot redirect --max-iterations {}`", limit.saturating_add(10))
            }
            Refusal::InTheWay { with, .. } => format!("wait until `{with}` is resolved or failed"),
            Refusal::AwaitingPerson(_) => {
                "confirm what it asks for, or repair its check; then `aot run`".into()
            }
            Refusal::GivenUp(_) => "change the plan: decompose it, or add an alternative".into(),
            Refusal::BeingReplanned(_) => "wait for the new plan".into(),
            Refusal::NoAgent(_) => "name an agent with `--agent`, or give the atom a `run` command".into(),
            Refusal::NoBranchLeft(group) => format!("add one with `aot or add {group} --choices A4,A5`"),
            Refusal::TooMany { .. } => "make the plan smaller".into(),
            Refusal::TooManyJudges { .. } => "use machine checks instead of quality items".into(),
            Refusal::EmptyCheck(_) => "fill the list, or leave the check out".into(),
            Refusal::Blank(_) | Refusal::TooSmall(_) => "give it a value".into(),
            Refusal::Twice(_) => "say it once".into(),
            Refusal::AtOdds { .. } => "leave one of them out, or make them one after the other".into(),
        }
    }
}

fn list(names: &[String]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// A cycle as people read it: back at the first name.
pub(crate) fn ring(names: &[String]) -> String {
    let first = names.first().cloned().unwrap_or_default();
    format!("{} -> {first}", names.join(" -> "))
}
