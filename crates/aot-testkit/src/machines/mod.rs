//! Several machines on this one: a Restate server, hosts that each have a home of their own, and the driver's project. Each
//! can be killed and started again. Knows nothing of what is tried there.

pub mod campaign;

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::project::{ProcessKind, Project, processes_of};

/// Nothing here takes this long unless it hangs.
const LONG: Duration = Duration::from_secs(60);

/// What the driver is called on its hosts.
pub const DRIVER: &str = "driver";

/// The pinned server, if it is installed here: beside the built program, or where `AOT_RESTATE` says.
pub fn server_program(aot: &Path) -> Option<PathBuf> {
    let named = std::env::var_os("AOT_RESTATE").map(PathBuf::from);
    let beside = || aot.ancestors().skip(1).map(|folder| folder.join("clients/bin/restate-server"));
    named.or_else(|| beside().find(|path| path.exists()))
}

/// A server with its own folder and ports, which stay the same when it is started again.
#[derive(Debug)]
pub struct Server {
    program: PathBuf,
    folder: PathBuf,
    /// For orders, for administration, and for other servers.
    ports: [u16; 3],
    /// The address at which it listens.
    ip: String,
    /// Further variables of its environment, by which it is set up.
    variables: Vec<(String, OsString)>,
    child: Option<Child>,
}

/// A process of `aot worker`, and what it said.
#[derive(Debug)]
pub struct HostMachine {
    pub name: String,
    pub home: PathBuf,
    words: Vec<String>,
    prefix: Vec<String>,
    child: Option<Child>,
    said: Option<Receiver<String>>,
    pub heard: Vec<String>,
}

#[derive(Debug)]
pub struct Machines {
    pub project: Project,
    pub server: Server,
    pub hosts: Vec<HostMachine>,
    aot: PathBuf,
    settings: String,
    folder: tempfile::TempDir,
}

impl Server {
    pub fn new(program: &Path, folder: &Path, ip: &str) -> Server {
        // Held together, so that they differ; free again before the server takes them.
        let held = [0; 3].map(|port| TcpListener::bind((ip, port)).expect("a free port"));
        let ports = held.map(|listener| listener.local_addr().expect("it listens").port());
        Server {
            program: program.to_path_buf(),
            folder: folder.to_path_buf(),
            ports,
            ip: ip.to_owned(),
            variables: Vec::new(),
            child: None,
        }
    }

    pub fn env(&mut self, name: &str, value: impl AsRef<OsStr>) {
        self.variables.push((name.to_owned(), value.as_ref().to_owned()));
    }

    /// Where it takes orders.
    pub fn ingress(&self) -> String {
        format!("{}:{}", self.ip, self.ports[0])
    }

    pub fn ip(&self) -> &str {
        &self.ip
    }

    /// As `--on` has it.
    pub fn address(&self) -> String {
        format!("restate=http://{}:{}", self.ip, self.ports[1])
    }

    /// Starts it and waits until it answers.
    pub fn start(&mut self) {
        let [ingress, admin, node] = self.ports.map(|port| format!("{}:{port}", self.ip));
        fs::create_dir_all(&self.folder).expect("a folder");
        let log = fs::OpenOptions::new().create(true).append(true).open(self.folder.join("log"));
        let log = log.expect("a file");
        let mut command = Command::new(&self.program);
        command
            .args(["--listen-mode", "tcp", "--node-name", "one", "--no-logo", "--base-dir"])
            .arg(self.folder.join("data"))
            .env("RESTATE_INGRESS__BIND_ADDRESS", ingress)
            .env("RESTATE_ADMIN__BIND_ADDRESS", &admin)
            .env("RESTATE_BIND_ADDRESS", &node)
            .env("RESTATE_ADVERTISED_ADDRESS", format!("http://{node}/"))
            .env("RESTATE_DISABLE_TELEMETRY", "true")
            // One loop needs little of it.
            .env("RESTATE_DEFAULT_NUM_PARTITIONS", "4")
            .env("RESTATE_ROCKSDB_TOTAL_MEMORY_SIZE", "128MB")
            .envs(self.variables.iter().cloned())
            // A server that is killed leaves files there.
            .env("TMPDIR", &self.folder)
            .current_dir(&self.folder)
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a descriptor"))
            .stderr(log);
        let mut child = command.spawn().expect("the server starts");
        let began = Instant::now();
        while !is_ready(&admin) {
            let ended = child.try_wait().expect("it can be waited for");
            assert!(ended.is_none(), "the server ended: {}", self.log());
            assert!(began.elapsed() < LONG, "the server does not answer: {}", self.log());
            std::thread::sleep(Duration::from_millis(20));
        }
        self.child = Some(child);
    }

