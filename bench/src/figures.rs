//! What was measured: medians with their spread, as a table and as JSON.

use std::fmt::Write as _;

use serde::Serialize;

/// Figures of one thing, taken in several rounds.
#[derive(Clone, Debug, Default)]
pub struct Samples(Vec<f64>);

/// The median of some figures, the least and the most.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Spread {
    /// Half of the figures are below.
    pub median: f64,
    /// The least of them.
    pub least: f64,
    /// The most.
    pub most: f64,
}

impl Samples {
    /// Adds one.
    pub fn push(&mut self, figure: f64) {
        self.0.push(figure);
    }

    /// None without a figure.
    pub fn spread(&self) -> Option<Spread> {
        let mut figures = self.0.clone();
        figures.sort_unstable_by(f64::total_cmp);
        Some(Spread {
            median: *figures.get(figures.len() / 2)?,
            least: *figures.first()?,
            most: *figures.last()?,
        })
    }
}

/// What a row's figures count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// More is better.
    JobsPerSecond,
    /// Less is better.
    Milliseconds,
    /// Less is better.
    Seconds,
    /// Less is better.
    Bytes,
}

impl Unit {
    fn text(self) -> &'static str {
        match self {
            Self::JobsPerSecond => "jobs/s",
            Self::Milliseconds => "ms",
            Self::Seconds => "s",
            Self::Bytes => "bytes",
        }
    }

    fn show(self, figure: f64) -> String {
        match self {
            Self::JobsPerSecond => thousands(figure),
            Self::Milliseconds | Self::Seconds => format!("{figure:.2}"),
            Self::Bytes => format!("{figure:.0}"),
        }
    }

    /// What share of the limit a figure reaches, in percent.
    fn share(self, ours: f64, limit: f64) -> f64 {
        match self {
            Self::JobsPerSecond => 100.0 * ours / limit,
            Self::Milliseconds | Self::Seconds | Self::Bytes => 100.0 * limit / ours,
        }
    }
}

/// Which of a row's three columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    /// mq, through its public interface.
    Ours,
    /// The least that a queue could do.
    Limit,
    /// The bytes that mq sent, without mq.
    Replay,
}

struct Row {
    label: String,
    unit: Unit,
    ours: Samples,
    limit: Samples,
    replay: Samples,
}

/// Rows in the order of their first figure.
#[derive(Default)]
pub struct Table(Vec<Row>);

#[derive(Serialize)]
struct RowReport<'a> {
    row: &'a str,
    unit: Unit,
    ours: Option<Spread>,
    limit: Option<Spread>,
    replay: Option<Spread>,
}

impl Table {
    /// Adds a figure to a column of the row of this label.
    pub fn add(&mut self, label: &str, unit: Unit, column: Column, figure: f64) {
        let place = self.0.iter().position(|row| row.label == label);
        let place = place.unwrap_or_else(|| {
            self.0.push(Row {
                label: label.to_owned(),
                unit,
                ours: Samples::default(),
                limit: Samples::default(),
                replay: Samples::default(),
            });
            self.0.len() - 1
        });
        let row = &mut self.0[place];
        let samples = match column {
            Column::Ours => &mut row.ours,
            Column::Limit => &mut row.limit,
            Column::Replay => &mut row.replay,
        };
        samples.push(figure);
    }

    /// A table in Markdown: median (least to most), and the shares of limit and
    /// replay that ours reaches.
    pub fn markdown(&self) -> String {
        let mut text = String::from(
            "| row | unit | mq | limit | of the limit | replay | of the replay |\n\
             | --- | --- | --- | --- | --- | --- | --- |\n",
        );
        for row in &self.0 {
            let ours = row.ours.spread();
            let cell = |samples: &Samples| match samples.spread() {
                Some(spread) => show(row.unit, spread),
                None => String::new(),
            };
            let share = |samples: &Samples| match (ours, samples.spread()) {
                (Some(ours), Some(other)) => {
                    format!("{:.0} %", row.unit.share(ours.median, other.median))
                }
                _ => String::new(),
            };
            writeln!(
                text,
                "| {} | {} | {} | {} | {} | {} | {} |",
                row.label,
                row.unit.text(),
                cell(&row.ours),
                cell(&row.limit),
                share(&row.limit),
                cell(&row.replay),
                share(&row.replay)
            )
            .expect("a string takes all");
        }
        text
    }

