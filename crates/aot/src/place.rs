//! Where the state file is: named, or found. The only reader of the environment.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use aot_runner::checks::CHECKING;
use aot_runner::process::{Guard, MARK};
use aot_runner::store::home::{self, Home};
use tempfile::TempDir;

use crate::failure::{self, Failure, FailureKind};

/// The state file's place below a project's root.
pub const STATE_FILE: &str = ".claude/aot-loop-state.md";

/// The file that was named, or the one of the project: `CLAUDE_PROJECT_DIR` first, then from here upward.
pub fn state_file(named: Option<&Path>) -> Result<PathBuf, Failure> {
    if let Some(named) = named {
        return Ok(named.to_path_buf());
    }
    let project =
        std::env::var_os("CLAUDE_PROJECT_DIR").map(|project| PathBuf::from(project).join(STATE_FILE));
    if let Some(found) = project.filter(|path| path.exists()) {
        return Ok(found);
    }
    let here = here()?;
    state_file_from(&here).ok_or_else(|| {
        Failure::new(FailureKind::StateFile, "no_state_file", NoStateFile { from: here })
            .with_hint("start with: aot run \"GOAL\" --check \"COMMAND\" (or `aot align`); `--state PATH` names another file")
    })
}

/// There is no loop in this folder.
#[derive(Debug, thiserror::Error)]
#[error("no state file found in {} or above ({STATE_FILE})", from.display())]
pub struct NoStateFile {
    from: PathBuf,
}

/// The state file that is found from a folder upward.
pub fn state_file_from(here: &Path) -> Option<PathBuf> {
    if let Some(lent_by) = user_cache().and_then(|cache| aot_runner::tree::lender(&cache, here)) {
        return Some(lent_by).filter(|path| path.exists());
    }
    let mut found = outside_of_trees(here).ancestors().map(|folder| folder.join(STATE_FILE));
    found.find(|path| path.exists())
}

/// A worker's tree may hold a copy of the state file; the loop is the one that the tree was lent by.
fn outside_of_trees(here: &Path) -> &Path {
    let lent = |folder: &&Path| {
        folder.ends_with(".claude/aot/trees") || folder.file_name().is_some_and(|name| name == ".aot")
    };
    here.ancestors().filter(lent).last().unwrap_or(here)
}

/// Where a loop that begins is written: the file that was named or found, or a new one at the project's root.
pub fn new_state_file(named: Option<&Path>) -> Result<PathBuf, Failure> {
    let found = state_file(named);
    let Some(NoStateFile { from }) = found.as_ref().err().and_then(Failure::error) else { return found };
    let project = std::env::var_os("CLAUDE_PROJECT_DIR").map(PathBuf::from).filter(|path| path.is_dir());
    let repository = from.ancestors().find(|folder| folder.join(".git").exists()).map(Path::to_path_buf);
    Ok(project.or(repository).unwrap_or_else(|| from.clone()).join(STATE_FILE))
}

/// The program that a person edits texts with.
pub fn editor() -> Option<std::ffi::OsString> {
    ["VISUAL", "EDITOR"].into_iter().find_map(|name| std::env::var_os(name).filter(|value| !value.is_empty()))
}

/// The folder we are in.
pub fn here() -> Result<PathBuf, Failure> {
    std::env::current_dir().map_err(|error| {
        let message = format!("the current folder cannot be told: {error}");
        Failure::new(FailureKind::StateFile, "no_folder", message).with_hint("go to a folder that exists")
    })
}

