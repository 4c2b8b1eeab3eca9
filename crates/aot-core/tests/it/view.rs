//! What screens are given: the order of the outline, the longest path, and what is kept of a state of any size.

use aot_core::contract;
use aot_core::state::{Graph, State};
use aot_core::view::{LISTED, Outline, RowItem, View};
use aot_testkit::fixtures::{of_size, with_graph};

fn state(text: &str) -> State {
    let reading = contract::read(text.as_bytes().to_vec()).expect("it is YAML");
    reading.state.unwrap_or_else(|| panic!("{:?}", reading.findings))
}

/// Atoms as `id <- deps`, then what stands below them; the outline as `depth:name`; the longest path.
fn check(atoms: &str, rest: &str, outline: &str, critical: &str) {
    let mut graph = String::from("atoms:\n");
    for atom in atoms.split("; ") {
        let (head, depends) = atom.split_once(" <- ").unwrap_or((atom, ""));
        let (id, group) = head.split_once('@').unwrap_or((head, ""));
        let group = if group.is_empty() { String::new() } else { format!(", or_group: {group}") };
        graph +=
            &format!("  - {{id: {id}, description: d, status: pending, depends_on: [{depends}]{group}}}\n");
    }
    let state = state(&with_graph(&format!("{graph}{rest}")));
    let graph = Graph::new(&state);
    let rows = Outline::of(&graph, &state).rows;
    let drawn: Vec<String> = rows
        .iter()
        .map(|row| {
            let name = match &row.item {
                RowItem::Atom(place) => state.atoms[*place].id.to_string(),
                RowItem::Group(group) => state.or_groups.get_index(*group).expect("there").0.to_string(),
                RowItem::Unmade(id) => format!("({id})"),
            };
            format!("{}{name}", ".".repeat(row.depth))
        })
        .collect();
    assert_eq!(drawn.join(" "), outline, "{atoms}");
    let path: Vec<&str> = graph.critical_path(&state).iter().map(|at| state.atoms[*at].id.as_str()).collect();
    assert_eq!(path.join(" "), critical, "{atoms}");
}

#[test]
fn siblings_stand_after_what_they_wait_for() {
    check("A; B <- A; C", "", "A B C", "A B");
    check("C <- B; B <- A; A; D", "", "A B C D", "A B C");
    check("A <- B; B <- C; C; D <- A", "", "C B A D", "C B A D");
    let cut = "decompositions: [{parent: P, children: [X, Y], reason: r}]\n";
    check("P; X <- Y; Y <- Z; Z", cut, "Z P .Y .X", "Z Y X");
    check("D <- P; P; X; Y <- X", cut, "P .X .Y D", "X Y D");
}

#[test]
fn ways_stand_below_their_group_in_the_order_in_which_they_are_tried() {
    let group = "or_groups: {g: {choices: [B, A, N], selected: B, failed: []}}\n";
    check("A@g; C <- A; B@g", group, "g .B .A .(N) C", "B C");
    let below = "decompositions: [{parent: P, children: [A, B], reason: r}]\n";
    check("P; A@g; B@g; C <- P", &format!("{below}{group}"), "P .g ..B ..A ..(N) C", "B C");
}

#[test]
fn what_is_not_selected_does_not_disturb_the_order() {
    let group = "or_groups: {g: {choices: [A, B], selected: A, failed: []}}\n";
    check("A@g; B@g <- C; C <- A; D", group, "g .A .B C D", "A");
}

#[test]
fn a_view_of_many_atoms_stays_short() {
    let state = state(&of_size(3_000));
    let view = View::of(&state);
    assert_eq!((view.counts.resolved, view.counts.in_progress), (1_500, 1));
    assert_eq!(view.ready_count, view.ready.len());
    assert!(view.next.len() <= LISTED && view.next.len() == view.ready_count.min(LISTED));
    let kept = serde_json::to_string(&view).expect("plain data");
    assert!(kept.len() < 8_000, "{} bytes", kept.len());
    let again: View = serde_json::from_str(&kept).expect("it reads itself");
    assert_eq!(again, View { ready: Vec::new(), ..view });
}
