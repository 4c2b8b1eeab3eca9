//! A diagram as a picture of its own: no font, script or address from elsewhere, light and dark.

use std::fmt::Write;

use super::layout::{FOOT, HEAD, LINE, Layout, MARGIN, Place, WIDTH};
use super::{ArrowKind, BoxKind, Diagram, DiagramBox, PathKind, mark, word};
use crate::screens::markup::escaped;
use crate::text;

/// Columns of text in a box.
const COLUMNS: usize = 31;
/// No picture is narrower: the legend has to fit.
const LEAST_WIDTH: f64 = 620.0;

pub fn svg(diagram: &Diagram) -> String {
    let Layout { places, ways, width, height } = Layout::of(diagram);
    let (width, height) = ((width + 2.0 * MARGIN).max(LEAST_WIDTH), height + HEAD + FOOT);
    let mut page = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" \
         height=\"{height:.0}\" role=\"img\">\n<title>{}</title>\n{STYLE}",
        escaped(&diagram.goal)
    );
    let _ = writeln!(page, "<rect class=\"page\" width=\"{width:.0}\" height=\"{height:.0}\"/>");
    let columns = ((width - 2.0 * MARGIN) / 8.2) as usize;
    let _ = writeln!(
        page,
        "<text class=\"goal\" x=\"{MARGIN}\" y=\"24\">{}</text>\n<text class=\"note\" x=\"{MARGIN}\" y=\"42\">{}</text>",
        escaped(&text::fit(&diagram.goal, columns)),
        escaped(&diagram.progress)
    );
    // Critical arrows come last, above the others.
    for wanted in [PathKind::Other, PathKind::Critical] {
        for (arrow, way) in diagram.arrows.iter().zip(&ways).filter(|(arrow, _)| arrow.path == wanted) {
            page += &line((&places[arrow.from], &places[arrow.to]), way, arrow.kind, wanted);
        }
    }
    for (drawn, place) in diagram.boxes.iter().zip(&places) {
        page += &one(drawn, place);
    }
    page += &legend(diagram, height - FOOT / 2.0);
    page + "</svg>\n"
}

/// What a box says below its name.
pub fn lines(drawn: &DiagramBox) -> Vec<String> {
    if drawn.text.is_empty() {
        return Vec::new();
    }
    let mut lines = text::wrapped(&drawn.text, COLUMNS);
    if lines.len() > 2 {
        let rest = lines.split_off(1).join(" ");
        lines.push(text::fit(&rest, COLUMNS));
    }
    lines
}

fn one(drawn: &DiagramBox, place: &Place) -> String {
    let (left, top) = (place.x - place.width / 2.0, place.y - place.height / 2.0);
    let (width, height) = (place.width, place.height);
    let round = if drawn.kind == BoxKind::OrGroup { height / 2.0 } else { 7.0 };
    let mut group = format!("<g class=\"box {}\">", word(drawn.status));
    if matches!(drawn.kind, BoxKind::Parent | BoxKind::Contracted) {
        // A second sheet behind the first.
        let _ = write!(
            group,
            "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{width}\" height=\"{height}\" rx=\"7\"/>",
            left + 4.0,
            top - 4.0
        );
    }
    let _ = write!(
        group,
        "<rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"{width}\" height=\"{height}\" rx=\"{round:.1}\"/>"
    );
    let x = left + if drawn.kind == BoxKind::OrGroup { 20.0 } else { 10.0 };
    let mut y = top + 19.0;
    let name = escaped(&text::fit(&drawn.name, COLUMNS - 4));
    let _ = write!(
        group,
        "<text x=\"{x:.1}\" y=\"{y:.1}\"><tspan class=\"mark\">{}</tspan> <tspan class=\"name\">{name}</tspan></text>",
        mark(drawn.status)
    );
    for line in lines(drawn) {
        y += LINE;
        let _ = write!(group, "<text class=\"text\" x=\"{x:.1}\" y=\"{y:.1}\">{}</text>", escaped(&line));
    }
    group + "</g>\n"
}

fn line((from, to): (&Place, &Place), way: &[(f64, f64)], kind: ArrowKind, path: PathKind) -> String {
    let kind = match kind {
        ArrowKind::Dependency => "dependency",
        ArrowKind::Child => "child",
        ArrowKind::Choice => "choice",
    };
    let path = match path {
        PathKind::Critical => " critical",
        PathKind::Other => "",
    };
    let (mut x, mut y) = (from.x + from.width / 2.0, from.y);
    let mut drawn = format!("M{x:.1} {y:.1}");
    let mut bend_to = |next: f64, level: f64, straight: f64| {
        let bend = ((next - x) / 2.0).clamp(24.0, 90.0);
        let (first, second) = (x + bend, next - bend);
        let _ = write!(drawn, "C{first:.1} {y:.1} {second:.1} {level:.1} {next:.1} {level:.1}");
        if straight > 0.0 {
            let _ = write!(drawn, "h{straight:.1}");
        }
        (x, y) = (next + straight, level);
    };
    // Between the boxes of a column it is straight.
    for (middle, level) in way {
        bend_to(middle - WIDTH / 2.0, *level, WIDTH);
    }
    bend_to(to.x - to.width / 2.0 - 5.0, to.y, 0.0);
    let (x, y) = (to.x - to.width / 2.0, to.y);
    format!(
        "<path class=\"{kind}{path}\" d=\"{drawn}\"/>\n<path class=\"tip{path}\" d=\"M{x:.1} {y:.1}l-7 -4v8z\"/>\n"
    )
}

