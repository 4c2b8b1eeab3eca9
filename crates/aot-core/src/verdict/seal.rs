//! What was agreed at the alignment and must stay as it was: the base case and the protected files (D21). Reads no file
//! and makes no hash: both fingerprints are arguments.

use crate::state::{Checks, Fingerprint};

/// What was changed outside `align` and `redirect`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tampered {
    BaseCase,
    Protected,
}

/// The base case as one text: the same for whatever is written differently and means the same. What it is the
/// fingerprint of.
pub fn canonical(base_case: Option<&Checks>) -> String {
    serde_json::to_string(&base_case).expect("checks are plain data")
}

/// Compares what was agreed with what is there now.
#[must_use]
pub fn tampered(agreed: &Fingerprint, now: &Fingerprint) -> Vec<Tampered> {
    let base_case = (agreed.base_case != now.base_case).then_some(Tampered::BaseCase);
    let protected = (agreed.protected != now.protected).then_some(Tampered::Protected);
    base_case.into_iter().chain(protected).collect()
}
