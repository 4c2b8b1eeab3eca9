//! The scores of a judge, and what they come to: the average by weight, against the threshold (D19). Asks no judge.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::state::{Criterion, Quality};

pub const LOWEST_SCORE: u8 = 1;
pub const HIGHEST_SCORE: u8 = 5;

/// An average this little below the threshold is at the threshold: weights such as 0.1 have no exact float.
pub const SCORE_TOLERANCE: f64 = 1e-9;

// The comments on the fields are what the judge reads; one on the type would become part of the schema.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Score {
    /// The criterion, by its name above.
    pub criterion: String,
    /// 1 is worst, 5 is best.
    #[schemars(extend("enum" = [1, 2, 3, 4, 5]))]
    pub score: u8,
    /// Why this score and not one higher.
    pub reason: String,
    /// What shows it: at least one place, as path:line and what stands there.
    pub evidence: Vec<String>,
}

/// What the scores come to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scored {
    pub average: f64,
    pub passes: bool,
}

/// The average by normalised weights, compared with the threshold. Weights that are no weights (negative, not finite)
/// count nothing; if none counts, all count the same. A criterion without a score has the lowest.
pub fn score(quality: &Quality, scores: &[Score]) -> Scored {
    let weights = weights(quality);
    let given = scores.iter().map(|score| f64::from(score.score.clamp(LOWEST_SCORE, HIGHEST_SCORE)));
    let given = given.chain(std::iter::repeat(f64::from(LOWEST_SCORE)));
    let sum: f64 = weights.iter().sum();
    let average = weights.iter().zip(given).map(|(weight, score)| weight * score).sum::<f64>() / sum;
    Scored { average, passes: average >= quality.pass_threshold - SCORE_TOLERANCE }
}

/// Relative to the largest, so that no sum overflows or vanishes.
fn weights(quality: &Quality) -> Vec<f64> {
    let weight = |criterion: Option<&Criterion>| criterion.map_or(1.0, |criterion| criterion.weight);
    let usable = |weight: f64| if weight.is_finite() { weight.max(0.0) } else { 0.0 };
    let weights: Vec<f64> = criteria(quality).into_iter().map(weight).map(usable).collect();
    let largest = weights.iter().copied().fold(0.0, f64::max);
    let relative = |weight: f64| if largest > 0.0 { weight / largest } else { 1.0 };
    weights.into_iter().map(relative).collect()
}

/// The rubric; plain criteria are one criterion of their own.
pub fn criteria(quality: &Quality) -> Vec<Option<&Criterion>> {
    if quality.rubric.is_empty() { vec![None] } else { quality.rubric.iter().map(Some).collect() }
}
