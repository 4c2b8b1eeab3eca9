//! Lets a person edit a text with their own program, on the terminal that we have. Knows nothing of the text.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;

/// What became of the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Edited {
    Text(Vec<u8>),
    /// The editor ended without success: nothing of it counts.
    GivenUp,
}

/// Opens the editor on a text and waits until it is closed. The program may have arguments, as in `code --wait`.
pub fn edit(editor: &OsStr, file: &Path, text: &str) -> io::Result<Edited> {
    fs::write(file, text)?;
    let mut line = editor.to_owned();
    line.push(" \"$1\"");
    let ended = Command::new("/bin/sh").arg("-c").arg(line).arg("editor").arg(file).status()?;
    if !ended.success() {
        return Ok(Edited::GivenUp);
    }
    fs::read(file).map(Edited::Text)
}