fn legend(diagram: &Diagram, y: f64) -> String {
    let mut page = String::from("<g class=\"legend\">");
    let mut x = MARGIN;
    for (status, word) in diagram.statuses() {
        let _ = write!(
            page,
            "<g class=\"box {word}\"><text x=\"{x:.0}\" y=\"{y:.0}\"><tspan class=\"mark\">{}</tspan></text></g>\
             <text class=\"note\" x=\"{:.0}\" y=\"{y:.0}\">{word}</text>",
            mark(status),
            x + 15.0
        );
        x += 28.0 + 7.0 * word.len() as f64;
    }
    if diagram.arrows.iter().any(|arrow| arrow.path == PathKind::Critical) {
        let _ = write!(
            page,
            "<path class=\"dependency critical\" d=\"M{x:.0} {:.0}h18\"/>\
             <text class=\"note\" x=\"{:.0}\" y=\"{y:.0}\">longest path left</text>",
            y - 4.0,
            x + 24.0
        );
    }
    page + "</g>\n"
}

/// Plain properties: programs other than browsers do not know variables.
const STYLE: &str = "<style>
svg{font:12px system-ui,sans-serif}text{fill:#1d2129}.page{fill:#fff}.goal{font-size:15px;font-weight:600}
.note,.dormant text{fill:#5c6470}.name{font-weight:600}.text{font-size:11.5px}.mark{font-weight:600}
path{fill:none;stroke:#9aa2ae;stroke-width:1.3}.tip{fill:#9aa2ae;stroke:none}
.child{stroke-dasharray:5 3}.choice{stroke-dasharray:2 3}
.critical{stroke:#c77700;stroke-width:2.4}.tip.critical{fill:#c77700;stroke:none}
.box rect{stroke-width:1.3}.dormant rect{stroke-dasharray:4 3}
.failed .name,.failed .text{text-decoration:line-through}
.resolved rect{fill:#dcf3e1;stroke:#2f8f4e}.resolved .mark{fill:#2f8f4e}
.claimed rect{fill:#fbf1cf;stroke:#a67c00}.claimed .mark{fill:#a67c00}
.running rect{fill:#d9ecfb;stroke:#1f78b4}.running .mark{fill:#1f78b4}
.ready rect{fill:#fff;stroke:#3b4252}.ready .mark{fill:#3b4252}
.pending rect{fill:#fff;stroke:#9aa2ae}.pending .mark{fill:#9aa2ae}
.dormant rect{fill:#f4f5f7;stroke:#b9bfc9}.dormant .mark{fill:#b9bfc9}
.failed rect{fill:#fbe3e1;stroke:#c0392b}.failed .mark{fill:#c0392b}
@media(prefers-color-scheme:dark){
text{fill:#e6e9ee}.page{fill:#15181d}.note,.dormant text{fill:#9aa4b2}
path{stroke:#5c6573}.tip{fill:#5c6573}.critical{stroke:#f0a030}.tip.critical{fill:#f0a030}
.resolved rect{fill:#173724;stroke:#55c47a}.resolved .mark{fill:#55c47a}
.claimed rect{fill:#3a300f;stroke:#d9ad2b}.claimed .mark{fill:#d9ad2b}
.running rect{fill:#12324a;stroke:#58b0ec}.running .mark{fill:#58b0ec}
.ready rect{fill:#1d2129;stroke:#c3cad5}.ready .mark{fill:#c3cad5}
.pending rect{fill:#1d2129;stroke:#6b7482}.pending .mark{fill:#6b7482}
.dormant rect{fill:#191c22;stroke:#4a515d}.dormant .mark{fill:#4a515d}
.failed rect{fill:#43201d;stroke:#ec7063}.failed .mark{fill:#ec7063}
}
</style>
";

#[cfg(test)]
mod tests {
    use aot_core::view::DisplayStatus;

    use super::*;

    #[test]
    fn every_status_has_a_style() {
        for status in [
            DisplayStatus::Resolved,
            DisplayStatus::Claimed,
            DisplayStatus::Running,
            DisplayStatus::Ready,
            DisplayStatus::Pending,
            DisplayStatus::Dormant,
            DisplayStatus::Failed,
        ] {
            assert_eq!(STYLE.matches(&format!(".{} rect{{fill", word(status))).count(), 2, "light and dark");
        }
    }
}
