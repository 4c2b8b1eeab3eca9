//! Writes one key into an `aot.toml`: the agent that is asked unless another one is named. Everything else in the file stays as
//! it is, comments too.

use std::ops::Range;
use std::path::{Path, PathBuf};

use toml::Table;
use toml::de::{DeTable, DeValue};

use super::{FILE, Fault, Links, text_of};
use crate::atomic_file::{self, Durability};

/// Chooses this agent in the file of a folder, which is made if there is none. Returns the file.
pub fn choose_agent(folder: &Path, name: &str) -> Result<PathBuf, Fault> {
    let path = folder.join(FILE);
    let text = text_of(&path, Links::Inside)?.unwrap_or_default();
    let fault = |message: String| Fault { path: path.clone(), line: 1, column: 1, message };
    let text = with_default(&text, name).map_err(fault)?;
    // A link inside of the project stays one.
    let real = path.canonicalize().unwrap_or_else(|_| path.clone());
    atomic_file::write(&real, &[text.as_bytes()], Durability::Synced)
        .map_err(|error| fault(format!("it cannot be written: {error}")))?;
    Ok(path)
}

/// The text with `agents.default`. The smallest edits are tried first, and the first that says exactly what is wanted is
/// taken.
fn with_default(text: &str, name: &str) -> Result<String, String> {
    let table: Table = text.parse().map_err(|error: toml::de::Error| error.message().to_owned())?;
    let mut wanted = table.clone();
    let agents = wanted.entry("agents").or_insert_with(|| Table::new().into());
    let agents = agents.as_table_mut().ok_or("`agents` is a table: write `[agents]`")?;
    agents.insert("default".into(), name.into());
    let value = serde_json::Value::from(name).to_string();
    let says = |text: &String| text.parse::<Table>().is_ok_and(|table| table == wanted);
    candidates(text, &value)
        .into_iter()
        .find(says)
        .ok_or_else(|| "write `default` into `[agents]` by hand".into())
}

fn candidates(text: &str, value: &str) -> Vec<String> {
    let spliced = |at: Range<usize>, new: &str| {
        let (before, after) = (&text[..at.start], &text[at.end..]);
        format!("{before}{new}{after}")
    };
    let mut found = Vec::new();
    if let Ok(table) = DeTable::parse(text)
        && let Some(agents) = table.get_ref().get("agents")
        && let DeValue::Table(keys) = agents.get_ref()
    {
        found.extend(keys.get("default").map(|default| spliced(default.span(), value)));
        let inline = agents.span().start;
        if text[inline..].starts_with('{') {
            let comma = if keys.is_empty() { "" } else { "," };
            found.push(spliced(inline + 1..inline + 1, &format!(" default = {value}{comma}")));
        }
    }
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        at += line.len();
        let head = line.split('#').next().unwrap_or_default().trim();
        if head.replace(' ', "") == "[agents]" {
            let end = if line.ends_with('\n') { "" } else { "\n" };
            found.push(spliced(at..at, &format!("{end}default = {value}\n")));
        }
    }
    let gap = match text {
        "" => "",
        text if text.ends_with('\n') => "\n",
        _ => "\n\n",
    };
    found.push(format!("{text}{gap}[agents]\ndefault = {value}\n"));
    found.push(format!("agents.default = {value}\n{text}"));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_key_is_written_and_nothing_else_changes() {
        for (text, expected) in [
            ("", "[agents]\ndefault = \"claude\"\n"),
            ("[agents]\ndefault = 'codex' # mine\n", "[agents]\ndefault = \"claude\" # mine\n"),
            (
                "# who\n[agents] # works\nprobe = \"codex\"\n\n[cage]\n",
                "# who\n[agents] # works\ndefault = \"claude\"\nprobe = \"codex\"\n\n[cage]\n",
            ),
            ("[cage]\nkind = \"auto\"", "[cage]\nkind = \"auto\"\n\n[agents]\ndefault = \"claude\"\n"),
            ("[agents]", "[agents]\ndefault = \"claude\"\n"),
            ("agents.probe = \"x\"\n", "agents.default = \"claude\"\nagents.probe = \"x\"\n"),
            ("agents.default = \"x\"\r\n", "agents.default = \"claude\"\r\n"),
            ("agents = { probe = \"x\" }\n", "agents = { default = \"claude\", probe = \"x\" }\n"),
            ("agents = {}\n", "agents = { default = \"claude\"}\n"),
            (
                "[agents.models]\nworker = \"m\"\n",
                "[agents.models]\nworker = \"m\"\n\n[agents]\ndefault = \"claude\"\n",
            ),
            (
                "note = \"\"\"\n[agents]\n\"\"\"\n",
                "note = \"\"\"\n[agents]\n\"\"\"\n\n[agents]\ndefault = \"claude\"\n",
            ),
        ] {
            assert_eq!(with_default(text, "claude").as_deref(), Ok(expected), "{text:?}");
        }
        with_default("agents = 3", "claude").expect_err("it is no table");
        with_default("[agents", "claude").expect_err("it is no TOML");
    }
}