    /// An array of rows: `row`, `unit`, and for `ours`, `limit` and `replay` the
    /// `median`, `least` and `most`, or null.
    ///
    /// # Errors
    /// None in practice: figures are numbers.
    pub fn json(&self) -> serde_json::Result<String> {
        let rows: Vec<RowReport<'_>> = self
            .0
            .iter()
            .map(|row| RowReport {
                row: &row.label,
                unit: row.unit,
                ours: row.ours.spread(),
                limit: row.limit.spread(),
                replay: row.replay.spread(),
            })
            .collect();
        serde_json::to_string_pretty(&rows)
    }
}

/// How the cost of one thing grows with what else the store holds.
pub struct Growth {
    steps: Vec<usize>,
    curves: Vec<(String, Vec<Samples>)>,
}

#[derive(Serialize)]
struct CurveReport<'a> {
    curve: &'a str,
    held: &'a [usize],
    microseconds: Vec<Option<Spread>>,
}

impl Growth {
    /// Curves over so many jobs held.
    pub fn new(steps: &[usize]) -> Self {
        Self {
            steps: steps.to_vec(),
            curves: Vec::new(),
        }
    }

    /// Adds the next step's figures to the curve of this label.
    pub fn add(&mut self, label: &str, figures: Samples) {
        match self.curves.iter_mut().find(|(known, _)| known == label) {
            Some((_, curve)) => curve.push(figures),
            None => self.curves.push((label.to_owned(), vec![figures])),
        }
    }

    /// A table in Markdown: a row for each curve, a column for each step, and how
    /// many times the first step's cost the last one's is.
    pub fn markdown(&self) -> String {
        let mut text = String::from("| µs a job |");
        for step in &self.steps {
            write!(text, " {} |", thousands(*step as f64)).expect("a string takes all");
        }
        text.push_str(" last to first |\n| --- |");
        text.push_str(&" --- |".repeat(self.steps.len() + 1));
        for (label, curve) in &self.curves {
            let spreads: Vec<Spread> = curve.iter().filter_map(Samples::spread).collect();
            write!(text, "\n| {label} |").expect("a string takes all");
            for spread in &spreads {
                write!(
                    text,
                    " {:.1} ({:.1} to {:.1}) |",
                    spread.median, spread.least, spread.most
                )
                .expect("a string takes all");
            }
            if let [first, .., last] = spreads[..] {
                write!(text, " {:.2} |", last.median / first.median).expect("a string takes all");
            }
        }
        text.push('\n');
        text
    }

    /// An array of curves: `curve`, `held` and, for each step, the `median`,
    /// `least` and `most` of the `microseconds` a job.
    ///
    /// # Errors
    /// None in practice: figures are numbers.
    pub fn json(&self) -> serde_json::Result<String> {
        let curves: Vec<CurveReport<'_>> = self
            .curves
            .iter()
            .map(|(label, curve)| CurveReport {
                curve: label,
                held: &self.steps,
                microseconds: curve.iter().map(Samples::spread).collect(),
            })
            .collect();
        serde_json::to_string_pretty(&curves)
    }
}

fn show(unit: Unit, spread: Spread) -> String {
    if spread.least == spread.most {
        return unit.show(spread.median);
    }
    format!(
        "{} ({} to {})",
        unit.show(spread.median),
        unit.show(spread.least),
        unit.show(spread.most)
    )
}

fn thousands(figure: f64) -> String {
    let digits = format!("{figure:.0}");
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_shows_medians_their_spread_and_its_share_of_the_limit() {
        let mut table = Table::default();
        for figure in [3_000.0, 1_000.0, 2_000.0] {
            table.add("drain", Unit::JobsPerSecond, Column::Ours, figure);
        }
        table.add("drain", Unit::JobsPerSecond, Column::Limit, 4_000.0);
        let text = table.markdown();
        let row = text.lines().nth(2).expect("it has a row");
        assert_eq!(
            row,
            "| drain | jobs/s | 2,000 (1,000 to 3,000) | 4,000 | 50 % |  |  |"
        );
    }

    #[test]
    fn of_times_the_shorter_one_is_the_larger_share() {
        let mut table = Table::default();
        table.add("latency", Unit::Milliseconds, Column::Ours, 2.0);
        table.add("latency", Unit::Milliseconds, Column::Limit, 0.5);
        assert!(table.markdown().contains("| 25 % |"));
    }
}
