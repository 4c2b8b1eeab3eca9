//! How a cost grows, drawn as an SVG with logarithmic axes. Measures nothing.

use std::fmt::Write;

use super::table::number;

/// One or more lines over the same axis.
#[derive(Clone, Debug)]
pub struct Curve {
    /// The name of the file, without its end.
    pub name: &'static str,
    pub title: String,
    pub x: &'static str,
    pub y: &'static str,
    pub lines: Vec<(String, Vec<(f64, f64)>)>,
}

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 360.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 150.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 48.0;

/// Told apart by people who do not see red and green alike.
const COLOURS: [&str; 6] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"];

impl Curve {
    pub fn svg(&self) -> String {
        let points =
            || self.lines.iter().flat_map(|(_, points)| points).filter(|(x, y)| *x > 0.0 && *y > 0.0);
        let (left, right) = decades(points().map(|point| point.0));
        let (low, high) = decades(points().map(|point| point.1));
        let x = |value: f64| LEFT + (value.log10() - left) / (right - left) * (WIDTH - LEFT - RIGHT);
        let y = |value: f64| HEIGHT - BOTTOM - (value.log10() - low) / (high - low) * (HEIGHT - TOP - BOTTOM);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" \
             font-size=\"12\" role=\"img\">\n<title>{0}</title>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
             <text x=\"{LEFT}\" y=\"22\" font-size=\"14\" font-weight=\"bold\">{0}</text>\n",
            escaped(&self.title)
        );
        let mut tick = |x1: f64, y1: f64, x2: f64, y2: f64| {
            let _ = writeln!(svg, "<path d=\"M{x1:.1} {y1:.1}L{x2:.1} {y2:.1}\" stroke=\"#ddd\"/>");
        };
        for decade in left as i32..=right as i32 {
            let at = x(10f64.powi(decade));
            tick(at, TOP, at, HEIGHT - BOTTOM);
        }
        for decade in low as i32..=high as i32 {
            let at = y(10f64.powi(decade));
            tick(LEFT, at, WIDTH - RIGHT, at);
        }
        let mut text = |x: f64, y: f64, anchor: &str, colour: &str, words: &str| {
            let words = escaped(words);
            let _ = writeln!(
                svg,
                "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" fill=\"{colour}\">{words}</text>"
            );
        };
        for decade in left as i32..=right as i32 {
            let value = 10f64.powi(decade);
            text(x(value), HEIGHT - BOTTOM + 16.0, "middle", "#555", &plain(value));
        }
        for decade in low as i32..=high as i32 {
            let value = 10f64.powi(decade);
            text(LEFT - 6.0, y(value) + 4.0, "end", "#555", &plain(value));
        }
        text((LEFT + WIDTH - RIGHT) / 2.0, HEIGHT - 12.0, "middle", "#222", self.x);
        text(LEFT - 6.0, TOP - 6.0, "end", "#222", self.y);
        // Names stand at the ends of their lines, one below the other where these meet.
        let mut ends: Vec<(f64, usize)> = Vec::new();
        for (index, (_, points)) in self.lines.iter().enumerate() {
            ends.extend(points.last().map(|last| (y(last.1), index)));
        }
        ends.sort_by(|one, other| one.0.total_cmp(&other.0));
        let mut below = f64::MIN;
        for (at, index) in ends {
            below = f64::max(at + 4.0, below + 14.0);
            text(WIDTH - RIGHT + 8.0, below, "start", COLOURS[index % COLOURS.len()], &self.lines[index].0);
        }
        for (index, (_, points)) in self.lines.iter().enumerate() {
            let colour = COLOURS[index % COLOURS.len()];
            let path: Vec<String> =
                points.iter().map(|point| format!("{:.1} {:.1}", x(point.0), y(point.1))).collect();
            let path = path.join("L");
            let _ =
                writeln!(svg, "<path d=\"M{path}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>");
            for point in points {
                let (cx, cy) = (x(point.0), y(point.1));
                let _ = writeln!(svg, "<circle cx=\"{cx:.1}\" cy=\"{cy:.1}\" r=\"3\" fill=\"{colour}\"/>");
            }
        }
        svg + "</svg>\n"
    }
}

/// The whole powers of ten around all values.
fn decades(values: impl Iterator<Item = f64> + Clone) -> (f64, f64) {
    let least = values.clone().fold(f64::MAX, f64::min).log10().floor();
    let most = values.fold(f64::MIN_POSITIVE, f64::max).log10().ceil();
    if most > least { (least, most) } else { (least, least + 1.0) }
}

fn plain(value: f64) -> String {
    match value {
        value if value >= 1e6 => format!("{} M", number(value / 1e6).trim_end_matches(".00")),
        value if value >= 1e3 => format!("{:.0} 000", value / 1e3),
        value if value >= 1.0 => format!("{value:.0}"),
        _ => format!("{value}"),
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}
