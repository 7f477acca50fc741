//! Draws the cost by table size, with a panel for each operation and a curve for each layout.
//!
//! The drawing is an SVG image. Its colours are visible on light and dark backgrounds and follow the viewer's colour
//! scheme. Curves also differ in their marks and dashes, so they can be distinguished without colours.

use super::table::{Layout, Point, Reach};
use crate::generator::workload::Workload;
use crate::report::as_f64;
use std::fmt::Write;

const PANELS: [(Workload, &str); 4] = [
    (Workload::Get, "CPU µs per operation"),
    (Workload::QueryPage, "CPU µs per entity"),
    (Workload::Upsert, "CPU µs per operation"),
    (Workload::Insert, "CPU µs per operation"),
];

const PANEL_WIDTH: f64 = 460.0;
const PANEL_HEIGHT: f64 = 290.0;
const LEFT: f64 = 62.0;
const RIGHT: f64 = 18.0;
const TOP: f64 = 34.0;
const BOTTOM: f64 = 48.0;
const LEGEND_HEIGHT: f64 = 62.0;
const TICKS: f64 = 5.0;

struct Curve {
    class: &'static str,
    points: Vec<(f64, f64)>,
}

#[derive(Debug, Clone, Copy)]
struct Area {
    left: f64,
    top: f64,
    /// The range in powers of ten.
    decades: (f64, f64),
    y_max: f64,
}

impl Area {
    fn x(self, entities: f64) -> f64 {
        let (first, last) = self.decades;
        self.left + LEFT + (entities.log10() - first) / (last - first) * (PANEL_WIDTH - LEFT - RIGHT)
    }

    fn y(self, cost: f64) -> f64 {
        self.top + PANEL_HEIGHT - BOTTOM - cost / self.y_max * (PANEL_HEIGHT - TOP - BOTTOM)
    }
}

pub(super) fn draw(points: &[Point]) -> String {
    let (width, height) = (2.0 * PANEL_WIDTH, 2.0 * PANEL_HEIGHT + LEGEND_HEIGHT);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
         role=\"img\">\n<title>Processor time by table size</title>\n<style>{STYLE}</style>\n"
    );
    for ((workload, unit), index) in PANELS.into_iter().zip(0_u8..) {
        let (left, top) = (f64::from(index % 2) * PANEL_WIDTH, f64::from(index / 2) * PANEL_HEIGHT);
        panel(&mut out, points, (workload, unit), (left, top));
    }
    legend(&mut out);
    out.push_str("</svg>\n");
    out
}

fn panel(out: &mut String, points: &[Point], (workload, unit): (Workload, &str), (left, top): (f64, f64)) {
    let curves = curves(points, workload);
    let all = || curves.iter().flat_map(|curve| curve.points.iter().copied());
    let bound = |from: f64, better: fn(f64, f64) -> f64| all().map(|(x, _)| x.log10()).fold(from, better);
    let first = bound(f64::INFINITY, f64::min).floor();
    let last = bound(f64::NEG_INFINITY, f64::max).ceil();
    if !first.is_finite() || !last.is_finite() {
        return;
    }
    let step = step(all().map(|(_, y)| y).fold(0.0, f64::max));
    let highest = all().map(|(_, y)| y).fold(0.0, f64::max);
    let area =
        Area { left, top, decades: (first, last.max(first + 1.0)), y_max: step * (highest / step).ceil().max(1.0) };
    axes(out, area, step, (&workload.name(), unit));
    for curve in &curves {
        write_curve(out, area, curve);
    }
}

