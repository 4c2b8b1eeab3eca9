//! The small program that tries what a cage should refuse: this same binary, started with a hidden word. It says what
//! happened, one line for each attempt, and judges nothing.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpStream, UdpSocket};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, SystemTime};

use rustix::process::{Pid, test_kill_process};

/// The first word on the command line of a trial.
pub const WORD: &str = "__trial";

/// If everything else fails, nobody lingers longer than this.
const LINGERING: Duration = Duration::from_secs(60);

/// How long an answer of the network is waited for.
const ANSWER: Duration = Duration::from_secs(2);

pub fn is_called(words: &[OsString]) -> bool {
    words.get(1).is_some_and(|word| word == WORD)
}

pub fn run(words: &[OsString]) -> ExitCode {
    let word = |place: usize| words.get(place).and_then(|word| word.to_str()).unwrap_or_default();
    let path = |place: usize| words.get(place).map(PathBuf::from).unwrap_or_default();
    let done = match word(2) {
        "nothing" => Ok(()),
        "write" => write(&path(3), &path(4), word(5)),
        "network" => network(word(3), word(4)),
        "leave" => leave(words),
        "fork" => fork(words),
        "linger" => linger(&path(3)),
        _ => return ExitCode::from(2),
    };
    if done.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// What a trial of writing finds beside it: names of files that are there beforehand, one for each attempt.
pub(super) const VICTIMS: [&str; 8] =
    ["overwrite", "append", "truncate", "delete", "rename", "link", "mode", "times"];

/// Listens in the folder outside.
pub(super) const DOOR: &str = "door";

/// Inside, and hard-linked to a file outside before the cage was built.
pub(super) const LINKED: &str = "linked";

/// Inside, and a symbolic link to the folder outside.
pub(super) const WAY_OUT: &str = "way-out";

fn write(inside: &Path, outside: &Path, supervisor: &str) -> io::Result<()> {
    let name = outside.file_name().unwrap_or_default();
    let make = |path: PathBuf| fs::write(path, "made");
    let existing = |name: &str, options: &mut OpenOptions| {
        options.open(outside.join(name)).and_then(|mut file| file.write_all(b"changed"))
    };
    let through = format!("/proc/{supervisor}/root");
    let temporary = PathBuf::from(format!("/tmp/aot-trial-{supervisor}-{}", std::process::id()));
    let attempts: [(&str, io::Result<()>); 20] = [
        ("inside", life_inside(inside)),
        ("null", fs::write("/dev/null", "gone")),
        ("create", make(outside.join("new"))),
        ("dots", make(inside.join("..").join(name).join("new-by-dots"))),
        ("way-out", make(inside.join(WAY_OUT).join("new-by-link"))),
        ("proc", make(PathBuf::from(through + &outside.join("new-by-proc").to_string_lossy()))),
        ("overwrite", existing("overwrite", OpenOptions::new().write(true))),
        ("append", existing("append", OpenOptions::new().append(true))),
        ("truncate", truncate(&outside.join("truncate"))),
        ("delete", fs::remove_file(outside.join("delete"))),
        ("rename", fs::rename(outside.join("rename"), outside.join("renamed"))),
        ("folder", fs::create_dir(outside.join("new-folder"))),
        ("symlink", symlink("/", outside.join("new-symlink"))),
        ("link", link_and_write(&outside.join("link"), &inside.join("link"))),
        ("mode", fs::set_permissions(outside.join("mode"), fs::Permissions::from_mode(0o777))),
        ("times", times(&outside.join("times"))),
        ("linked", fs::write(inside.join(LINKED), "changed")),
        ("temporary", fs::write(&temporary, "made").and_then(|()| fs::remove_file(&temporary))),
        ("signal", signal(supervisor)),
        ("door", UnixStream::connect(outside.join(DOOR)).map(drop)),
    ];
    tell(&attempts)
}

/// One line for each: a name, and `ok` or what the system said.
fn tell(attempts: &[(&str, io::Result<()>)]) -> io::Result<()> {
    let mut said = String::new();
    for (name, result) in attempts {
        let how = match result {
            Ok(()) => "ok".to_owned(),
            Err(error) => error.to_string(),
        };
        said.push_str(&format!("{name}\t{}\n", how.replace('\n', " ")));
    }
    io::stdout().write_all(said.as_bytes())
}

/// All that a worker does with its own files.
fn life_inside(inside: &Path) -> io::Result<()> {
    let (one, two) = (inside.join("one"), inside.join("two"));
    fs::create_dir(&one)?;
    fs::create_dir(&two)?;
    fs::write(one.join("file"), "a long text")?;
    fs::write(one.join("file"), "short")?;
    fs::rename(one.join("file"), two.join("file"))?;
    fs::hard_link(two.join("file"), one.join("other"))?;
    symlink("file", two.join("link"))?;
    fs::set_permissions(two.join("file"), fs::Permissions::from_mode(0o755))?;
    fs::remove_dir_all(&one)?;
    fs::remove_dir_all(&two)
}

/// Without opening it for writing first.
fn truncate(path: &Path) -> io::Result<()> {
    Ok(nix::unistd::truncate(path, 0)?)
}

/// A second name inside for a file outside would be a way to write it.
fn link_and_write(outside: &Path, inside: &Path) -> io::Result<()> {
    fs::hard_link(outside, inside)?;
    fs::write(inside, "changed")
}

fn times(path: &Path) -> io::Result<()> {
    File::open(path)?.set_modified(SystemTime::UNIX_EPOCH)
}

/// Whether it could; nothing is sent.
fn signal(supervisor: &str) -> io::Result<()> {
    let pid = supervisor.parse().ok().and_then(Pid::from_raw);
    Ok(test_kill_process(pid.ok_or(io::ErrorKind::InvalidInput)?)?)
}

fn network(tcp: &str, udp: &str) -> io::Result<()> {
    let port = |word: &str| word.parse::<u16>().map_err(io::Error::other);
    let (tcp, udp) = (port(tcp)?, port(udp)?);
    let send = || UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?.send_to(b"hello", (Ipv4Addr::LOCALHOST, udp));
    tell(&[
        ("tcp", TcpStream::connect_timeout(&(Ipv4Addr::LOCALHOST, tcp).into(), ANSWER).map(drop)),
        ("udp", send().map(drop)),
    ])
}

/// Leaves somebody behind who is in a session of their own and nobody's child, and ends when they are up.
fn leave(words: &[OsString]) -> io::Result<()> {
    let mut child = again("fork", words)?.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
    let said = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
    let mut up = String::new();
    BufReader::new(said).read_line(&mut up)?;
    child.wait()?;
    if up == "up\n" { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

fn fork(words: &[OsString]) -> io::Result<()> {
    rustix::process::setsid()?;
    // It is not waited for: that is the point.
    again("linger", words)?.spawn().map(drop)
}

/// Holds a lock for as long as it lives.
fn linger(path: &Path) -> io::Result<()> {
    let file = File::create(path)?;
    file.lock()?;
    io::stdout().write_all(b"up\n")?;
    std::thread::sleep(LINGERING);
    Ok(())
}

fn again(what: &str, words: &[OsString]) -> io::Result<Command> {
    // By this link even if the program's file is gone.
    let running = Path::new("/proc/self/exe");
    let program =
        if running.symlink_metadata().is_ok() { running.to_path_buf() } else { std::env::current_exe()? };
    let mut command = Command::new(program);
    command.arg(WORD).arg(what).args(words.get(3..).unwrap_or_default());
    Ok(command)
}
