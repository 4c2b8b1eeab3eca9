//! The small program that tries what a cage should refuse: this same binary, started with a hidden word. It says what
//! happened, one line for each attempt, and judges nothing.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpStream, UdpSocket};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::{SocketAddr, UnixStream};
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
        "write" => write(&path(3), &path(4), word(5), word(6)),
        "read" => read(&words[3..]),
        "network" => network(word(3), word(4)),
        "hosts" => hosts(word(3), word(4)),
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

/// The same under a name that no folder holds.
pub(super) const ABSTRACT: &str = "abstract";

/// One that belongs to everybody.
pub(super) const DEVICE: &str = "device";

/// Inside, and hard-linked to a file outside before the cage was built.
pub(super) const LINKED: &str = "linked";

/// Inside, and a symbolic link to the folder outside.
pub(super) const WAY_OUT: &str = "way-out";

fn write(inside: &Path, outside: &Path, supervisor: &str, abstract_name: &str) -> io::Result<()> {
    let name = outside.file_name().unwrap_or_default();
    let make = |path: PathBuf| fs::write(path, "made");
    let existing = |name: &str, options: &mut OpenOptions| {
        options.open(outside.join(name)).and_then(|mut file| file.write_all(b"changed"))
    };
    let number = supervisor.split(':').next().unwrap_or_default();
    let through = format!("/proc/{number}/root");
    let temporary = PathBuf::from(format!("/tmp/aot-trial-{number}-{}", std::process::id()));
    let attempts: [(&str, io::Result<()>); 24] = [
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
        ("limits", limits(supervisor)),
        ("priority", priority(supervisor)),
        (
            ABSTRACT,
            abstract_address(abstract_name).and_then(|name| UnixStream::connect_addr(&name)).map(drop),
        ),
        (DEVICE, same_mode(Path::new("/dev/null"))),
        (DOOR, UnixStream::connect(outside.join(DOOR)).map(drop)),
    ];
    tell(&attempts)
}

/// So many bytes of a file show that it can be read.
const READ: u64 = 64 << 10;

/// For each file what its first bytes add up to: something else may stand in its place.
fn read(paths: &[OsString]) -> io::Result<()> {
    let mut said = String::new();
    for (place, path) in paths.iter().enumerate() {
        let how = digest(Path::new(path)).unwrap_or_else(|error| error.to_string());
        said.push_str(&format!("{place}\t{}\n", how.replace('\n', " ")));
    }
    io::stdout().write_all(said.as_bytes())
}

pub(super) fn digest(path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    File::open(path)?.take(READ).read_to_end(&mut bytes)?;
    Ok(blake3::hash(&bytes).to_string())
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
    Ok(test_kill_process(pid(supervisor)?)?)
}

/// Names a process so that it is not taken for another one that has the same number among the processes of a cage.
pub(super) fn name_of_process(pid: u32) -> String {
    format!("{pid}:{}", started(pid))
}

fn pid(word: &str) -> io::Result<Pid> {
    let number: u32 = word.split(':').next().and_then(|number| number.parse().ok()).unwrap_or_default();
    if name_of_process(number) != word {
        return Err(io::ErrorKind::NotFound.into());
    }
    Ok(Pid::from_raw(number.cast_signed()).ok_or(io::ErrorKind::InvalidInput)?)
}

/// When it started, as the kernel tells it; nothing where it does not.
fn started(pid: u32) -> String {
    let stat = fs::read(format!("/proc/{pid}/stat")).unwrap_or_default();
    let after = stat.iter().rposition(|byte| *byte == b')').unwrap_or(stat.len());
    let rest = String::from_utf8_lossy(&stat[after..]);
    rest.split_ascii_whitespace().nth(20).unwrap_or_default().to_owned()
}

/// To what they are: we have the same.
#[cfg(target_os = "linux")]
fn limits(supervisor: &str) -> io::Result<()> {
    let same = rustix::process::getrlimit(rustix::process::Resource::Core);
    Ok(rustix::process::prlimit(Some(pid(supervisor)?), rustix::process::Resource::Core, same).map(drop)?)
}

#[cfg(not(target_os = "linux"))]
fn limits(_: &str) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// To what it is.
fn priority(supervisor: &str) -> io::Result<()> {
    let other = Some(pid(supervisor)?);
    let same = rustix::process::getpriority_process(other)?;
    Ok(rustix::process::setpriority_process(other, same)?)
}

/// To what it is, which only an owner may.
fn same_mode(path: &Path) -> io::Result<()> {
    fs::set_permissions(path, fs::metadata(path)?.permissions())
}

#[cfg(target_os = "linux")]
pub(super) fn abstract_address(name: &str) -> io::Result<SocketAddr> {
    <SocketAddr as std::os::linux::net::SocketAddrExt>::from_abstract_name(name)
}

#[cfg(not(target_os = "linux"))]
pub(super) fn abstract_address(_: &str) -> io::Result<SocketAddr> {
    Err(io::ErrorKind::Unsupported.into())
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

/// By the proxy that the cage names, and past it.
fn hosts(named: &str, other: &str) -> io::Result<()> {
    let port = other.parse::<u16>().map_err(io::Error::other)?;
    let there = (Ipv4Addr::LOCALHOST, port).into();
    // Where nobody listens the kernel says so with the second.
    let udp = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|socket| {
        socket.connect(there)?;
        socket.send(b"hello").and_then(|_| socket.send(b"hello"))
    });
    tell(&[
        ("named", tunnel(named)),
        ("other", tunnel(other)),
        ("past", TcpStream::connect_timeout(&there, ANSWER).map(drop)),
        ("udp", udp.map(drop)),
        ("vsock", vsock()),
    ])
}

/// To a port of this machine outside.
fn tunnel(port: &str) -> io::Result<()> {
    let proxy = std::env::var("HTTPS_PROXY").map_err(io::Error::other)?;
    let mut stream = TcpStream::connect(proxy.trim_start_matches("http://"))?;
    stream.set_read_timeout(Some(ANSWER))?;
    write!(stream, "CONNECT localhost:{port} HTTP/1.1\r\nHost: localhost:{port}\r\n\r\n")?;
    let mut first = String::new();
    BufReader::new(stream).read_line(&mut first)?;
    if first.contains(" 200 ") { Ok(()) } else { Err(io::Error::other(first.trim().to_owned())) }
}

/// No namespace divides these.
#[cfg(target_os = "linux")]
fn vsock() -> io::Result<()> {
    use rustix::net::{AddressFamily, SocketType, socket};
    Ok(socket(AddressFamily::VSOCK, SocketType::STREAM, None).map(drop)?)
}

#[cfg(not(target_os = "linux"))]
fn vsock() -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
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
