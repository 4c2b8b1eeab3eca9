//! `aot.toml`: beside the project, and one in the user's folder for settings. The project's wins, key by key. Strict:
//! what is not known is warned of, with its place; what is known must be right.

mod choose;
mod notify;

use std::io::ErrorKind;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use aot_core::state::{Span, TrustItem};
use toml::Table;
use toml::de::{DeTable, DeValue};

use crate::agents::profile::{Profile, lay_over};
use crate::agents::{AgentSettings, ROLES};
use crate::confinement::CheckCage;
use crate::environment;
use crate::notify::NotifySettings;
use crate::plain_file;
use crate::process::cage::{Choice, Kind, Network};
use crate::process::hosts::Hosts;

pub use choose::choose_agent;

pub const FILE: &str = "aot.toml";

/// What a network can be.
const NETWORKS: &str =
    r#""on", "off" or a list of hosts like "crates.io", "*.example.org" and "localhost:5432""#;

/// A longer one is not read.
const MOST: u64 = 1 << 20;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    pub agents: AgentSettings,
    pub judge: JudgeSettings,
    pub cage: CageSettings,
    pub work: WorkSettings,
    pub checks: CheckSettings,
    pub notify: NotifySettings,
}

/// How workers are caged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CageSettings {
    pub choice: Choice,
    pub network: Network,
    /// What they may write besides their own; see [`CageSettings::folders`].
    writable: Vec<PathBuf>,
    /// What they may not read besides the usual places, and which of those they may.
    hide: Vec<PathBuf>,
    show: Vec<PathBuf>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkSettings {
    /// Names of variables that workers get besides the usual ones, or beginnings of names with a `*` after them.
    pub environment: Vec<String>,
    /// How long a worker may print nothing; see [`WorkSettings::agent_idle`].
    pub idle_timeout: Option<Duration>,
}

/// Agents print whenever they have thought or a tool of theirs has ended. The longest thoughts and the longest commands that
/// their own limits allow take ten minutes.
const AGENT_IDLE: Duration = Duration::from_secs(15 * 60);

impl WorkSettings {
    /// How long an agent may print nothing. A command of the user's may be silent as long as it runs, unless they say
    /// otherwise.
    pub fn agent_idle(&self) -> Duration {
        self.idle_timeout.unwrap_or(AGENT_IDLE)
    }
}

/// What checks, `setup` and judges' commands run in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckSettings {
    pub cage: CheckCage,
    /// Names of variables that they get besides those of workers.
    pub environment: Vec<String>,
}

impl CageSettings {
    /// The further folders that workers may write, with `~` as the user's home. Without a home it stays as it is, and
    /// whoever uses it is told that it is not there.
    pub fn folders(&self, home: Option<&Path>) -> Vec<PathBuf> {
        whole(&self.writable, home)
    }

    /// What workers may not read besides the usual places.
    pub fn hide(&self, home: Option<&Path>) -> Vec<PathBuf> {
        whole(&self.hide, home)
    }

    /// What they may read although it is a usual place of keys.
    pub fn show(&self, home: Option<&Path>) -> Vec<PathBuf> {
        whole(&self.show, home)
    }
}

