//! The machine's clock, as the program sees it. It cannot be set for one program alone, and a time namespace moves only the
//! clocks that nobody sets; so a small library stands before the C library and adds what a file says to the calendar.

use std::fs;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use crate::faults::kinds::Direction;
use crate::project::Project;
use crate::random::Random;

const SOURCE: &str = include_str!("clock.c");

/// Longer than the longest wait of a loop, so that whoever waits for a moment of the calendar is caught.
const LEAST: u64 = 3600 + 60;
const MOST: u64 = 24 * 3600;

/// The library, if there is a compiler and a program obeys it. It is made once and stays until the campaign ends.
pub fn library() -> Option<&'static Path> {
    static MADE: OnceLock<Option<(tempfile::TempDir, PathBuf)>> = OnceLock::new();
    MADE.get_or_init(make).as_ref().map(|(_, path)| path.as_path())
}

fn make() -> Option<(tempfile::TempDir, PathBuf)> {
    let folder = tempfile::Builder::new().prefix("aot-clock-").tempdir().ok()?;
    let path = folder.path().join("clock.so");
    let mut compiler = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-x", "c", "-", "-o"])
        .arg(&path)
        .stdin(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    compiler.stdin.take()?.write_all(SOURCE.as_bytes()).ok()?;
    compiler.wait().ok()?.success().then_some(())?;
    let offset = folder.path().join("trial");
    fs::write(&offset, (-1_000_000_000_i64).to_ne_bytes()).ok()?;
    let tried = Command::new("date").arg("+%s").env("LD_PRELOAD", &path).env("AOT_CLOCK", &offset).output();
    let told: u64 = String::from_utf8(tried.ok()?.stdout).ok()?.trim().parse().ok()?;
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().ok()?.as_secs();
    (told + 900_000_000 < now).then_some((folder, path))
}

/// Lets a run or a verb see the clock of its project.
pub fn dress(project: &Project, command: &mut Command) {
    let Some(library) = library() else { return };
    let offset = project.note("clock");
    if !offset.exists() {
        fs::write(&offset, 0_i64.to_ne_bytes()).expect("a file");
    }
    command.env("LD_PRELOAD", library).env("AOT_CLOCK", offset);
}

/// Sets it, for whoever runs and whoever comes.
pub fn set(project: &Project, direction: Direction, random: &mut Random) -> bool {
    let seconds = i64::try_from(random.between(LEAST, MOST)).expect("a day is short");
    let step = match direction {
        Direction::Back => -seconds,
        Direction::Forward => seconds,
    };
    // The file is mapped by those who run: it is written in place and never becomes shorter.
    let Ok(file) = fs::File::options().read(true).write(true).open(project.note("clock")) else {
        return false;
    };
    let mut offset = [0; 8];
    file.read_exact_at(&mut offset, 0).is_ok()
        && file.write_all_at(&(i64::from_ne_bytes(offset) + step).to_ne_bytes(), 0).is_ok()
}
