//! Plans to live through: states with random AND/OR graphs, aligned and not begun. Knows what a valid plan looks like,
//! and nothing of coordinators.

use std::sync::Arc;

use aot_core::state::{
    Atom, AtomId, Check, Checks, Closes, Constraints, Control, Decomposition, Graph, GroupName, Item,
    Objective, OrGroup, Quality, Span, State, VerifyWhen, Wants,
};
use indexmap::IndexMap;

use crate::random::Random;

/// Decompositions deeper than this are not drawn.
const MAX_DEPTH: usize = 3;

/// An aligned state that has not begun, with these constraints and without atoms.
pub fn blank(constraints: Constraints) -> State {
    let check = Check::Command { value: "true".into() };
    State {
        objective: Objective {
            goal: "the goal".into(),
            base_case: Some(Checks::Single(check)),
            background_intent: "a background".into(),
            deliverables: "deliverables".into(),
            definition_of_done: "a definition of done".into(),
            constraints,
            protected: Vec::new(),
            verify: None,
            isolation: None,
            shell: None,
        },
        control: Control::fresh(),
        atoms: IndexMap::new(),
        decompositions: Vec::new(),
        or_groups: IndexMap::new(),
        bindings: IndexMap::new(),
        trail: Vec::new(),
        corrections: Vec::new(),
        background: Default::default(),
    }
}

/// The limits of a loop, all others left at their defaults.
pub fn limits(parallel: u32, iterations: u32, stalls: u32) -> Constraints {
    Constraints {
        max_parallel_agents: parallel,
        max_iterations: iterations,
        max_stall_count: stalls,
        ..Constraints::default()
    }
}

/// A check with so many items for a judge.
pub fn judged(quality_items: usize) -> Checks {
    let quality = |number| Item {
        item: format!("judged {number}"),
        wants: Wants::Check(Check::Quality(Quality {
            criteria: Some("clear".into()),
            rubric: Vec::new(),
            pass_threshold: 3.0,
            scope: None,
        })),
    };
    let command = Item { item: "runs".into(), wants: Wants::Check(Check::Command { value: "true".into() }) };
    Checks::Checklist(std::iter::once(command).chain((0..quality_items).map(quality)).collect())
}

/// A random plan: mostly small, sometimes of fifty atoms.
pub fn draw(random: &mut Random) -> State {
    let atoms = match random.below(40) {
        0 => 50,
        1..=4 => random.between(8, 16) as usize,
        _ => random.between(1, 8) as usize,
    };
    let mut state = blank(random_limits(random));
    state.objective.verify = match random.below(4) {
        0 => Some(VerifyWhen::EachIteration),
        1 => Some(VerifyWhen::AtEnd),
        _ => None,
    };
    if random.percent(15) {
        state.objective.base_case = Some(judged(random.between(1, 2) as usize));
    }
    let mut draft = Draft { state, left: atoms, next: 1 };
    let richness = random.between(0, 50);
    if draft.left >= 4 && random.percent(20) {
        let many = random.between(4, 7);
        draft.group_of(random, None, 0, richness / 4, many);
    }
    while draft.left > 0 {
        draft.grow(random, None, 0, richness);
    }
    let mut state = draft.state;
    depend(&mut state, random);
    dress(&mut state, random);
    state
}

fn random_limits(random: &mut Random) -> Constraints {
    let mut constraints = limits(
        random.between(1, 4) as u32,
        if random.percent(20) { random.between(1, 3) } else { random.between(4, 14) } as u32,
        random.between(1, 4) as u32,
    );
    if random.percent(20) {
        constraints.max_wall_time = Some(Span::from_seconds(random.between(600, 20_000)));
    }
    if random.percent(10) {
        constraints.max_cost_usd = Some(random.between(1, 30) as f64);
    }
    if random.percent(10) {
        constraints.max_tokens = Some(random.between(100, 8_000));
    }
    constraints
}

struct Draft {
    state: State,
    left: usize,
    next: usize,
}

impl Draft {
    /// An atom, a decomposed atom or a group of choices, below `parent`.
    fn grow(&mut self, random: &mut Random, parent: Option<&AtomId>, depth: usize, richness: u64) {
        if self.left >= 2 && random.percent(richness) {
            self.group(random, parent, depth, richness);
        } else {
            let atom = self.atom(parent);
            self.perhaps_cut(random, &atom, depth, richness);
        }
    }