    pub fn kill(&mut self) {
        end(&mut self.child);
    }

    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Whether the server says that it is well.
fn is_ready(admin: &str) -> bool {
    use std::io::{Read, Write};
    let Ok(mut stream) = std::net::TcpStream::connect(admin) else { return false };
    let mut answer = [0; 12];
    let asked = stream
        .set_read_timeout(Some(Duration::from_secs(1)))
        .and_then(|()| write!(stream, "GET /health HTTP/1.1\r\nHost: {admin}\r\nConnection: close\r\n\r\n"))
        .and_then(|()| stream.read_exact(&mut answer));
    asked.is_ok() && answer.ends_with(b"200")
}

impl HostMachine {
    fn start(&mut self, aot: &Path) {
        let mut command = dressed(&self.prefix, aot);
        dress_home(&mut command, &self.home);
        command.args(&self.words).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the host starts");
        let (sender, said) = channel();
        let (out, err) = (child.stdout.take().expect("asked for"), child.stderr.take().expect("asked for"));
        let also = sender.clone();
        std::thread::spawn(move || {
            BufReader::new(err).lines().map_while(Result::ok).all(|line| also.send(line).is_ok())
        });
        std::thread::spawn(move || {
            BufReader::new(out).lines().map_while(Result::ok).all(|line| sender.send(line).is_ok())
        });
        (self.child, self.said) = (Some(child), Some(said));
    }

    /// Waits until it says this, and returns the line.
    pub fn hear(&mut self, what: &str) -> String {
        let began = Instant::now();
        let said = self.said.as_ref().expect("it was started");
        loop {
            match said.recv_timeout(LONG.saturating_sub(began.elapsed())) {
                Ok(line) => {
                    self.heard.push(line.clone());
                    if line.contains(what) {
                        return line;
                    }
                }
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    panic!("{} never said {what:?}: {:#?}", self.name, self.heard)
                }
            }
        }
    }

    /// All that it has said so far.
    pub fn listen(&mut self) -> &[String] {
        let said = self.said.iter().flat_map(Receiver::try_iter);
        self.heard.extend(said);
        &self.heard
    }

    pub fn pid(&self) -> Option<Pid> {
        self.child.as_ref().map(Pid::from_child)
    }

    pub fn kill(&mut self) {
        end(&mut self.child);
    }

    /// Everybody who has this host's home.
    pub fn processes(&self) -> Vec<Pid> {
        processes_of(&self.home).into_iter().map(|(pid, _)| pid).collect()
    }

    /// Those of them who sleep for minutes, as tests let them.
    pub fn sleepers(&self) -> Vec<Pid> {
        let sleeps = |pid: &Pid| {
            let words = fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero())).unwrap_or_default();
            words.starts_with(b"sleep\x0030")
        };
        self.processes().into_iter().filter(sleeps).collect()
    }

    /// Only the host itself hears it.
    pub fn signal(&self, signal: Signal) {
        let pid = self.pid().expect("it was started");
        kill_process(pid, signal).expect("it is there");
    }
}

impl Drop for HostMachine {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Machines {
    /// A server and the driver's machine; hosts come with [`Machines::add`].
    pub fn new(aot: &Path, program: &Path, project: Project, settings: &str) -> Machines {
        Machines::in_network(aot, program, project, settings, "127.0.0.1")
    }

    /// The same with the server at this address.
    pub fn in_network(aot: &Path, program: &Path, project: Project, settings: &str, ip: &str) -> Machines {
        Machines::set_up(aot, program, project, settings, ip, |_| {})
    }

    /// The same with a server that is set up like this.
    pub fn with_server(
        aot: &Path,
        program: &Path,
        project: Project,
        settings: &str,
        set_up: impl FnOnce(&mut Server),
    ) -> Machines {
        Machines::set_up(aot, program, project, settings, "127.0.0.1", set_up)
    }

    fn set_up(
        aot: &Path,
        program: &Path,
        project: Project,
        settings: &str,
        ip: &str,
        set_up: impl FnOnce(&mut Server),
    ) -> Machines {
        let folder = tempfile::Builder::new().prefix("aot-machines-").tempdir().expect("a folder");
        let mut server = Server::new(program, &folder.path().join("server"), ip);
        set_up(&mut server);
        server.start();
        let (aot, settings) = (aot.to_path_buf(), settings.to_owned());
        Machines { project, server, hosts: Vec::new(), aot, settings, folder }
    }

    /// The key of the driver's machine.
    pub fn driver_key(&self) -> String {
        let said = self.project.aot(&["hosts", "--json"]);
        let told: Value = serde_json::from_slice(&said.stdout)
            .unwrap_or_else(|_| panic!("no key: {}", String::from_utf8_lossy(&said.stderr)));
        told["key"].as_str().expect("a key").to_owned()
    }

    /// Starts a host that the driver trusts, and waits until the server knows it.
    pub fn add(&mut self, name: &str, more: &[&str]) -> &mut HostMachine {
        self.add_in_network(name, "127.0.0.1", &[], more)
    }

