//! Where the state file is: named, or found. The only reader of the environment.

use std::path::{Path, PathBuf};

use crate::failure::Failure;

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
    let here = std::env::current_dir().map_err(|error| Failure::NoFolder(error.to_string()))?;
    let found = here.ancestors().map(|folder| folder.join(STATE_FILE)).find(|path| path.exists());
    found.ok_or(Failure::NoStateFile { from: here })
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
