//! The changes of a redirect, from the flags of a command line. Knows how they are written, and not whether they are
//! allowed.

use aot_core::contract;
use aot_core::rules::redirect::CorrectionRequest;
use aot_core::state::{AtomId, GroupName, Limit, NewAtom, State};
use aot_runner::checks::seal::Seal;
use aot_runner::store::Unreadable;
use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::commands::limits::LimitArgs;
use crate::commands::{align, arguments};
use crate::failure::Failure;

/// The flags that change something.
pub const FLAGS: [&str; 17] = [
    "goal",
    "base_case",
    "intent",
    "deliverables",
    "done",
    "add",
    "remove",
    "select",
    "add_choice",
    "depends",
    "rebind",
    "redo",
    "protect",
    "unprotect",
    "share",
    "copy",
    "accept",
];

#[derive(Clone, Debug, Default, Args, Deserialize, JsonSchema)]
pub struct ChangeArgs {
    /// The new goal
    #[arg(long, value_name = "TEXT")]
    goal: Option<String>,
    /// The new checks, from a YAML file; `-` for standard input
    #[arg(long, value_name = "FILE")]
    #[serde(default, deserialize_with = "checks")]
    #[schemars(schema_with = "arguments::checks_schema")]
    base_case: Option<ChecksSource>,
    /// Why it is wanted
    #[arg(long, value_name = "TEXT")]
    intent: Option<String>,
    /// What should exist when it's done
    #[arg(long, value_name = "TEXT")]
    deliverables: Option<String>,
    /// When it is done, in words
    #[arg(long, value_name = "TEXT")]
    done: Option<String>,
    /// A new atom: "what to do <- A1,A2", or a JSON object with the keys of an atom
    #[arg(long, value_name = "DESCRIPTION")]
    #[serde(default, deserialize_with = "arguments::atom_words")]
    #[schemars(with = "Vec<arguments::AtomObject>")]
    add: Vec<String>,
    /// Remove a pending atom
    #[arg(long, value_name = "ATOM")]
    #[serde(default)]
    remove: Vec<String>,
    /// Select this alternative of an OR group
    #[arg(long, value_name = "GROUP=ATOM")]
    #[serde(default, deserialize_with = "arguments::selections")]
    #[schemars(with = "Vec<arguments::Selection>")]
    select: Vec<String>,
    /// Add an alternative to an OR group, tried last
    #[arg(long, num_args = 2, allow_hyphen_values = true, value_names = ["GROUP", "DESCRIPTION"])]
    #[serde(default, deserialize_with = "arguments::new_choices")]
    #[schemars(with = "Vec<arguments::NewChoice>")]
    add_choice: Vec<String>,
    /// Everything an atom depends on from now on: "A5 <- A1,A2"
    #[arg(long, value_name = "ATOM <- ATOMS")]
    #[serde(default, deserialize_with = "arguments::dependencies")]
    #[schemars(with = "Vec<arguments::Dependencies>")]
    depends: Vec<String>,
    /// Correct the summary of a resolved atom; what depends on it is done again
    #[arg(long, num_args = 2, allow_hyphen_values = true, value_names = ["ATOM", "SUMMARY"])]
    #[serde(default, deserialize_with = "arguments::rebindings")]
    #[schemars(with = "Vec<arguments::Rebinding>")]
    rebind: Vec<String>,
    /// Do an atom again, and what depends on it; TEXT is a hint, and with a hint the atom may still be open
    #[arg(long, value_name = "ATOM")]
    #[serde(default)]
    redo: Vec<String>,
    /// Files that no worker may change from now on
    #[arg(long, value_name = "GLOB")]
    #[serde(default)]
    protect: Vec<String>,
    /// Files that workers may change again
    #[arg(long, value_name = "GLOB")]
    #[serde(default)]
    unprotect: Vec<String>,
    /// A path that every worker's tree links to from now on, read-only in its cage; `none` before it for no others
    #[arg(long, value_name = "PATH")]
    #[serde(default)]
    share: Vec<String>,
    /// A path that every worker's tree has a copy of from now on; `none` before it for no others
    #[arg(long, value_name = "PATH")]
    #[serde(default)]
    copy: Vec<String>,
    /// Accept the checks and the protected files as they are now
    #[arg(long)]
    #[serde(skip)]
    accept: bool,
}

/// Where another base case comes from.
#[derive(Clone, Debug)]
enum ChecksSource {
    File(String),
    Inline(Value),
}

impl From<String> for ChecksSource {
    fn from(file: String) -> ChecksSource {
        ChecksSource::File(file)
    }
}

fn checks<'de, D: Deserializer<'de>>(from: D) -> Result<Option<ChecksSource>, D::Error> {
    Value::deserialize(from).map(|value| Some(ChecksSource::Inline(value)))
}

/// All changes of one redirect. Those that depend on the state are worked out when the redirect is made.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Changes {
    pub corrections: Vec<CorrectionRequest>,
    pub protect: Vec<String>,
    pub unprotect: Vec<String>,
    pub share: Vec<String>,
    pub copy: Vec<String>,
    pub accept: bool,
}

impl Changes {
    pub fn is_empty(&self) -> bool {
        *self == Changes::default()
    }

    pub fn accepts(&self) -> bool {
        self.accept
    }