fn axes(out: &mut String, area: Area, step: f64, (title, unit): (&str, &str)) {
    let (left, right) = (area.left + LEFT, area.left + PANEL_WIDTH - RIGHT);
    let (top, bottom) = (area.y(area.y_max), area.y(0.0));
    text(out, "h", "start", (left, area.top + 20.0), title);
    let mut value = 0.0;
    while value <= area.y_max + step / 2.0 {
        let y = area.y(value);
        line(out, "grid", (left, y), (right, y));
        text(out, "t", "end", (left - 6.0, y + 4.0), &number(value, step));
        value += step;
    }
    let mut decade = area.decades.0;
    while decade <= area.decades.1 {
        let x = area.x(10_f64.powf(decade));
        line(out, "grid", (x, top), (x, bottom));
        text(out, "t", "middle", (x, bottom + 16.0), &size(decade));
        decade += 1.0;
    }
    line(out, "axis", (left, bottom), (right, bottom));
    line(out, "axis", (left, bottom), (left, top));
    text(out, "t", "middle", (f64::midpoint(left, right), bottom + 34.0), "entities in the table");
    let (x, y) = (area.left + 16.0, f64::midpoint(top, bottom));
    let _infallible = writeln!(
        out,
        "<text class=\"t\" text-anchor=\"middle\" transform=\"translate({x:.1} {y:.1}) rotate(-90)\">{unit}</text>"
    );
}

fn curves(points: &[Point], workload: Workload) -> Vec<Curve> {
    let select = |layout: Layout, reach: Reach, cost: fn(&Point) -> f64| -> Vec<(f64, f64)> {
        let of_line = |point: &&Point| (point.layout, point.workload, point.reach) == (layout, workload, reach);
        points.iter().filter(of_line).map(|point| (as_f64(point.entities), cost(point))).collect()
    };
    let own: fn(&Point) -> f64 = |point| point.cpu_us;
    let curves = [
        (0, select(Layout::Many, Reach::Cached, |point| point.reference_cpu_us)),
        (1, select(Layout::Many, Reach::Cached, own)),
        (2, select(Layout::One, Reach::Cached, own)),
        (3, select(Layout::Many, Reach::All, own)),
        (4, select(Layout::One, Reach::All, own)),
    ];
    let is_there = |(_, points): &(usize, Vec<(f64, f64)>)| !points.is_empty();
    let look = |(look, points): (usize, Vec<_>)| LOOKS.get(look).map(|(class, _)| Curve { class, points });
    curves.into_iter().filter(is_there).filter_map(look).collect()
}

const LOOKS: [(&str, &str); 5] = [
    ("c0", "reference: a server that stores nothing"),
    ("c1", "1,000 per partition, written or read from the cache"),
    ("c2", "one partition, written or read from the cache"),
    ("c3", "1,000 per partition, all entities read"),
    ("c4", "one partition, all entities read"),
];

const STYLE: &str = "\
text{font:12px sans-serif;fill:#6b7280}.h{font-weight:bold;font-size:14px}\
.grid{stroke:#9ca3af;stroke-opacity:.25}.axis{stroke:#6b7280}\
.c0,.c1,.c2,.c3,.c4{fill:none;stroke-width:2}\
.c0{stroke:#8b8b8b;stroke-dasharray:2 4}.c1{stroke:#2f7fd1}.c2{stroke:#d97706}\
.c3{stroke:#2f7fd1;stroke-dasharray:7 4}.c4{stroke:#d97706;stroke-dasharray:7 4}\
circle.c3,rect.c4{stroke-dasharray:none}\
@media(prefers-color-scheme:dark){text{fill:#c9d1d9}.axis{stroke:#c9d1d9}}\
@media(prefers-color-scheme:light){text{fill:#24292f}.axis{stroke:#24292f}}";

fn write_curve(out: &mut String, area: Area, curve: &Curve) {
    let position = |(x, y): &(f64, f64)| (area.x(*x), area.y(*y));
    let path: Vec<_> = curve.points.iter().map(position).map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    let class = curve.class;
    let _infallible = writeln!(out, "<polyline class=\"{class}\" points=\"{}\"/>", path.join(" "));
    for (x, y) in curve.points.iter().map(position) {
        mark(out, class, (x, y));
    }
}