    fn atom(&mut self, parent: Option<&AtomId>) -> AtomId {
        let id = AtomId::new(format!("A{}", self.next));
        self.next += 1;
        self.left = self.left.saturating_sub(1);
        self.state.add(Atom::new(id.clone(), format!("do {id}")));
        if let Some(parent) = parent {
            self.adopt(parent, &id);
        }
        id
    }

    fn adopt(&mut self, parent: &AtomId, child: &AtomId) {
        match self.state.decompositions.iter_mut().find(|decomposition| decomposition.parent == *parent) {
            Some(decomposition) => decomposition.children.push(child.clone()),
            None => self.state.decompositions.push(Decomposition {
                parent: parent.clone(),
                children: vec![child.clone()],
                reason: "too large".into(),
            }),
        }
    }

    fn perhaps_cut(&mut self, random: &mut Random, atom: &AtomId, depth: usize, richness: u64) {
        if self.left == 0 || depth >= MAX_DEPTH || !random.percent(richness) {
            return;
        }
        for _ in 0..random.between(1, 3) {
            if self.left > 0 {
                self.grow(random, Some(atom), depth + 1, richness);
            }
        }
    }

    fn group(&mut self, random: &mut Random, parent: Option<&AtomId>, depth: usize, richness: u64) {
        let many = if random.percent(10) { random.between(4, 7) } else { random.between(2, 3) };
        self.group_of(random, parent, depth, richness, many);
    }

    /// A group of so many choices, as far as there are atoms for them.
    fn group_of(
        &mut self,
        random: &mut Random,
        parent: Option<&AtomId>,
        depth: usize,
        richness: u64,
        many: u64,
    ) {
        let name = GroupName::new(format!("g{}", self.next));
        let mut choices = Vec::new();
        for _ in 0..many {
            if self.left == 0 {
                break;
            }
            let choice = self.atom(parent);
            Arc::make_mut(&mut self.state.atoms[&choice]).or_group = Some(name.clone());
            self.perhaps_cut(random, &choice, depth, richness);
            choices.push(choice);
        }
        if random.percent(10) {
            // Listed, and no atom stands for it yet (decision D4).
            choices.push(AtomId::new(format!("{}_alt", choices[0])));
        }
        let speculative = random.percent(30).then_some(true);
        // Some are stuck from the beginning.
        let burnt = if choices.len() >= 4 && random.percent(70) { 2 } else { 0 };
        let (selected, failed) = (choices[burnt].clone(), choices[..burnt].to_vec());
        self.state.or_groups.insert(name, OrGroup { choices, selected, failed, speculative });
    }
}

/// Draws dependencies, and keeps those that close no cycle as selected now.
fn depend(state: &mut State, random: &mut Random) {
    let count = state.atoms.len();
    let wanted = match random.below(4) {
        0 => 0,
        1 => count / 2,
        2 => count,
        _ => 2 * count,
    };
    let may_close_later = random.percent(5);
    for _ in 0..wanted {
        let (from, to) = (random.below(count), random.below(count));
        // Mostly backward, so that few draws are thrown away.
        let (from, to) = if from < to && random.percent(80) { (to, from) } else { (from, to) };
        let on = state.atoms[to].id.clone();
        if from == to || state.atoms[from].depends_on.contains(&on) {
            continue;
        }
        Arc::make_mut(&mut state.atoms[from]).depends_on.push(on);
        let closes = |closes| may_close_later && closes == Closes::OnSwitch;
        if Graph::new(state).cycles(state).iter().any(|cycle| !closes(cycle.closes)) {
            Arc::make_mut(&mut state.atoms[from]).depends_on.pop();
        }
    }
}

/// Checks, commands, probes, and things that two atoms cannot have at once.
fn dress(state: &mut State, random: &mut Random) {
    let (checks, commands, probes) = (random.between(0, 40), random.between(0, 10), random.between(0, 15));
    let (writes, resources) = (random.between(0, 25), random.between(0, 15));
    for atom in state.atoms_mut() {
        if random.percent(checks) {
            let judges = if random.percent(20) { random.between(1, 2) as usize } else { 0 };
            atom.check = Some(judged(judges));
        }
        if random.percent(commands) {
            atom.run = Some("make".into());
        }
        if random.percent(probes) {
            atom.probe = Some(true);
        }
        if random.percent(writes) {
            atom.writes = vec![(*random.pick(&["src/**", "src/a/**", "docs/*", "src/b.rs"])).to_owned()];
        }
        if random.percent(resources) {
            atom.resource = Some((*random.pick(&["db", "port"])).to_owned());
        }
    }
}
