//! Where the boxes of a diagram stand, and the ways of its arrows around them: columns from left to right, each box after what
//! it needs. Draws nothing.

use rust_sugiyama::configure::{Config, CrossingMinimization, RankingType};

use super::{Diagram, DiagramBox, lines};

pub const WIDTH: f64 = 216.0;
pub const LINE: f64 = 16.0;
pub const MARGIN: f64 = 24.0;
/// Room for the title, and for the legend.
pub const HEAD: f64 = 56.0;
pub const FOOT: f64 = 44.0;
const COLUMN_GAP: f64 = 56.0;
const ROW_GAP: f64 = 18.0;

/// So many parts that hang together by nothing stand below each other; more are put side by side, too.
const STACKED: usize = 8;
/// How much wider than high a picture of many parts is.
const ASPECT: f64 = 1.6;

/// Above so many boxes the order within columns is not refined further, which takes cubic time, and arrows go straight to
/// their ends, across what is between.
const REFINED: usize = 400;

/// Where a box is: its middle and its size.
pub struct Place {
    pub x: f64,
    pub y: f64,
    pub width: f64,
    pub height: f64,
}

pub struct Layout {
    /// The place of each box.
    pub places: Vec<Place>,
    /// The middle of each column that an arrow passes through, with its level there; one list for each arrow.
    pub ways: Vec<Vec<(f64, f64)>>,
    /// How much room all of it takes.
    pub width: f64,
    pub height: f64,
}

impl Layout {
    pub fn of(diagram: &Diagram) -> Layout {
        let height = |drawn: &DiagramBox| 14.0 + LINE * (1 + lines(drawn).len()) as f64;
        let boxes = diagram.boxes.iter();
        let mut places: Vec<Place> =
            boxes.map(|drawn| Place { x: 0.0, y: 0.0, width: WIDTH, height: height(drawn) }).collect();
        let count = places.len();
        let (passed, edges) = passages(diagram);
        places.extend((0..passed.len()).map(|_| Place { x: 0.0, y: 0.0, width: WIDTH, height: 0.0 }));
        // The library draws from top to bottom: the sides are exchanged there and back.
        let number = |at: usize| u32::try_from(at).expect("a graph has fewer boxes than that");
        let vertices: Vec<(u32, (f64, f64))> = places
            .iter()
            .enumerate()
            .map(|(at, place)| (number(at), (place.height + ROW_GAP, place.width + COLUMN_GAP)))
            .collect();
        let edges: Vec<(u32, u32)> = edges.iter().map(|(from, to)| (number(*from), number(*to))).collect();
        let config = Config {
            vertex_spacing: 0.0,
            ranking_type: RankingType::Up,
            c_minimization: CrossingMinimization::Median,
            transpose: count <= REFINED,
            ..Config::default()
        };
        let mut layouts = rust_sugiyama::from_vertices_and_edges(&vertices, &edges, &config);
        // The larger parts first; equal ones in the order of their boxes.
        layouts.sort_by_key(|(part, _, _)| {
            let boxes = part.iter().map(|(at, _)| *at).filter(|at| *at < count);
            (std::cmp::Reverse(boxes.clone().count()), boxes.min().unwrap_or_default())
        });
        let parts: Vec<Part> = layouts.iter().map(|(part, _, _)| Part::of(part, &places)).collect();
        let area: f64 = parts.iter().map(|part| (part.width + COLUMN_GAP) * (part.height + ROW_GAP)).sum();
        let widest = parts.iter().map(|part| part.width).fold(0.0, f64::max);
        let room = if parts.len() > STACKED { widest.max((area * ASPECT).sqrt()) } else { 0.0 };
        // Rows of parts from left to right; few parts have a row each.
        let (mut x, mut y, mut row, mut right) = (0.0_f64, 0.0_f64, 0.0_f64, 0.0_f64);
        for ((boxes, _, _), part) in layouts.iter().zip(&parts) {
            if x > 0.0 && x + part.width > room {
                (x, y, row) = (0.0, y + row + ROW_GAP, 0.0);
            }
            for (at, (across, down)) in boxes {
                let place = &mut places[*at];
                place.x = MARGIN + x + down - part.left;
                place.y = HEAD + y + across - part.top;
            }
            right = right.max(x + part.width);
            row = row.max(part.height);
            x += part.width + COLUMN_GAP;
        }
        let mut ways = vec![Vec::new(); diagram.arrows.len()];
        for (place, arrow) in places[count..].iter().zip(&passed) {
            ways[*arrow].push((place.x, place.y));
        }
        places.truncate(count);
        Layout { places, ways, width: right, height: y + row }
    }
}