/// The user's home, if they have one.
pub fn home() -> Option<PathBuf> {
    std::env::var_os("HOME").filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// A folder for temporary files that is gone again when this is dropped. Nobody can guess its name beforehand.
#[derive(Debug)]
pub struct Scratch(TempDir);

/// The folders of this process, for an end without unwinding.
static SCRATCHES: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

impl Scratch {
    pub fn make() -> Result<Scratch, Failure> {
        let world = |error: std::io::Error| Failure::world("make a folder for temporary files", error);
        let all = std::env::temp_dir().canonicalize().map_err(world)?;
        let folder = tempfile::Builder::new().prefix("aot-").tempdir_in(all).map_err(world)?;
        SCRATCHES.lock().unwrap_or_else(PoisonError::into_inner).push(folder.path().to_path_buf());
        Ok(Scratch(folder))
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

/// Takes temporary files away before the process ends without unwinding.
pub fn leave() {
    for folder in SCRATCHES.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
        // Most are gone already, and one that stays behind does no harm.
        let _ = std::fs::remove_dir_all(folder);
    }
}

/// Changes whenever the program does, so that what one build worked out is not believed by another.
pub fn build_mark() -> String {
    let built = std::env::current_exe().and_then(|path| path.metadata()).ok();
    let mark = built.and_then(|meta| {
        let at = meta.modified().ok()?.duration_since(std::time::UNIX_EPOCH).ok()?;
        Some(format!("{}-{}", meta.len(), at.as_nanos()))
    });
    format!("{}-{}", env!("CARGO_PKG_VERSION"), mark.unwrap_or_default())
}

/// The project's root, without links.
pub fn project_root(state: &Path) -> PathBuf {
    let state = std::path::absolute(state).unwrap_or_else(|_| state.to_path_buf());
    let root = home::root_of(&state);
    root.canonicalize().unwrap_or(root)
}

/// Tells the runner where this user's data is kept, before it looks at a project.
pub fn tell_machine() {
    if let Some(folder) = user_data() {
        aot_runner::machine::keep_in(folder);
    }
}

/// For whoever is going to write: what came with the project where our own files belong is set aside, and said.
pub fn claim(state: &Path) -> Result<(), Failure> {
    if let (_, Some(kept)) = Home::claim(state)? {
        failure::complain(&format!(
            "warning: the journal and the other files of aot came with the project and do not count here; they are kept in {}",
            kept.display()
        ));
    }
    Ok(())
}

/// The folder for the user's own `aot.toml`.
pub fn user_settings() -> Option<PathBuf> {
    let given = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let folder = given("XDG_CONFIG_HOME").or_else(|| given("HOME").map(|home| home.join(".config")))?;
    Some(folder.join("aot"))
}

/// Where Claude Code keeps what is the user's own.
pub fn host_config() -> Option<PathBuf> {
    let given = std::env::var_os("CLAUDE_CONFIG_DIR").filter(|value| !value.is_empty()).map(PathBuf::from);
    given.or_else(|| Some(home()?.join(".claude")))
}

/// The folder for what `aot` itself keeps for a user.
pub fn user_data() -> Option<PathBuf> {
    let given = std::env::var_os("XDG_DATA_HOME").filter(|value| !value.is_empty()).map(PathBuf::from);
    Some(given.or_else(|| Some(home()?.join(".local/share")))?.join("aot"))
}

/// The folder for what `aot` can make again.
pub fn user_cache() -> Option<PathBuf> {
    let given = std::env::var_os("XDG_CACHE_HOME").filter(|value| !value.is_empty()).map(PathBuf::from);
    let given = given.filter(|path| path.is_absolute());
    Some(given.or_else(|| Some(home()?.join(".cache")))?.join("aot"))
}

/// Whether the user's environment says that everything in this project may run: `AOT_TRUST` lists folders.
pub fn trusts(root: &Path) -> bool {
    let Some(folders) = std::env::var_os("AOT_TRUST") else { return false };
    std::env::split_paths(&folders)
        .filter(|folder| folder.is_absolute())
        .filter_map(|folder| folder.canonicalize().ok())
        .any(|folder| root.starts_with(folder))
}

/// Where programs are looked for.
pub fn search_path() -> std::ffi::OsString {
    std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into())
}

/// A program, by a path or by a name that is looked for.
pub fn program(name: &str) -> Option<PathBuf> {
    let is_program =
        |path: &PathBuf| path.metadata().is_ok_and(|meta| meta.is_file() && is_executable(&meta));
    if name.contains('/') {
        let path = match name.strip_prefix("~/") {
            Some(rest) => home()?.join(rest),
            None => std::path::absolute(name).ok()?,
        };
        return Some(path).filter(is_program);
    }
    let path = search_path();
    // A relative folder would find whatever the project brings.
    let folders = std::env::split_paths(&path).filter(|folder| folder.is_absolute());
    folders.map(|folder| folder.join(name)).find(is_program)
}

/// A file of that name or path, where [`program`] finds none because nobody may execute it.
pub fn not_executable(name: &str) -> Option<PathBuf> {
    let path = match name.strip_prefix("~/") {
        Some(rest) => home()?.join(rest),
        None if name.contains('/') => std::path::absolute(name).ok()?,
        None => return None,
    };
    path.metadata().is_ok_and(|meta| meta.is_file() && !is_executable(&meta)).then_some(path)
}

#[cfg(unix)]
fn is_executable(meta: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt;
    meta.permissions().mode() & 0o111 != 0
}

#[cfg(not(unix))]
fn is_executable(_: &std::fs::Metadata) -> bool {
    true
}

/// The state file of the check that this process is part of, if it is part of one.
pub fn checking() -> Option<PathBuf> {
    std::env::var_os(CHECKING).map(PathBuf::from)
}

/// This very program, even if its file is replaced or deleted while it runs.
pub fn this_program() -> Result<PathBuf, Failure> {
    let running = PathBuf::from("/proc/self/exe");
    if cfg!(target_os = "linux") && running.symlink_metadata().is_ok() {
        return Ok(running);
    }
    program_file()
}

/// Where this program lies, for others that are to start it.
pub fn program_file() -> Result<PathBuf, Failure> {
    std::env::current_exe().map_err(|error| Failure::world("find this very program", error))
}

/// The session of the host that this process is part of, if it is part of one.
pub fn session() -> Option<String> {
    ["AOT_SESSION", "CLAUDE_CODE_SESSION_ID"]
        .into_iter()
        .find_map(|name| std::env::var(name).ok().filter(|value| !value.trim().is_empty()))
}

/// Whether this process was started by `aot` itself, as a check, a judge or a worker: then no person sits here.
pub fn is_in_job() -> bool {
    std::env::var_os(MARK).is_some()
}

/// Who sits here: as git knows them, or the system.
pub fn person(root: &Path, guard: &Guard) -> String {
    let system = || ["USER", "LOGNAME"].into_iter().find_map(|name| std::env::var(name).ok());
    let name = aot_runner::tree::author(root, guard).or_else(system).unwrap_or_default();
    if name.trim().is_empty() { "unknown".to_owned() } else { name.trim().to_owned() }
}