/// Draws a dot or a square for a layout, and nothing for the reference.
fn mark(out: &mut String, class: &str, (x, y): (f64, f64)) {
    let _infallible = match class {
        "c1" | "c3" => writeln!(out, "<circle class=\"{class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\"/>"),
        "c2" | "c4" => {
            let (left, top) = (x - 3.5, y - 3.5);
            writeln!(out, "<rect class=\"{class}\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"7\" height=\"7\"/>")
        }
        _ => Ok(()),
    };
}

fn legend(out: &mut String) {
    for ((class, name), index) in LOOKS.into_iter().zip(0_u8..) {
        let x = 24.0 + f64::from(index % 2) * PANEL_WIDTH;
        let y = 2.0 * PANEL_HEIGHT + 12.0 + f64::from(index / 2) * 18.0;
        line(out, class, (x, y), (x + 36.0, y));
        mark(out, class, (x + 18.0, y));
        text(out, "t", "start", (x + 44.0, y + 4.0), name);
    }
}

fn line(out: &mut String, class: &str, (x1, y1): (f64, f64), (x2, y2): (f64, f64)) {
    let _infallible =
        writeln!(out, "<line class=\"{class}\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>");
}

/// The text must not need XML escapes.
fn text(out: &mut String, class: &str, anchor: &str, (x, y): (f64, f64), text: &str) {
    let _infallible =
        writeln!(out, "<text class=\"{class}\" text-anchor=\"{anchor}\" x=\"{x:.1}\" y=\"{y:.1}\">{text}</text>");
}

/// Returns 1, 2 or 5 times a power of ten.
fn step(highest: f64) -> f64 {
    let rough = if highest > 0.0 { highest / TICKS } else { 1.0 };
    let power = 10_f64.powf(rough.log10().floor());
    let times = [1.0, 2.0, 5.0].into_iter().find(|times| times * power >= rough * 0.999).unwrap_or(10.0);
    times * power
}

/// The distance between the lines determines the number of digits.
fn number(value: f64, step: f64) -> String {
    if step >= 1.0 {
        format!("{value:.0}")
    } else if step >= 0.1 {
        format!("{value:.1}")
    } else {
        format!("{value:.2}")
    }
}

