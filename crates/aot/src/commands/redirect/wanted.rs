//! What a person wants to be different, from the words of a command line. Knows how it is written, and not whether it is
//! allowed.

use aot_core::contract;
use aot_core::rules::redirect::CorrectionRequest;
use aot_core::state::{AtomId, GroupName, Limit, NewAtom, State};
use aot_runner::checks::seal::Seal;
use aot_runner::store::Unreadable;
use clap::Args;

use crate::commands::align;
use crate::commands::limits::LimitArgs;
use crate::failure::Failure;

/// The flags that change something.
pub const FLAGS: [&str; 15] = [
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
    "accept",
];

#[derive(Clone, Debug, Default, Args)]
pub struct WantedArgs {
    /// Another goal
    #[arg(long, value_name = "TEXT")]
    goal: Option<String>,
    /// Another base case, from a YAML file; `-` for standard input
    #[arg(long, value_name = "FILE")]
    base_case: Option<String>,
    /// Another reason why it is wanted
    #[arg(long, value_name = "TEXT")]
    intent: Option<String>,
    /// Something else that is to be there in the end
    #[arg(long, value_name = "TEXT")]
    deliverables: Option<String>,
    /// Another meaning of done, in words
    #[arg(long, value_name = "TEXT")]
    done: Option<String>,
    /// A new atom: "what is to be done <- A1,A2", or a JSON object with the keys of an atom
    #[arg(long, value_name = "DESCRIPTION")]
    add: Vec<String>,
    /// Take a pending atom out
    #[arg(long, value_name = "ATOM")]
    remove: Vec<String>,
    /// Take this way of an OR group
    #[arg(long, value_name = "GROUP=ATOM")]
    select: Vec<String>,
    /// One more way of an OR group, tried last
    #[arg(long, num_args = 2, allow_hyphen_values = true, value_names = ["GROUP", "DESCRIPTION"])]
    add_choice: Vec<String>,
    /// All that an atom depends on from now on: "A5 <- A1,A2"
    #[arg(long, value_name = "ATOM <- ATOMS")]
    depends: Vec<String>,
    /// Another summary of what a resolved atom came to; what rests on it is done again
    #[arg(long, num_args = 2, allow_hyphen_values = true, value_names = ["ATOM", "SUMMARY"])]
    rebind: Vec<String>,
    /// Do a resolved atom again, and what rests on it
    #[arg(long, value_name = "ATOM")]
    redo: Vec<String>,
    /// Files that no worker may change from now on
    #[arg(long, value_name = "GLOB")]
    protect: Vec<String>,
    /// Files that workers may change again
    #[arg(long, value_name = "GLOB")]
    unprotect: Vec<String>,
    /// The base case and the protected files, as they are now, are what is agreed on
    #[arg(long)]
    accept: bool,
}

/// What is to be different. What depends on how things stand is worked out when it is made.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Wanted {
    pub corrections: Vec<CorrectionRequest>,
    pub protect: Vec<String>,
    pub unprotect: Vec<String>,
    pub accept: bool,
}

impl Wanted {
    pub fn is_empty(&self) -> bool {
        *self == Wanted::default()
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
        if self.accept {
            corrections.push(CorrectionRequest::Accept(now.fingerprint()));
        }
        corrections
    }
}

pub fn read(args: &WantedArgs, limits: &LimitArgs, reason: &str) -> Result<Wanted, Failure> {
    let mut corrections = Vec::new();
    corrections.extend(args.goal.clone().map(CorrectionRequest::Goal));
    corrections.extend(args.intent.clone().map(CorrectionRequest::BackgroundIntent));
    corrections.extend(args.deliverables.clone().map(CorrectionRequest::Deliverables));
    corrections.extend(args.done.clone().map(CorrectionRequest::DefinitionOfDone));
    if let Some(from) = &args.base_case {
        corrections.push(base_case(from)?);
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
    corrections.extend(args.redo.iter().map(|id| CorrectionRequest::Redo { atom: AtomId::new(id.trim()) }));
    corrections.extend(args.remove.iter().map(|id| CorrectionRequest::RemoveAtom(AtomId::new(id.trim()))));
    Ok(Wanted {
        corrections,
        protect: args.protect.clone(),
        unprotect: args.unprotect.clone(),
        accept: args.accept,
    })
}

pub fn add_choice(group: &str, atom: NewAtom) -> CorrectionRequest {
    CorrectionRequest::AddChoice { group: GroupName::new(group.trim()), atom }
}

/// A way to take, as `group=atom`.
pub fn select(given: &str, reason: &str) -> Result<CorrectionRequest, Failure> {
    let Some((group, choice)) = given.split_once('=') else {
        return Err(unreadable(
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
        return Err(unreadable(
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

pub fn base_case(from: &str) -> Result<CorrectionRequest, Failure> {
    let (path, bytes) = align::read(from)?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let checks = contract::bring_checks(bytes);
    checks
        .map(CorrectionRequest::BaseCase)
        .map_err(|findings| Failure::NotAgreed(Box::new(Unreadable { path, text, findings })))
}

fn unreadable(flag: &str, problem: String, hint: &str) -> Failure {
    Failure::Input { what: flag.into(), problem, hint: hint.into() }
}
