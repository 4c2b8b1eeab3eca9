//! What the sections of a state file mean to one another: references, cycles, groups, parents.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::{HashMap, HashSet};

use super::document::{Kind, Node};
use super::finding::{Findings, Severity};
use crate::state::{AtomId, AtomStatus, Closes, Graph, GroupName, MAX_NESTING, State};

pub(super) fn check(root: Node<'_>, state: &State, findings: &mut Findings) {
    let graph = Graph::new(state);
    let mut check = InvariantCheck { places: Places::of(root), state, graph: &graph, findings };
    check.dependencies();
    check.memberships();
    check.groups();
    check.decompositions();
    check.statuses();
    check.bindings();
    check.cycles();
}

struct InvariantCheck<'d, 'a> {
    places: Places<'d>,
    state: &'a State,
    graph: &'a Graph,
    findings: &'a mut Findings,
}

impl<'d> InvariantCheck<'d, '_> {
    fn error(&mut self, code: &'static str, at: Node<'d>, message: String, hint: impl Into<String>) {
        self.findings.note(Severity::Error, code, at.offset(), message, hint);
    }

    fn warn(&mut self, code: &'static str, at: Node<'d>, message: String, hint: impl Into<String>) {
        self.findings.note(Severity::Warning, code, at.offset(), message, hint);
    }

    fn dependencies(&mut self) {
        for atom in self.state.atoms.values() {
            for wanted in &atom.depends_on {
                if self.state.atoms.contains_key(wanted) {
                    continue;
                }
                if self.findings.is_full() {
                    return;
                }
                let at = self.places.item_of(self.places.atom(&atom.id).get("depends_on"), wanted);
                let message = format!("atom `{}` depends on `{wanted}`, which is not in the graph", atom.id);
                let hint = format!("add `{wanted}`, or remove it from `depends_on`");
                self.error("unknown_dependency", at, message, hint);
            }
        }
    }

    fn memberships(&mut self) {
        let groups = self.state.or_groups.iter();
        let listed: HashSet<(&GroupName, &AtomId)> =
            groups.flat_map(|(name, group)| group.choices.iter().map(move |choice| (name, choice))).collect();
        for atom in self.state.atoms.values() {
            let Some(name) = &atom.or_group else { continue };
            match self.state.or_groups.get(name) {
                None => {
                    let at = self.places.field(&atom.id, "or_group");
                    let message =
                        format!("atom `{}` belongs to OR group `{name}`, which does not exist", atom.id);
                    let hint = format!("add `{name}` to `or_groups`, or remove `or_group`");
                    self.error("unknown_group", at, message, hint);
                }
                Some(_) if !listed.contains(&(name, &atom.id)) => {
                    let at = self.places.field(&atom.id, "or_group");
                    let message = format!(
                        "atom `{}` belongs to OR group `{name}`, but is not among its choices",
                        atom.id
                    );
                    let hint = format!("add `{}` to `choices` of `{name}`, or remove `or_group`", atom.id);
                    self.error("not_listed", at, message, hint);
                }
                Some(_) => {}
            }
        }
    }

    fn groups(&mut self) {
        let mut group_of: HashMap<&AtomId, &GroupName> = HashMap::new();
        for (name, group) in &self.state.or_groups {
            if self.findings.is_full() {
                return;
            }
            let node = self.places.group(name);
            let choices = node.get("choices");
            if group.choices.is_empty() {
                let message = format!("OR group `{name}` has no choices");
                self.error("empty", choices.unwrap_or(node), message, "list its atoms in `choices`");
                continue;
            }
            let mut seen = HashSet::new();
            for choice in &group.choices {
                if !seen.insert(choice) {
                    let at = self.places.item_of(choices, choice);
                    let message = format!("OR group `{name}` lists `{choice}` twice");
                    self.error("duplicate_choice", at, message, "list each choice once");
                    continue;
                }
                if let Some(other) = group_of.insert(choice, name) {
                    let at = self.places.item_of(choices, choice);
                    let message = format!("`{choice}` is a choice of both `{other}` and `{name}`");
                    self.error("two_groups", at, message, "an atom is a choice of one group at most");
                }
                self.choice(name, choice, choices);
            }
            self.selection(name, node);
        }
        self.shared_parents();
    }

    fn choice(&mut self, name: &GroupName, choice: &AtomId, choices: Option<Node<'d>>) {
        match self.state.atoms.get(choice) {
            None => {
                let at = self.places.item_of(choices, choice);
                let message = format!("choice `{choice}` of OR group `{name}` has no atom yet");
                self.warn("choice_without_atom", at, message, "it is made when the group goes to it");
            }
            Some(atom) if atom.or_group.is_none() => {
                let at = self.places.item_of(choices, choice);
                let message = format!("atom `{choice}` is a choice of `{name}`, but does not name its group");
                self.warn("or_group_missing", at, message, format!("write `or_group: {name}` in `{choice}`"));
            }
            Some(_) => {}
        }
    }

    fn selection(&mut self, name: &GroupName, node: Node<'d>) {
        let group = &self.state.or_groups[name];
        let at = node.get("selected").unwrap_or(node);
        if !group.choices.contains(&group.selected) {
            let listed = group.choices.iter().map(AtomId::as_str).collect::<Vec<_>>().join(", ");
            let message =
                format!("OR group `{name}` has selected `{}`, which is not a choice", group.selected);
            self.error("selected_not_a_choice", at, message, format!("select one of {listed}"));
        } else if !self.state.atoms.contains_key(&group.selected) {
            let message = format!("OR group `{name}` has selected `{}`, which has no atom", group.selected);
            self.error("selected_without_atom", at, message, "add the atom, or select another choice");
        }
        for failed in group.failed.iter().filter(|failed| !group.choices.contains(failed)) {
            let at = self.places.item_of(node.get("failed"), failed);
            let message = format!("`{failed}` has failed in OR group `{name}`, but is not among its choices");
            self.error("failed_not_a_choice", at, message, "remove it from `failed`");
        }
    }

    fn shared_parents(&mut self) {
        let mut listed: HashMap<&AtomId, &AtomId> = HashMap::new();
        for decomposition in &self.state.decompositions {
            for child in &decomposition.children {
                listed.entry(child).or_insert(&decomposition.parent);
            }
        }
        for (name, group) in &self.state.or_groups {
            let mut parents: Vec<&AtomId> =
                group.choices.iter().filter_map(|c| listed.get(c).copied()).collect();
            parents.sort();
            parents.dedup();
            if let [one, other, ..] = parents[..] {
                let at = self.places.group(name);
                let message =
                    format!("choices of OR group `{name}` lie under different atoms, `{one}` and `{other}`");
                self.error("mixed_parents", at, message, "the choices of a group share one parent");
            }
        }
    }

    fn decompositions(&mut self) {
        let mut parent_of: HashMap<&AtomId, &AtomId> = HashMap::new();
        let mut decomposed: HashSet<&AtomId> = HashSet::new();
        for decomposition in &self.state.decompositions {
            if self.findings.is_full() {
                return;
            }
            let parent = &decomposition.parent;
            let node = self.places.decomposition(parent);
            let at_parent = node.get("parent").unwrap_or(node);
            if !self.state.atoms.contains_key(parent) {
                let message = format!("`{parent}` is decomposed, but is not in the graph");
                self.error("unknown_parent", at_parent, message, "add the atom, or remove the decomposition");
            }
            if !decomposed.insert(parent) {
                let message = format!("`{parent}` is decomposed twice");
                self.error("decomposed_twice", at_parent, message, "list all its children in one entry");
            }
            if decomposition.children.is_empty() {
                let at = node.get("children").unwrap_or(node);
                let message = format!("the decomposition of `{parent}` has no children");
                self.error("empty", at, message, "list at least one child, or remove the decomposition");
            }
            for child in &decomposition.children {
                if !self.state.atoms.contains_key(child) {
                    let at = self.places.item_of(node.get("children"), child);
                    let message = format!("`{child}`, a child of `{parent}`, is not in the graph");
                    self.error("unknown_child", at, message, "add the atom, or remove it from `children`");
                }
                if let Some(other) = parent_of.insert(child, parent) {
                    let at = self.places.item_of(node.get("children"), child);
                    let message = format!("`{child}` is a child of both `{other}` and `{parent}`");
                    self.error("two_parents", at, message, "an atom has one parent at most");
                }
            }
        }
        for place in self.graph.too_deep() {
            let id = self.state.atoms[*place].id.clone();
            let at = self.places.atom(&id);
            let message = format!("`{id}` lies more than {MAX_NESTING} decompositions deep");
            self.error("too_deep", at, message, "decompose the work less deeply");
        }
    }

    fn statuses(&mut self) {
        for (place, atom) in self.state.atoms.values().enumerate() {
            match atom.status {
                AtomStatus::Pending => {}
                AtomStatus::InProgress if self.graph.is_decomposed(place) => {
                    let at = self.places.field(&atom.id, "status");
                    let message = format!("atom `{}` is decomposed and in progress", atom.id);
                    self.warn("parent_in_progress", at, message, "a decomposed atom stays `pending`");
                }
                AtomStatus::InProgress => self.started_early(place),
                AtomStatus::Resolved => self.resolved_early(place),
            }
        }
    }

    fn started_early(&mut self, place: usize) {
        let id = &self.state.atoms[place].id;
        if let Some(target) = self.graph.waits_on(self.state, place) {
            let at = self.places.field(id, "status");
            let name = self.graph.name_of(self.state, target);
            let message =
                format!("atom `{id}` is in progress, but `{name}`, which it depends on, is not resolved");
            self.warn("started_early", at, message, format!("set `{id}` to `pending`"));
        }
    }

    fn resolved_early(&mut self, place: usize) {
        let id = &self.state.atoms[place].id;
        if self.graph.is_decomposed(place) {
            let open =
                self.graph.child_targets(place).find(|child| !self.graph.is_resolved(self.state, *child));
            if let Some(open) = open {
                let at = self.places.field(id, "status");
                let name = self.graph.name_of(self.state, open);
                let message = format!("atom `{id}` is resolved before its child `{name}`");
                self.error("parent_resolved_early", at, message, format!("set `{id}` to `pending`"));
            }
        } else if let Some(target) = self.graph.waits_on(self.state, place) {
            let at = self.places.field(id, "status");
            let name = self.graph.name_of(self.state, target);
            let message = format!("atom `{id}` is resolved, but `{name}`, which it depends on, is not");
            self.warn("resolved_early", at, message, "check whether it should be done again");
        }
    }

    fn bindings(&mut self) {
        for id in self.state.bindings.keys() {
            match self.state.atoms.get(id).map(|atom| atom.status) {
                None => {
                    let at = self.places.binding(id);
                    let message = format!("there is a binding of `{id}`, which is not in the graph");
                    self.warn("unknown_binding", at, message, "remove it");
                }
                Some(AtomStatus::Pending | AtomStatus::InProgress) => {
                    let at = self.places.binding(id);
                    let message = format!("atom `{id}` has a binding, but is not resolved");
                    self.warn("binding_unresolved", at, message, "resolve the atom, or remove its binding");
                }
                Some(AtomStatus::Resolved) => {}
            }
        }
        for (id, atom) in &self.state.atoms {
            if atom.status == AtomStatus::Resolved && !self.state.bindings.contains_key(id) {
                let at = self.places.field(id, "status");
                let message = format!("atom `{id}` is resolved, but has no binding");
                self.warn("no_binding", at, message, "say in `bindings` what the result is");
            }
        }
    }

    fn cycles(&mut self) {
        for cycle in self.graph.cycles(self.state) {
            let first = cycle.names.iter().find(|name| self.state.atoms.contains_key(name.as_str()));
            let at =
                first.map_or(self.places.root, |name| self.places.field(&AtomId::new(name), "depends_on"));
            let ring = format!("{} -> {}", cycle.names.join(" -> "), cycle.names[0]);
            match cycle.closes {
                Closes::Now => {
                    let message = format!("these wait for one another: {ring}");
                    self.error("cycle", at, message, "remove one of the dependencies");
                }
                Closes::SinceBacktrack => {
                    let message = format!("since backtracking these wait for one another: {ring}");
                    self.warn(
                        "deadlock",
                        at,
                        message,
                        "remove one of the dependencies, or add another choice",
                    );
                }
                Closes::OnSwitch => {
                    let message = format!("another choice would make these wait for one another: {ring}");
                    self.warn("cycle_on_switch", at, message, "remove one of the dependencies");
                }
            }
        }
    }
}