fn whole(paths: &[PathBuf], home: Option<&Path>) -> Vec<PathBuf> {
    let whole = |path: &PathBuf| match (path.strip_prefix("~"), home) {
        (Ok(rest), Some(home)) if rest.as_os_str().is_empty() => home.to_path_buf(),
        (Ok(rest), Some(home)) => home.join(rest),
        (Ok(_), None) | (Err(_), _) => path.clone(),
    };
    paths.iter().map(whole).collect()
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
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Read {
    pub settings: Settings,
    pub warnings: Vec<Fault>,
}

/// Reads both files; either may be absent.
pub fn read(project: Option<&Path>, user: Option<&Path>) -> Result<Read, Fault> {
    let mut all = Read::default();
    for (folder, links) in
        user.map(|user| (user, Links::Anywhere)).into_iter().chain(project.map(|own| (own, Links::Inside)))
    {
        let path = folder.join(FILE);
        if let Some(text) = text_of(&path, links)? {
            File { path: &path, text: &text }.take_into(&mut all)?;
        }
    }
    Ok(all)
}

/// Everything in a project's `aot.toml` that starts something, or lets more be read or written: all but what is known to
/// be harmless.
pub fn trust_items(project: &Path) -> Result<Vec<TrustItem<'static>>, Fault> {
    let path = project.join(FILE);
    let Some(text) = text_of(&path, Links::Inside)? else { return Ok(Vec::new()) };
    let file = File { path: &path, text: &text };
    let table: Table = text.parse().map_err(|error: toml::de::Error| {
        file.fault(error.span().unwrap_or(0..0), error.message().to_owned())
    })?;
    let mut items = Vec::new();
    for (key, value) in table {
        list_leaves(key, value, &mut items);
    }
    Ok(items)
}

fn list_leaves(key: String, value: toml::Value, items: &mut Vec<TrustItem<'static>>) {
    match value {
        toml::Value::Table(table) => {
            table.into_iter().for_each(|(inner, value)| list_leaves(format!("{key}.{inner}"), value, items));
        }
        value => {
            let text = match value {
                toml::Value::String(text) => text,
                other => serde_json::to_string(&other).unwrap_or_default(),
            };
            if !is_harmless(&key, &text) {
                items.push(TrustItem::new(key, text));
            }
        }
    }
}

/// The name of an agent chooses among what the user has installed; a command or a path does not.
fn is_harmless(key: &str, text: &str) -> bool {
    match key {
        "judge.timeout" | "work.idle_timeout" | "notify.bell" => true,
        key if key.starts_with("agents.") => !text.contains([':', '/']),
        _ => false,
    }
}

/// Where a settings file that is a link may lead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Links {
    /// The user's own file.
    Anywhere,
    /// A file that may have come with a clone.
    Inside,
}