/// Formats a size such as "10 k".
fn size(decade: f64) -> String {
    if decade >= 6.0 {
        format!("{:.0} M", 10_f64.powf(decade - 6.0))
    } else if decade >= 3.0 {
        format!("{:.0} k", 10_f64.powf(decade - 3.0))
    } else {
        format!("{:.0}", 10_f64.powf(decade))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quick_xml::Reader;
    use quick_xml::events::Event;

    /// The name and the attributes of an element.
    type Element = (String, Vec<(String, String)>);

    fn point(layout: Layout, workload: Workload, reach: Reach, entities: u64, cpu_us: f64) -> Point {
        Point {
            layout,
            workload,
            reach,
            entities,
            cpu_us,
            reference_cpu_us: 5.0,
            operations_per_second: 1.0,
            p50_us: 1.0,
            p999_us: 1.0,
            max_us: 1.0,
            errors: 0,
        }
    }

    /// Returns the elements and the texts. Panics if the document is malformed.
    fn read(document: &str) -> (Vec<Element>, Vec<String>) {
        let mut reader = Reader::from_str(document);
        reader.config_mut().check_end_names = true;
        let (mut elements, mut texts, mut depth) = (Vec::new(), Vec::new(), 0);
        loop {
            let event = reader.read_event().unwrap();
            let element = match &event {
                Event::Eof => break,
                Event::Start(element) => {
                    depth += 1;
                    element
                }
                Event::Empty(element) => element,
                Event::End(_) => {
                    depth -= 1;
                    continue;
                }
                Event::Text(text) => {
                    texts.push(text.to_string());
                    continue;
                }
                _ => continue,
            };
            let attributes = element.attributes().map(|attribute| {
                let attribute = attribute.unwrap();
                (attribute.key.as_ref().to_owned(), attribute.value.to_string())
            });
            elements.push((element.name().as_ref().to_owned(), attributes.collect()));
        }
        assert_eq!(depth, 0, "every element is closed");
        (elements, texts)
    }

    #[test]
    fn points_are_at_the_positions_of_their_figures() {
        let points = [
            point(Layout::Many, Workload::Get, Reach::Cached, 10_000, 10.0),
            point(Layout::Many, Workload::Get, Reach::Cached, 100_000, 15.0),
            point(Layout::Many, Workload::Get, Reach::Cached, 1_000_000, 20.0),
        ];
        let (elements, texts) = read(&draw(&points));
        let number = |attributes: &[(String, String)], name: &str| -> f64 {
            attributes.iter().find(|(key, _)| key == name).unwrap().1.parse().unwrap()
        };
        let circles: Vec<_> = elements
            .iter()
            .filter(|(name, _)| name == "circle")
            .map(|(_, attributes)| (number(attributes, "cx"), number(attributes, "cy")))
            .filter(|(_, y)| *y < 2.0 * PANEL_HEIGHT)
            .collect();
        // The axes of the first panel range from 10 k to 1 M and from 0 to 20.
        let (left, right) = (LEFT, PANEL_WIDTH - RIGHT);
        let (bottom, top) = (PANEL_HEIGHT - BOTTOM, TOP);
        let expected = [
            (left, f64::midpoint(bottom, top)),
            (f64::midpoint(left, right), bottom - (bottom - top) * 0.75),
            (right, top),
        ];
        assert_eq!(circles.len(), expected.len());
        for (circle, expected) in circles.iter().zip(expected) {
            assert!(
                (circle.0 - expected.0).abs() < 0.1 && (circle.1 - expected.1).abs() < 0.1,
                "{circle:?} {expected:?}"
            );
        }
        for label in ["get", "10 k", "100 k", "1 M", "entities in the table", "CPU µs per operation", "0", "5", "20"] {
            assert!(texts.iter().any(|text| text == label), "{label} in {texts:?}");
        }
        assert!(!texts.iter().any(|text| text == "insert"), "an operation without points has no panel");
    }

    #[test]
    fn every_panel_stays_inside_and_names_its_curves() {
        let mut points = Vec::new();
        for (workload, _) in PANELS {
            for layout in [Layout::Many, Layout::One] {
                for (reach, cost) in [(Reach::Cached, 0.37), (Reach::All, 1234.5)] {
                    points.push(point(layout, workload, reach, 1000, cost));
                    points.push(point(layout, workload, reach, 30_000_000, cost * 1.5));
                }
            }
        }
        let (elements, texts) = read(&draw(&points));
        let (width, height) = (2.0 * PANEL_WIDTH, 2.0 * PANEL_HEIGHT + LEGEND_HEIGHT);
        let polylines: Vec<_> = elements.iter().filter(|(name, _)| name == "polyline").collect();
        assert_eq!(polylines.len(), PANELS.len() * LOOKS.len());
        for (_, attributes) in polylines {
            let path = &attributes.iter().find(|(key, _)| key == "points").unwrap().1;
            for place in path.split(' ') {
                let (x, y) = place.split_once(',').unwrap();
                let (x, y): (f64, f64) = (x.parse().unwrap(), y.parse().unwrap());
                assert!((0.0..=width).contains(&x) && (0.0..=height).contains(&y), "{place}");
            }
        }
        for (_, name) in LOOKS {
            assert!(texts.iter().any(|text| text == name), "{name}");
        }
        assert!(texts.iter().any(|text| text == "100 M"), "the axis ends at a power of ten");
    }

    #[test]
    fn lines_across_are_at_round_numbers() {
        for (highest, expected) in [(20.0, 5.0), (10.0, 2.0), (1.7, 0.5), (0.37, 0.1), (1234.0, 500.0), (0.0, 1.0)] {
            assert!((step(highest) - expected).abs() < 1e-9, "{highest}: {}", step(highest));
        }
    }

    #[test]
    fn without_points_the_drawing_is_empty() {
        let (elements, _) = read(&draw(&[]));
        assert!(elements.iter().all(|(name, _)| name != "polyline"));
    }
}