    pub fn corrections(&self, state: &State, now: &Seal) -> Vec<CorrectionRequest> {
        let mut corrections = self.corrections.clone();
        if !self.protect.is_empty() || !self.unprotect.is_empty() {
            let mut protected = state.objective.protected.clone();
            protected.retain(|glob| !self.unprotect.contains(glob));
            for glob in &self.protect {
                if !protected.contains(glob) {
                    protected.push(glob.clone());
                }
            }
            corrections.push(CorrectionRequest::Protected(protected));
        }
        if !self.share.is_empty() || !self.copy.is_empty() {
            let mut isolation = state.objective.isolation.clone().unwrap_or_default();
            with_paths(&mut isolation.share, &self.share);
            with_paths(&mut isolation.copy, &self.copy);
            corrections.push(CorrectionRequest::Isolation(isolation));
        }
        if self.accept {
            corrections.push(CorrectionRequest::Accept(now.fingerprint()));
        }
        corrections
    }
}

/// Adds paths; `none` takes out those that were there.
fn with_paths(known: &mut Vec<String>, paths: &[String]) {
    for path in paths {
        match path.as_str() {
            align::NO_PATH => known.clear(),
            _ if known.contains(path) => {}
            _ => known.push(path.clone()),
        }
    }
}

pub fn read(args: &ChangeArgs, limits: &LimitArgs, reason: &str) -> Result<Changes, Failure> {
    let mut corrections = Vec::new();
    corrections.extend(args.goal.clone().map(CorrectionRequest::Goal));
    corrections.extend(args.intent.clone().map(CorrectionRequest::BackgroundIntent));
    corrections.extend(args.deliverables.clone().map(CorrectionRequest::Deliverables));
    corrections.extend(args.done.clone().map(CorrectionRequest::DefinitionOfDone));
    if let Some(source) = &args.base_case {
        corrections.push(base_case(source)?);
    }
    corrections.extend(limits.limits()?.into_iter().map(CorrectionRequest::Limit));
    for words in &args.add {
        corrections.push(CorrectionRequest::AddAtom(align::atom("--add", words)?));
    }
    for pair in args.add_choice.chunks_exact(2) {
        corrections.push(add_choice(&pair[0], align::atom("--add-choice", &pair[1])?));
    }
    for given in &args.select {
        corrections.push(select(given, reason)?);
    }
    for given in &args.depends {
        corrections.push(depends(given)?);
    }
    for pair in args.rebind.chunks_exact(2) {
        corrections.push(CorrectionRequest::Rebind {
            atom: AtomId::new(pair[0].trim()),
            summary: pair[1].clone(),
            artifacts: None,
        });
    }
    corrections.extend(args.redo.iter().map(|id| redo(id, reason)));
    corrections.extend(args.remove.iter().map(|id| CorrectionRequest::RemoveAtom(AtomId::new(id.trim()))));
    Ok(Changes {
        corrections,
        protect: args.protect.clone(),
        unprotect: args.unprotect.clone(),
        share: args.share.clone(),
        copy: args.copy.clone(),
        accept: args.accept,
    })
}

pub fn add_choice(group: &str, atom: NewAtom) -> CorrectionRequest {
    CorrectionRequest::AddChoice { group: GroupName::new(group.trim()), atom }
}

pub fn redo(atom: &str, hint: &str) -> CorrectionRequest {
    CorrectionRequest::Redo { atom: AtomId::new(atom.trim()), hint: hint.trim().to_owned() }
}

/// A way to take, as `group=atom`.
pub fn select(given: &str, reason: &str) -> Result<CorrectionRequest, Failure> {
    let Some((group, choice)) = given.split_once('=') else {
        return Err(Failure::input(
            "--select",
            format!("`{given}` has no `=`"),
            "write it like `--select tokens=A4`",
        ));
    };
    Ok(CorrectionRequest::ForceChoice {
        group: GroupName::new(group.trim()),
        choice: AtomId::new(choice.trim()),
        reason: reason.trim().to_owned(),
    })
}

/// What an atom depends on, as `A5 <- A1, A2`; nothing behind the arrow is nothing to wait for.
pub fn depends(given: &str) -> Result<CorrectionRequest, Failure> {
    let Some((atom, needs)) = given.split_once("<-") else {
        return Err(Failure::input(
            "--depends",
            format!("`{given}` has no `<-`"),
            "write it like \"A5 <- A1,A2\"",
        ));
    };
    let needs = needs.split(',').map(str::trim).filter(|id| !id.is_empty());
    Ok(CorrectionRequest::Dependencies {
        atom: AtomId::new(atom.trim()),
        depends_on: needs.map(AtomId::new).collect(),
    })
}

/// A limit, as `max_iterations=30`.
pub fn limit(given: &str) -> Result<CorrectionRequest, Failure> {
    let limit: Limit = crate::commands::limits::assigned(given)?;
    Ok(CorrectionRequest::Limit(limit))
}

fn base_case(source: &ChecksSource) -> Result<CorrectionRequest, Failure> {
    let (path, bytes) = match source {
        ChecksSource::File(from) => arguments::read_file(from, align::FILE_HINT)?,
        ChecksSource::Inline(value) => ("base_case".into(), value.to_string().into_bytes()),
    };
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let checks = contract::bring_checks(bytes);
    checks
        .map(CorrectionRequest::BaseCase)
        .map_err(|findings| align::not_agreed(&Unreadable { path, text, findings }))
}