fn text_of(path: &Path, links: Links) -> Result<Option<String>, Fault> {
    let whole = |message: String| Fault { path: path.to_path_buf(), line: 1, column: 1, message };
    let real = match path.canonicalize() {
        Ok(real) => real,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(whole(error.to_string())),
    };
    let folder = path.parent().and_then(|folder| folder.canonicalize().ok()).unwrap_or_default();
    if links == Links::Inside && !real.starts_with(folder) {
        return Err(whole(format!("it is a link that leads out of the project, to {}", real.display())));
    }
    let bytes = plain_file::read(&real, MOST).map_err(|error| whole(error.to_string()))?;
    String::from_utf8(bytes).map(Some).map_err(|_| whole("it is not UTF-8 text".into()))
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
                ("agents", DeValue::Table(agents)) => self.agents(agents, all)?,
                ("agent", DeValue::Table(agent)) => self.profiles(agent, all)?,
                ("judge", DeValue::Table(judge)) => self.judge(judge, all)?,
                ("cage", DeValue::Table(cage)) => self.cage(cage, all)?,
                ("work", DeValue::Table(work)) => self.work(work, all)?,
                ("checks", DeValue::Table(checks)) => self.checks(checks, all)?,
                ("notify", DeValue::Table(notify)) => self.notify(notify, all)?,
                (name @ ("agents" | "agent" | "judge" | "cage" | "work" | "checks" | "notify"), _) => {
                    return Err(self.fault(value.span(), format!("`{name}` is a table: write `[{name}]`")));
                }
                (other, _) => all.warnings.push(self.fault(key.span(), format!("`{other}` is not known"))),
            }
        }
        Ok(())
    }

    /// Who is asked in which role.
    fn agents(&self, table: &DeTable<'_>, all: &mut Read) -> Result<(), Fault> {
        let chosen = &mut all.settings.agents;
        for (key, value) in table {
            let name = key.get_ref().as_ref();
            let wrong = |wanted: &str| self.fault(value.span(), format!("`agents.{name}` is {wanted}"));
            let text = value.get_ref().as_str().filter(|text| !text.trim().is_empty()).map(str::to_owned);
            match (name, ROLES.into_iter().find(|role| role.word() == name)) {
                ("default", _) => {
                    chosen.default = Some(text.ok_or_else(|| wrong("the name of an agent"))?);
                }
                (_, Some(role)) => {
                    chosen.roles.insert(role.word(), text.ok_or_else(|| wrong("the name of an agent"))?);
                }
                ("models", None) => {
                    let table = value.get_ref().as_table();
                    for (role, model) in table.ok_or_else(|| wrong("a table of roles and models"))? {
                        let known = ROLES.into_iter().find(|known| known.word() == role.get_ref().as_ref());
                        let model = model.get_ref().as_str().filter(|model| !model.trim().is_empty());
                        let (Some(known), Some(model)) = (known, model) else {
                            return Err(wrong("a table of roles and models"));
                        };
                        chosen.models.insert(known.word().to_owned(), model.to_owned());
                    }
                }
                (other, None) => {
                    all.warnings.push(self.fault(key.span(), format!("`agents.{other}` is not known")));
                }
            }
        }
        Ok(())
    }

    /// The user's own profiles; the project's are laid over the user's.
    fn profiles(&self, table: &DeTable<'_>, all: &mut Read) -> Result<(), Fault> {
        let whole: Table = self.text.parse().map_err(|_| self.fault(0..0, "it cannot be read".into()))?;
        for key in table.keys() {
            let name = key.get_ref().as_ref();
            let own = whole.get("agent").and_then(|agents| agents.get(name)).and_then(toml::Value::as_table);
            let Some(own) = own else {
                return Err(
                    self.fault(key.span(), format!("`agent.{name}` is a table: write `[agent.{name}]`"))
                );
            };
            let laid = all.settings.agents.own.entry(name.to_owned()).or_default();
            lay_over(laid, own);
            if let Some(Err(error)) = Profile::named(name, Some(laid)) {
                return Err(self.fault(key.span(), error.problem));
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
                ("timeout", time) => {
                    let time = span(time).ok_or_else(|| wrong("a span of time like \"10m\""))?;
                    all.settings.judge.time = Some(time);
                }
                (other, _) => {
                    all.warnings.push(self.fault(key.span(), format!("`judge.{other}` is not known")));
                }
            }
        }
        Ok(())
    }

    fn cage(&self, table: &DeTable<'_>, all: &mut Read) -> Result<(), Fault> {
        for (key, value) in table {
            let wrong =
                |wanted: &str| self.fault(value.span(), format!("`cage.{}` is {wanted}", key.get_ref()));
            match (key.get_ref().as_ref(), value.get_ref()) {
                ("kind", kind) => {
                    let word = kind.as_str().unwrap_or_default();
                    let choice = match word {
                        "auto" => Some(Choice::Auto),
                        word => Kind::parse(word).map(Choice::Only),
                    };
                    all.settings.cage.choice =
                        choice.ok_or_else(|| wrong("\"auto\", \"bwrap\", \"landlock\" or \"none\""))?;
                }
                ("network", network) => {
                    let hosts = texts(network).and_then(|words| Hosts::parse(&words));
                    all.settings.cage.network = match (network.as_str(), hosts) {
                        (Some("on"), _) => Network::On,
                        (Some("off"), _) => Network::Off,
                        (_, Some(hosts)) => Network::Hosts(hosts),
                        (_, None) => return Err(wrong(NETWORKS)),
                    };
                }
                ("writable", list) => {
                    let paths = self.paths(list).ok_or_else(|| wrong("a list of folders, as texts"))?;
                    all.settings.cage.writable = paths;
                }
                // What the user hides, a project cannot show by naming something else.
                ("hide", list) => {
                    let paths = self.paths(list).ok_or_else(|| wrong("a list of paths, as texts"))?;
                    all.settings.cage.hide.extend(paths);
                }
                ("show", list) => {
                    let paths = self.paths(list).ok_or_else(|| wrong("a list of paths, as texts"))?;
                    all.settings.cage.show = paths;
                }
                (other, _) => {
                    all.warnings.push(self.fault(key.span(), format!("`cage.{other}` is not known")));
                }
            }
        }
        Ok(())
    }

    /// A relative path lies beside the file that names it.
    fn paths(&self, list: &DeValue<'_>) -> Option<Vec<PathBuf>> {
        let beside = self.path.parent().unwrap_or(Path::new("/"));
        let path = |path: String| match path.starts_with('~') {
            true => PathBuf::from(path),
            false => beside.join(path),
        };
        Some(texts(list)?.into_iter().map(path).collect())
    }

    fn work(&self, table: &DeTable<'_>, all: &mut Read) -> Result<(), Fault> {
        for (key, value) in table {
            match (key.get_ref().as_ref(), value.get_ref()) {
                ("environment", list) => {
                    all.settings.work.environment = self.names("work.environment", list, value.span())?;
                }
                ("idle_timeout", time) => {
                    let time = span(time).ok_or_else(|| {
                        self.fault(value.span(), "`work.idle_timeout` is a span of time like \"10m\"".into())
                    })?;
                    all.settings.work.idle_timeout = Some(time);
                }
                (other, _) => {
                    all.warnings.push(self.fault(key.span(), format!("`work.{other}` is not known")));
                }
            }
        }
        Ok(())
    }

    fn checks(&self, table: &DeTable<'_>, all: &mut Read) -> Result<(), Fault> {
        for (key, value) in table {
            match (key.get_ref().as_ref(), value.get_ref()) {
                ("environment", list) => {
                    all.settings.checks.environment = self.names("checks.environment", list, value.span())?;
                }
                ("cage", cage) => {
                    all.settings.checks.cage = match cage.as_str() {
                        Some("worker") => CheckCage::AsWorkers,
                        Some("none") => CheckCage::None,
                        _ => {
                            let wanted = "`checks.cage` is \"worker\" or \"none\"";
                            return Err(self.fault(value.span(), wanted.into()));
                        }
                    };
                }
                (other, _) => {
                    all.warnings.push(self.fault(key.span(), format!("`checks.{other}` is not known")));
                }
            }
        }
        Ok(())
    }

    /// Names of variables.
    fn names(&self, key: &str, list: &DeValue<'_>, span: Range<usize>) -> Result<Vec<String>, Fault> {
        let names = texts(list).filter(|names| names.iter().all(|name| environment::is_name(name)));
        names.ok_or_else(|| {
            self.fault(span, format!("`{key}` is a list of names like \"NAME\" or \"PREFIX_*\""))
        })
    }

    fn fault(&self, span: Range<usize>, message: String) -> Fault {
        let before = &self.text[..span.start.min(self.text.len())];
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        Fault { path: self.path.to_path_buf(), line, column, message }
    }
}

