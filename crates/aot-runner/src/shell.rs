//! Which shell runs a command: the one that the loop names, or the system's own, or bash for what only bash understands. The
//! shell that somebody logs in with has no say, so that a loop means the same for everybody.

use std::ffi::OsString;
use std::path::Path;

use aot_core::shell_command::needs_bash;

pub const SYSTEM: &str = "/bin/sh";

/// Only these: a shell that is found by the search path of a job could be the job's own.
const PLACES: [&str; 5] =
    ["/bin", "/usr/bin", "/usr/local/bin", "/opt/homebrew/bin", "/run/current-system/sw/bin"];

/// The program that takes `-c` and this command. `named` is a name or a path.
pub fn program(named: Option<&str>, command: &str) -> OsString {
    let installed = |name: &str| {
        let mut places = PLACES.iter().map(|folder| Path::new(folder).join(name));
        places.find(|path| path.is_file()).map(|path| path.into_os_string())
    };
    match named {
        Some(path) if path.contains('/') => path.into(),
        Some(name) => installed(name).unwrap_or_else(|| name.into()),
        None if needs_bash(command) => installed("bash").unwrap_or_else(|| SYSTEM.into()),
        None => SYSTEM.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shell_is_named_or_the_systems_own() {
        assert_eq!(program(None, "npm test"), SYSTEM);
        assert_eq!(program(Some("sh"), "[[ -f x ]]"), SYSTEM);
        assert_eq!(program(Some("/opt/a/fish"), "true"), "/opt/a/fish");
        assert_eq!(program(Some("no-such-shell"), "true"), "no-such-shell");
        if Path::new("/bin/bash").is_file() {
            assert_eq!(program(None, "[[ -f x ]]"), "/bin/bash");
        }
    }
}
