//! `aot trust`: what came with a project runs only after a person has seen what it is. Asked once, and remembered by
//! content.

use std::path::{Path, PathBuf};

use aot_core::rules::Refusal;
use aot_core::state::TrustItem;
use aot_runner::store::Store;
use aot_runner::tree::Project;
use aot_runner::{settings, trust};
use clap::Args;
use serde_json::{Value, json};

use super::workspace::project;
use super::{Invocation, Verb};
use crate::failure::{Failure, FailureKind};
use crate::print::{Answer, OutputFormat};
use crate::terminal::{self, Typed};
use crate::text;
use crate::{place, print};

/// How many items one page lists.
const MAX_LISTED: usize = 200;
/// How much of an item is shown in a line; the whole is in the file.
const ITEM_COLUMNS: usize = 400;

/// See what this project would run, and allow it
///
/// Commands and settings that you gave through aot itself are trusted already. What a clone brings, or an editor
/// wrote, is asked for once, and again only if it changes. AOT_TRUST names folders whose projects are not asked for.
#[derive(Debug, Args)]
pub struct TrustArgs {
    /// Allow it without being asked
    #[arg(long)]
    yes: bool,
}

/// Which files of a project have to be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// What runs is in `aot.toml`, or was typed.
    Settings,
    /// The state file's commands run too.
    Everything,
}

/// What a file asks for and nobody has allowed.
#[derive(Debug)]
struct Untrusted {
    file: PathBuf,
    items: Vec<TrustItem<'static>>,
}

impl Verb for TrustArgs {
    fn run(&self, invocation: &Invocation) -> Result<Answer, Failure> {
        invocation.by_person()?;
        if place::session().is_some() {
            let message = "this is a session of an agent: only a person can trust a project";
            return Err(Failure::refused("not_a_person", message)
                .with_hint("type `aot trust` in a terminal of your own"));
        }
        let path = place::new_state_file(invocation.state.as_deref())?;
        let found = untrusted(&project(&path)?, Scope::Everything)?;
        let object =
            |trusted: bool| json!({"success": true, "trusted": trusted, "items": listed_json(&found)});
        if found.is_empty() {
            return Ok(Answer::new("nothing here asks for more than you have trusted already", object(true)));
        }
        let can_ask = invocation.format == OutputFormat::Text && terminal::is_interactive();
        if invocation.format == OutputFormat::Text {
            print::line(&page(&found));
        }
        let is_allowed = self.yes || (can_ask && is_agreed_to());
        if !is_allowed {
            let text = "nothing was trusted; `aot trust --yes` trusts all of it";
            return Ok(Answer::new(text, object(false)).with_exit(1));
        }
        add(&found)?;
        Ok(Answer::new("trusted; you are asked again when it changes", object(true)))
    }
}

/// Whether `aot.toml` may be used.
pub fn is_trusted(project: &Project, scope: Scope) -> Result<bool, Failure> {
    Ok(untrusted(project, scope)?.is_empty())
}

/// Asks the person at the terminal for what is not trusted yet, or refuses.
pub fn require(project: &Project, scope: Scope) -> Result<(), Failure> {
    let found = untrusted(project, scope)?;
    if found.is_empty() {
        return Ok(());
    }
    let wants_json = std::env::args_os().any(|word| word == "--json");
    if terminal::is_interactive() && !wants_json && !place::is_in_job() {
        print::line(&page(&found));
        if is_agreed_to() {
            return add(&found);
        }
    }
    let first: Vec<String> = found.iter().flat_map(|file| &file.items).take(3).map(line).collect();
    let count: usize = found.iter().map(|file| file.items.len()).sum();
    let more = if count > first.len() { format!(" and {} more", count - first.len()) } else { String::new() };
    let message = format!("this project asks for what you have not trusted yet: {}{more}", first.join("; "));
    Err(Failure::new(FailureKind::NeedsPerson, "not_trusted", message)
        .with_hint("see all of it and allow it with `aot trust`")
        .with_hint("scripts set AOT_TRUST to the folders that they trust")
        .with_detail("items", listed_json(&found)))
}

fn untrusted(project: &Project, scope: Scope) -> Result<Vec<Untrusted>, Failure> {
    if place::trusts(&project.root) {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    let mut look = |file: &Path, items: Vec<TrustItem<'static>>| {
        let items = trust::lacking(file, items);
        if !items.is_empty() {
            found.push(Untrusted { file: file.to_path_buf(), items });
        }
    };
    let items = settings::trust_items(&project.root).map_err(super::workspace::bad_settings)?;
    look(&project.root.join(settings::FILE), items);
    if scope == Scope::Everything
        && let Ok(mut store) = Store::open(&project.state, &place::build_mark())
        && let Ok((_, state)) = store.load::<Refusal>()
    {
        look(&project.state, state.trust_items().into_iter().map(TrustItem::into_owned).collect());
    }
    Ok(found)
}

fn add(found: &[Untrusted]) -> Result<(), Failure> {
    for Untrusted { file, items } in found {
        trust::add(file, items).map_err(|error| Failure::world("remember what you trust", error))?;
    }
    Ok(())
}

fn is_agreed_to() -> bool {
    print::line("Run it? Type yes or no:");
    match terminal::LineReader::new().read("> ") {
        Typed::Line(line) => matches!(line.trim(), "y" | "yes"),
        Typed::Garbled | Typed::Interrupted | Typed::End => false,
    }
}

fn page(found: &[Untrusted]) -> String {
    let mut lines = Vec::new();
    for Untrusted { file, items } in found {
        lines.push(format!("{} asks for:", file.display()));
        lines.extend(items.iter().take(MAX_LISTED).map(|item| format!("  {}", line(item))));
        let more = items.len().saturating_sub(MAX_LISTED);
        lines.extend((more > 0).then(|| format!("  and {more} more")));
    }
    lines.join("\n")
}

fn line(item: &TrustItem<'_>) -> String {
    text::fit(&text::plain(&format!("{}: {}", item.kind, item.text.replace(['\n', '\r'], " "))), ITEM_COLUMNS)
}

fn listed_json(found: &[Untrusted]) -> Value {
    let items = found.iter().flat_map(|file| file.items.iter().map(move |item| (&file.file, item)));
    items.map(|(file, item)| json!({"file": file, "kind": item.kind, "text": item.text})).collect()
}