/// For each column that an arrow passes through the arrow, from left to right, and all edges, those from passage to passage
/// too. Passages are numbered behind the boxes.
fn passages(diagram: &Diagram) -> (Vec<usize>, Vec<(usize, usize)>) {
    let count = diagram.boxes.len();
    let ranks = ranks(diagram);
    let (mut passed, mut edges) = (Vec::new(), Vec::new());
    for (at, arrow) in diagram.arrows.iter().enumerate() {
        let between = if count > REFINED { 0 } else { ranks[arrow.to].saturating_sub(ranks[arrow.from] + 1) };
        let mut from = arrow.from;
        for _ in 0..between {
            let passage = count + passed.len();
            passed.push(at);
            edges.push((from, passage));
            from = passage;
        }
        edges.push((from, arrow.to));
    }
    (passed, edges)
}

/// The column of each box: one behind the last of those that point to it.
fn ranks(diagram: &Diagram) -> Vec<usize> {
    let mut ranks = vec![0; diagram.boxes.len()];
    let (mut waits, mut next) = (vec![0; ranks.len()], vec![Vec::new(); ranks.len()]);
    for arrow in &diagram.arrows {
        waits[arrow.to] += 1;
        next[arrow.from].push(arrow.to);
    }
    // What waits for itself keeps the first column; the library finds it a place.
    let mut open: Vec<usize> = (0..ranks.len()).filter(|at| waits[*at] == 0).collect();
    while let Some(at) = open.pop() {
        for to in &next[at] {
            ranks[*to] = ranks[*to].max(ranks[at] + 1);
            waits[*to] -= 1;
            if waits[*to] == 0 {
                open.push(*to);
            }
        }
    }
    ranks
}

/// What hangs together, as the library placed it.
struct Part {
    left: f64,
    top: f64,
    width: f64,
    height: f64,
}

impl Part {
    fn of(boxes: &[(usize, (f64, f64))], places: &[Place]) -> Part {
        let least = |of: &dyn Fn(&Place, f64, f64) -> f64| {
            boxes
                .iter()
                .map(|(at, (across, down))| of(&places[*at], *across, *down))
                .fold(f64::INFINITY, f64::min)
        };
        let top = least(&|place, across, _| across - place.height / 2.0);
        let left = least(&|place, _, down| down - place.width / 2.0);
        let height = -least(&|place, across, _| -across - place.height / 2.0) - top;
        let width = -least(&|place, _, down| -down - place.width / 2.0) - left;
        Part { left, top, width, height }
    }
}

#[cfg(test)]
mod tests {
    use aot_core::view::DisplayStatus;

    use super::*;
    use crate::screens::diagram::{Arrow, ArrowKind, BoxKind, PathKind};

    /// Boxes and arrows: `A>B B>C A>C`.
    fn diagram(arrows: &str) -> Diagram {
        let mut names: Vec<&str> = Vec::new();
        let mut place = |name| match names.iter().position(|known| *known == name) {
            Some(at) => at,
            None => {
                names.push(name);
                names.len() - 1
            }
        };
        let arrows = arrows
            .split(' ')
            .map(|arrow| {
                let (from, to) = arrow.split_once('>').expect("an arrow");
                let (kind, path) = (ArrowKind::Dependency, PathKind::Other);
                Arrow { from: place(from), to: place(to), kind, path }
            })
            .collect();
        let one = |name: &&str| DiagramBox {
            name: (*name).to_owned(),
            text: "It does something".to_owned(),
            status: DisplayStatus::Pending,
            kind: BoxKind::Atom,
        };
        Diagram {
            goal: String::new(),
            progress: String::new(),
            boxes: names.iter().map(one).collect(),
            arrows,
        }
    }

    /// An arrow that skips columns passes each of them beside the boxes there.
    #[test]
    fn arrows_go_around_boxes() {
        for (arrows, passes) in [
            ("A>B B>C", 0),
            ("A>B B>C A>C", 1),
            ("A>B B>C C>D A>D B>D", 3),
            ("A>B B>C C>D D>E A>E A>D X>Y", 5),
        ] {
            let diagram = diagram(arrows);
            let layout = Layout::of(&diagram);
            assert_eq!(layout.ways.iter().map(Vec::len).sum::<usize>(), passes, "{arrows}");
            for (arrow, way) in diagram.arrows.iter().zip(&layout.ways) {
                let columns: Vec<f64> = way.iter().map(|(x, _)| *x).collect();
                assert!(columns.is_sorted(), "{arrows}: from left to right");
                for (x, y) in way {
                    let is_hit = |place: &Place| {
                        (place.x - x).abs() < WIDTH && (place.y - y).abs() < place.height / 2.0
                    };
                    let hit = layout.places.iter().position(is_hit);
                    assert_eq!(hit, None, "{arrows}: {} passes through a box", arrow.from);
                }
            }
        }
    }
}