    /// The same at another address, started by this program.
    pub fn add_in_network(
        &mut self,
        name: &str,
        ip: &str,
        prefix: &[&str],
        more: &[&str],
    ) -> &mut HostMachine {
        let key = self.driver_key();
        let at =
            self.begin_host(name, ip, prefix, &[&["--driver", &format!("{DRIVER}={key}")], more].concat());
        let told = self.hosts[at].hear("\"listening\"");
        let told: Value = serde_json::from_str(&told).expect("JSON");
        self.trust(name, told["key"].as_str().expect("a key"));
        self.hosts[at].hear("ready");
        &mut self.hosts[at]
    }

    /// Starts a host with these words only.
    pub fn begin_host(&mut self, name: &str, ip: &str, prefix: &[&str], more: &[&str]) -> usize {
        let home = self.folder.path().canonicalize().expect("it exists").join(name);
        fs::create_dir_all(home.join(".config/aot")).expect("folders");
        fs::write(home.join(".config/aot/aot.toml"), &self.settings).expect("a file");
        let root = self.project.root().display().to_string();
        let (on, listen) = (self.server.address(), format!("{ip}:0"));
        let mut words = vec!["worker", "--json", "--on", &on, "--listen", &listen, "--name", name];
        if !more.contains(&"--repo") {
            words.extend(["--repo", &root]);
        }
        words.extend(more);
        let mut host = HostMachine {
            name: name.to_owned(),
            home,
            words: words.into_iter().map(str::to_owned).collect(),
            prefix: prefix.iter().map(|word| (*word).to_owned()).collect(),
            child: None,
            said: None,
            heard: Vec::new(),
        };
        host.start(&self.aot);
        self.hosts.push(host);
        self.hosts.len() - 1
    }

    pub fn trust(&self, name: &str, key: &str) {
        let said = self.project.aot(&["hosts", "--trust", &format!("{name}={key}")]);
        assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    }

    pub fn host(&mut self, name: &str) -> &mut HostMachine {
        self.hosts.iter_mut().find(|host| host.name == name).expect("it was added")
    }

    /// Starts it anew, as it was started first. It listens at another port.
    pub fn restart(&mut self, name: &str) {
        let aot = self.aot.clone();
        let host = self.host(name);
        host.kill();
        host.start(&aot);
        host.hear("ready");
    }

    /// The same without waiting for it.
    pub fn restart_later(&mut self, number: usize) {
        let aot = self.aot.clone();
        let host = &mut self.hosts[number];
        host.kill();
        host.start(&aot);
    }

    /// `aot run` on these hosts.
    pub fn run(&self, more: &[&str]) -> Command {
        let on = self.server.address();
        let words = ["run", "--json", "--on", &on];
        self.project.command(&[&words[..], more].concat())
    }

    /// Whoever is still at work on any machine when nobody should be, besides the hosts themselves.
    pub fn at_work(&self) -> Vec<(Pid, ProcessKind)> {
        let hosts = self.hosts.iter().flat_map(|host| {
            processes_of(&host.home).into_iter().filter(|(_, kind)| {
                // A host that waits is a driver by its name, and its reaper and its guards wait with it.
                !matches!(kind, ProcessKind::Driver | ProcessKind::Reaper | ProcessKind::Guard)
            })
        });
        hosts.chain(self.project.processes()).collect()
    }

    /// The same, after they had time to end.
    pub fn survivors(&self) -> Vec<(Pid, ProcessKind)> {
        let began = Instant::now();
        loop {
            let left = self.at_work();
            if left.is_empty() || began.elapsed() > Duration::from_secs(5) {
                return left;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Keeps the folders, for somebody to look into, and returns where they are.
    pub fn keep(mut self) -> (PathBuf, PathBuf) {
        self.hosts.clear();
        self.server.kill();
        self.folder.disable_cleanup(true);
        let place = self.folder.path().to_path_buf();
        (self.project.keep(), place)
    }
}

/// The environment of a machine of its own.
fn dress_home(command: &mut Command, home: &Path) {
    command
        .env_clear()
        .env("PATH", std::env::var("PATH").unwrap_or_default())
        .env("HOME", home)
        .env("SHELL", "/bin/sh")
        .env("LC_ALL", "C.UTF-8")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .current_dir(home)
        .stdin(Stdio::null());
}

fn dressed(prefix: &[String], program: &Path) -> Command {
    match prefix.split_first() {
        None => Command::new(program),
        Some((first, rest)) => {
            let mut command = Command::new(first);
            command.args(rest).arg(program);
            command
        }
    }
}

fn end(child: &mut Option<Child>) {
    if let Some(mut child) = child.take() {
        // It may have ended by itself.
        let _ = child.kill();
        let _ = child.wait();
    }
}