/// Where things stand, looked up by name. Most files have nothing to look up, so the tables are made on demand.
struct Places<'d> {
    root: Node<'d>,
    atoms: Table<'d>,
    groups: Table<'d>,
    decompositions: Table<'d>,
    bindings: Table<'d>,
}

type Table<'d> = OnceCell<HashMap<Cow<'d, str>, Node<'d>>>;

impl<'d> Places<'d> {
    fn of(root: Node<'d>) -> Places<'d> {
        Places {
            root,
            atoms: OnceCell::new(),
            groups: OnceCell::new(),
            decompositions: OnceCell::new(),
            bindings: OnceCell::new(),
        }
    }

    fn atom(&self, id: &AtomId) -> Node<'d> {
        self.find(&self.atoms, id.as_str(), || self.items("atoms", "id"))
    }

    fn field(&self, atom: &AtomId, key: &str) -> Node<'d> {
        let atom = self.atom(atom);
        atom.get(key).unwrap_or(atom)
    }

    fn group(&self, name: &GroupName) -> Node<'d> {
        self.find(&self.groups, name.as_str(), || self.entries("or_groups").collect())
    }

    fn decomposition(&self, parent: &AtomId) -> Node<'d> {
        self.find(&self.decompositions, parent.as_str(), || self.items("decompositions", "parent"))
    }

    fn binding(&self, id: &AtomId) -> Node<'d> {
        self.find(&self.bindings, id.as_str(), || self.entries("bindings").collect())
    }

    fn item_of(&self, list: Option<Node<'d>>, id: &AtomId) -> Node<'d> {
        let Some(list) = list else { return self.root };
        if list.kind() != Kind::Seq {
            return list;
        }
        list.items().find(|item| item.str().is_some_and(|text| text == id.as_str())).unwrap_or(list)
    }

    fn find(
        &self,
        table: &Table<'d>,
        name: &str,
        make: impl FnOnce() -> HashMap<Cow<'d, str>, Node<'d>>,
    ) -> Node<'d> {
        table.get_or_init(make).get(name).copied().unwrap_or(self.root)
    }

    fn items(&self, section: &str, key: &str) -> HashMap<Cow<'d, str>, Node<'d>> {
        let list = self.root.get(section).filter(|node| node.kind() == Kind::Seq);
        let maps = list.into_iter().flat_map(|list| list.items()).filter(|node| node.kind() == Kind::Map);
        let mut found = HashMap::new();
        for node in maps {
            if let Some(name) = node.get(key).and_then(|value| value.str()) {
                found.entry(name).or_insert(node);
            }
        }
        found
    }

    fn entries(&self, section: &str) -> impl Iterator<Item = (Cow<'d, str>, Node<'d>)> + use<'d> {
        let map = self.root.get(section).filter(|node| node.kind() == Kind::Map);
        let entries = map.into_iter().flat_map(|map| map.entries());
        entries.filter_map(|(key, value)| Some((key.scalar_text()?, value)))
    }
}
