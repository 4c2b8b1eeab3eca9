//! `aot.toml`: beside the project, and one in the user's folder for settings. The project's wins, key by key. Strict:
//! what is not known is warned of, with its place; what is known must be right.

use std::fs;
use std::io::ErrorKind;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use aot_core::state::Span;
use toml::de::{DeTable, DeValue};

pub const FILE: &str = "aot.toml";

/// A longer one is not read.
const MOST: u64 = 1 << 20;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    pub judge: JudgeSettings,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JudgeSettings {
    /// Reads the request on standard input, answers JSON on standard output.
    pub command: Option<String>,
    pub time: Option<Duration>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}:{line}:{column}: {message}", path.display())]
pub struct Fault {
    pub path: PathBuf,
    pub line: usize,
    pub column: usize,
    pub message: String,
}

/// Settings, and what was odd about the files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Read {
    pub settings: Settings,
    pub warnings: Vec<Fault>,
}

/// Reads both files; either may be absent.
pub fn read(project: &Path, user: Option<&Path>) -> Result<Read, Fault> {
    let mut all = Read::default();
    for folder in user.into_iter().chain([project]) {
        let path = folder.join(FILE);
        let whole = |message: String| Fault { path: path.clone(), line: 1, column: 1, message };
        match fs::metadata(&path) {
            Ok(meta) if meta.len() > MOST => return Err(whole(format!("it is longer than {MOST} bytes"))),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(error) => return Err(whole(error.to_string())),
        }
        let text = fs::read_to_string(&path).map_err(|error| whole(error.to_string()))?;
        File { path: &path, text: &text }.take_into(&mut all)?;
    }
    Ok(all)
}

struct File<'f> {
    path: &'f Path,
    text: &'f str,
}

impl File<'_> {
    fn take_into(&self, all: &mut Read) -> Result<(), Fault> {
        let table = DeTable::parse(self.text)
            .map_err(|error| self.fault(error.span().unwrap_or(0..0), error.message().to_owned()))?;
        for (key, value) in table.get_ref() {
            match (key.get_ref().as_ref(), value.get_ref()) {
                ("judge", DeValue::Table(judge)) => self.judge(judge, all)?,
                ("judge", _) => {
                    return Err(self.fault(value.span(), "`judge` is a table: write `[judge]`".into()));
                }
                (other, _) => all.warnings.push(self.fault(key.span(), format!("`{other}` is not known"))),
            }
        }
        Ok(())
    }

    fn judge(&self, table: &DeTable<'_>, all: &mut Read) -> Result<(), Fault> {
        for (key, value) in table {
            let wrong =
                |wanted: &str| self.fault(value.span(), format!("`judge.{}` is {wanted}", key.get_ref()));
            match (key.get_ref().as_ref(), value.get_ref()) {
                ("command", DeValue::String(command)) if !command.trim().is_empty() => {
                    all.settings.judge.command = Some(command.to_string());
                }
                ("command", _) => return Err(wrong("a command, as a text")),
                ("timeout", DeValue::String(time)) => {
                    let time = Span::parse(time).filter(|time| time.seconds() > 0);
                    let time = time.ok_or_else(|| wrong("a span of time like \"10m\""))?;
                    all.settings.judge.time = Some(Duration::from_secs(time.seconds()));
                }
                ("timeout", _) => return Err(wrong("a span of time like \"10m\"")),
                (other, _) => {
                    all.warnings.push(self.fault(key.span(), format!("`judge.{other}` is not known")));
                }
            }
        }
        Ok(())
    }

    fn fault(&self, span: Range<usize>, message: String) -> Fault {
        let before = &self.text[..span.start.min(self.text.len())];
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        Fault { path: self.path.to_path_buf(), line, column, message }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(project: &str, user: &str, expected: &str) {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let (own, users) = (dir.path().join("p"), dir.path().join("u"));
        for (folder, text) in [(&own, project), (&users, user)] {
            fs::create_dir_all(folder).expect("a folder");
            if !text.is_empty() {
                fs::write(folder.join(FILE), text).expect("a file");
            }
        }
        let shown = match read(&own, Some(&users)) {
            Err(fault) => format!("! {}:{} {}", fault.line, fault.column, fault.message),
            Ok(Read { settings, warnings }) => {
                let warned = warnings.iter().map(|w| format!(" ({}:{} {})", w.line, w.column, w.message));
                let command = settings.judge.command.unwrap_or_default();
                let time =
                    settings.judge.time.map(|time| format!(" {} s", time.as_secs())).unwrap_or_default();
                format!("{command}{time}{}", warned.collect::<String>())
            }
        };
        assert_eq!(shown, expected, "{project:?} and {user:?}");
    }

    #[test]
    fn the_project_wins_and_oddities_have_a_place() {
        check("", "", "");
        check("[judge]\ncommand = \"a\"", "", "a");
        check("[judge]\ncommand = \"a\"", "[judge]\ncommand = \"b\"\ntimeout = \"5m\"", "a 300 s");
        check("", "judge.command = 'b'", "b");
        check("[judge]\ncomand = \"a\"\n", "", " (2:1 `judge.comand` is not known)");
        check("[jugde]\n", "", " (1:2 `jugde` is not known)");
        check("judge = 3", "", "! 1:9 `judge` is a table: write `[judge]`");
        check("[judge]\ncommand = 3", "", "! 2:11 `judge.command` is a command, as a text");
        check("[judge]\ntimeout = \"soon\"", "", "! 2:11 `judge.timeout` is a span of time like \"10m\"");
        check("[judge\n", "", "! 1:7 unclosed table, expected `]`");
    }
}