/// A list of texts, none of them empty.
fn texts(value: &DeValue<'_>) -> Option<Vec<String>> {
    let text = |value: &toml::Spanned<DeValue<'_>>| {
        value.get_ref().as_str().filter(|text| !text.trim().is_empty()).map(str::to_owned)
    };
    value.as_array()?.iter().map(text).collect()
}

fn span(value: &DeValue<'_>) -> Option<Duration> {
    let span = Span::parse(value.as_str()?).filter(|span| span.seconds() > 0)?;
    Some(Duration::from_secs(span.seconds()))
}

#[cfg(test)]
mod tests {
    use std::fs;

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
        let shown = match read(Some(&own), Some(&users)) {
            Err(fault) => format!("! {}:{} {}", fault.line, fault.column, fault.message),
            Ok(Read { settings, warnings }) => {
                let warned = warnings.iter().map(|w| format!(" ({}:{} {})", w.line, w.column, w.message));
                let command = settings.judge.command.unwrap_or_default();
                let time =
                    settings.judge.time.map(|time| format!(" {} s", time.as_secs())).unwrap_or_default();
                let mut rest = String::new();
                if settings.cage != CageSettings::default() {
                    let folders = settings.cage.folders(Some(Path::new("/home/ada")));
                    let folders = folders.iter().map(|path| path.strip_prefix(dir.path()).unwrap_or(path));
                    let folders: Vec<_> = folders.map(|path| path.display().to_string()).collect();
                    rest = format!(
                        "{:?} {:?} {}",
                        settings.cage.choice,
                        settings.cage.network,
                        folders.join(" ")
                    );
                    for (word, paths) in [
                        ("hide", settings.cage.hide(Some(Path::new("/home/ada")))),
                        ("show", settings.cage.show(Some(Path::new("/home/ada")))),
                    ] {
                        let paths = paths.iter().map(|path| path.strip_prefix(dir.path()).unwrap_or(path));
                        rest += &paths.map(|path| format!("{word} {} ", path.display())).collect::<String>();
                    }
                }
                let AgentSettings { default, roles, models, own } = settings.agents;
                let roles = roles.into_iter().map(|(role, name)| format!("{role}={name}"));
                let models = models.into_iter().map(|(role, model)| format!("{role}:{model}"));
                let own = own.into_keys().map(|name| format!("[{name}]"));
                rest +=
                    &default.into_iter().chain(roles).chain(models).chain(own).collect::<Vec<_>>().join(" ");
                rest += &settings.work.environment.join(" ");
                if settings.checks != CheckSettings::default() {
                    let CheckSettings { cage, environment } = settings.checks;
                    rest += &format!("checks {cage:?} {}", environment.join(" "));
                }
                if settings.notify != NotifySettings::default() {
                    rest += &format!("{:?}", settings.notify);
                }
                if let Some(idle) = settings.work.idle_timeout {
                    rest += &format!("idle {} s", idle.as_secs());
                }
                format!("{command}{time}{rest}{}", warned.collect::<String>())
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

    #[test]
    fn agents_are_chosen() {
        check("[agents]\ndefault = \"claude\"\nprobe = \"codex\"", "", "claude probe=codex");
        check(
            "agents.judge = \"none\"",
            "[agents]\ndefault = \"gemini\"\njudge = \"x\"",
            "gemini judge=none",
        );
        check("[agents.models]\nworker = \"big\"", "", "worker:big");
        check("[agent.mine]\nprogram = \"x\"", "[agent.claude]\nmodel = \"m\"", "[claude] [mine]");
        check("[agent.mine]\nmodel = \"x\"", "[agent.mine]\nprogram = \"m\"", "[mine]");
        check("[agents]\nworker = 3", "", "! 2:10 `agents.worker` is the name of an agent");
        check("[agents]\nboss = \"x\"", "", " (2:1 `agents.boss` is not known)");
        check(
            "[agent.mine]\nprogram = \"x\"\nanswer = \"by mail\"",
            "",
            "! 1:8 unknown variant `by mail`, expected one of `tool`, `event`, `file`, `output`",
        );
        check("agent.mine = 3", "", "! 1:7 `agent.mine` is a table: write `[agent.mine]`");
    }

    #[test]
    fn what_tells_the_user_is_set() {
        check("[notify]", "", "");
        check(
            "[notify]\non_done = \"a\"\nbell = true",
            "[notify]\non_done = \"b\"\non_halt = \"c\"\nwebhook = \"https://a.b/secret\"",
            "NotifySettings { commands: {Done: \"a\", Halt: \"c\"}, webhook: Some(Webhook(a.b)), desktop: false, bell: true }",
        );
        check(
            "[notify]\non_done = \"\"\nwebhook = \"\"",
            "notify = {on_done = \"b\", webhook = \"http://a\"}",
            "",
        );
        check("notify.on_halt = 3", "", "! 1:18 `notify.on_halt` is a command, as a text");
        check("notify.bell = \"yes\"", "", "! 1:15 `notify.bell` is true or false");
        let address =
            "! 1:18 `notify.webhook` is an address like \"https://example.org/hook\", or \"\" for none";
        for bad in ["3", "\"example.org\"", "\"file:///etc/passwd\"", "\"https://\""] {
            check(&format!("notify.webhook = {bad}"), "", address);
        }
        check("notify = true", "", "! 1:10 `notify` is a table: write `[notify]`");
        check("notify.on_fire = \"a\"", "", " (1:8 `notify.on_fire` is not known)");
    }

    #[test]
    fn cages_and_environments_are_set() {
        check("[cage]\nkind = \"auto\"\nnetwork = \"on\"", "", "");
        check("[work]\nidle_timeout = 5", "", "! 2:16 `work.idle_timeout` is a span of time like \"10m\"");
        check("[work]\nidle_timeout = \"5m\"", "", "idle 300 s");
        check("[cage]\nkind = \"bwrap\"", "[cage]\nkind = \"none\"\nnetwork = \"off\"", "Only(Bwrap) Off ");
        check(
            "cage.writable = [\"~/.cargo\", \"~\", \"/opt\", \"build\"]",
            "cage.writable = [\"/other\"]",
            "Auto On /home/ada/.cargo /home/ada /opt p/build",
        );
        check("", "cage.writable = [\"build\"]", "Auto On u/build");
        check(
            "cage.hide = [\"keys\"]\ncage.show = [\"~/.npmrc\"]",
            "cage.hide = [\"~/notes\"]\ncage.show = [\"~/.ssh\"]",
            "Auto On hide /home/ada/notes hide p/keys show /home/ada/.npmrc ",
        );
        check("cage.hide = 3", "", "! 1:13 `cage.hide` is a list of paths, as texts");
        check("cage.show = [3]", "", "! 1:13 `cage.show` is a list of paths, as texts");
        check("[work]\nenvironment = [\"A\", \"B_*\"]", "", "A B_*");
        check("[checks]\ncage = \"worker\"", "[checks]\nenvironment = [\"A\"]", "checks AsWorkers A");
        check("[checks]\ncage = \"none\"", "", "checks None ");
        check("[checks]\ncage = true", "", "! 2:8 `checks.cage` is \"worker\" or \"none\"");
        check("[checks]\ntime = 3", "", " (2:1 `checks.time` is not known)");
        check("[cage]\nbars = 3", "", " (2:1 `cage.bars` is not known)");
        check("[work]\ntime = 3", "", " (2:1 `work.time` is not known)");
        check("cage = \"none\"", "", "! 1:8 `cage` is a table: write `[cage]`");
        let kinds = "! 1:13 `cage.kind` is \"auto\", \"bwrap\", \"landlock\" or \"none\"";
        check("cage.kind = \"tin\"", "", kinds);
        check("cage.kind = 1", "", kinds);
        let networks = format!("! 1:16 `cage.network` is {NETWORKS}");
        for bad in ["true", "\"yes\"", "[\"a b\"]", "[1]", "[\"localhost\"]", "[\"https://a.b\"]"] {
            check(&format!("cage.network = {bad}"), "", &networks);
        }
        check(
            "cage.network = [\"a.b\", \"*.c.d:1\"]",
            "cage.network = \"off\"",
            "Auto Hosts(Hosts([\"a.b\", \"*.c.d:1\"])) ",
        );
        check("cage.network = []", "", "Auto Hosts(Hosts([])) ");
        check("cage.writable = \"/\"", "", "! 1:17 `cage.writable` is a list of folders, as texts");
        let names = "! 1:20 `work.environment` is a list of names like \"NAME\" or \"PREFIX_*\"";
        for bad in ["[\"*\"]", "[\"A=b\"]", "[\"\"]", "[\"A*B\"]", "[\"1A\"]", "\"A\""] {
            check(&format!("work.environment = {bad}"), "", names);
        }
    }
}
