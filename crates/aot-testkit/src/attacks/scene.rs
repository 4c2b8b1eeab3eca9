//! Plays a batch of attacks: the home with its victims, the project with its loop, the runs. Knows nothing of what counts as
//! an escape.

use std::fs;
use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{MetadataExt, lchown};
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::judge::{self, Seen};
use super::{Batch, Cage, Door, Trial, User, attacks};
use crate::project::{Loop, Project, STATE};

/// Whoever is nobody.
const NOBODY: u32 = 65534;

/// How long a loop of attacks may take by its own constraints, and how much later it must have ended.
const WALL: u64 = 30;
const SLACK: Duration = Duration::from_secs(30);

/// How long a verb may take.
const VERB: Duration = Duration::from_secs(20);

/// What no worker may change: the tests, the settings, and files that steer how tests run, which are not there yet.
pub const PROTECTED: [&str; 8] = [
    "tests/**",
    "aot.toml",
    "conftest.py",
    "GNUmakefile",
    "unittest.py",
    "package.json",
    "tox.ini",
    "build.rs",
];

/// What listens, lives and lies outside, for one attack.
pub struct Outsider {
    pub number: usize,
    pub process: Child,
    pub tcp: TcpListener,
    pub udp: UdpSocket,
    pub socket: UnixListener,
    pub abstract_socket: UnixListener,
}

/// What the program said, in text and in JSON lines.
#[derive(Debug, Default)]
pub struct Heard {
    pub runs: Vec<String>,
    /// Verbs that did not end in time.
    pub hung: Vec<String>,
    /// The exit code of the loop; `None` for a clone that nobody ran.
    pub exit: Option<i32>,
}

pub fn play(aot: &Path, batch: &Batch) -> Vec<Trial> {
    let project = Project::new(aot, "");
    let mut victims: Vec<Outsider> = batch.attacks.iter().map(|number| victim(&project, *number)).collect();
    furnish(&project, batch, &victims);
    if batch.user == User::Nobody {
        give(project.home());
    }
    let before = judge::look(&project, &mut victims);
    let heard = run(&project, batch);
    let after = judge::look(&project, &mut victims);
    let found =
        judge::judge(&Seen { project: &project, batch, before: &before, after: &after, heard: &heard });
    for victim in &mut victims {
        // It is ours, and it may be dead already.
        let _ = (victim.process.kill(), victim.process.wait());
    }
    for (pid, _) in project.processes() {
        Project::kill(pid);
    }
    if found.iter().any(|(_, found)| !found.is_empty()) && std::env::var_os("AOT_KEEP").is_some() {
        eprintln!("{:?}: {}", batch, project.keep().display());
    }
    let place = |(attack, found)| Trial { attack, cage: batch.cage, user: batch.user, found };
    found.into_iter().map(place).collect()
}

fn victim(project: &Project, number: usize) -> Outsider {
    fs::create_dir_all(project.path("../proofs")).expect("a folder");
    project.write(&format!("../victim-{number}"), "as it was\n");
    project.write(&format!("../folder-{number}/file"), "as it was\n");
    project.write(&format!("../shell-{number}"), "echo as it was\n");
    let mut sleeper = Command::new("sleep");
    // Not the project's home: it must not be taken for a process that the loop left.
    sleeper.arg("3600").env_clear().env("SECRET", format!("secret-{number}-"));
    sleeper.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let socket = UnixListener::bind(project.path(&format!("../socket-{number}"))).expect("a socket");
    let name = format!("aot-{}-{number}", project.home().display());
    let abstract_socket = UnixListener::bind_addr(&SocketAddr::from_abstract_name(name).expect("a name"));
    let abstract_socket = abstract_socket.expect("an abstract socket");
    let tcp = TcpListener::bind("127.0.0.1:0").expect("a port");
    let udp = UdpSocket::bind("127.0.0.1:0").expect("a port");
    for listener in [&socket, &abstract_socket] {
        listener.set_nonblocking(true).expect("it is ours");
    }
    tcp.set_nonblocking(true).expect("it is ours");
    udp.set_nonblocking(true).expect("it is ours");
    Outsider { number, process: sleeper.spawn().expect("it starts"), tcp, udp, socket, abstract_socket }
}

/// A script of the table, with the names of this scene in it.
fn fill(text: &str, project: &Project, victim: &Outsider) -> String {
    let home = project.home().display().to_string();
    let port =
        |address: std::io::Result<std::net::SocketAddr>| address.expect("it has one").port().to_string();
    text.replace("@PROOF@", &format!("{home}/proofs/{}", victim.number))
        .replace("@VICTIM@", &format!("{home}/victim-{}", victim.number))
        .replace("@FOLDER@", &format!("{home}/folder-{}", victim.number))
        .replace("@SHELL@", &format!("{home}/shell-{}", victim.number))
        .replace("@SOCKET@", &format!("{home}/socket-{}", victim.number))
        .replace("@ABSTRACT@", &format!("aot-{home}-{}", victim.number))
        .replace("@ROOT@", &project.root().display().to_string())
        .replace("@HOME@", &home)
        .replace("@SECRET@", &format!("secret-{}-", victim.number))
        .replace("@PID@", &victim.process.id().to_string())
        .replace("@TCP@", &port(victim.tcp.local_addr()))
        .replace("@UDP@", &port(victim.udp.local_addr()))
        .replace("@N@", &victim.number.to_string())
}

/// Writes the project and its loop.
fn furnish(project: &Project, batch: &Batch, victims: &[Outsider]) {
    let network = match (batch.door, batch.cage) {
        (Door::WorkOffline, _) => "network = \"off\"\n",
        // Without a cage nobody keeps a list, and the loop would not start.
        (Door::WorkListed, Cage::Bwrap | Cage::Landlock) => {
            "network = [\"localhost:61000\", \"127.0.0.9\"]\n"
        }
        _ => "",
    };
    let agent = "[agent.fake]\nlike = \"claude\"\nprogram = \"@HOME@/bin/fake-claude\"\ntry_first = false\n[agents]\nworker = \"fake\"\n";
    let agent = match batch.door {
        Door::Agent => agent.replace("@HOME@", &project.home().display().to_string()),
        _ => String::new(),
    };
    let settings = format!("[cage]\nkind = \"{}\"\n{network}{agent}", batch.cage.name());
    project.write("../.config/aot/aot.toml", &settings);
    for folder in ["../.local/share", "../.local/state", "../.cache"] {
        // Every home has them; what the program keeps there is not what is defended.
        fs::create_dir_all(project.path(folder)).expect("a folder");
    }
    project.write("README", "A project.\n");
    project.write("tests/t", "as it was\n");
    let mut text = String::new();
    for (victim, number) in victims.iter().zip(&batch.attacks) {
        let attack = &attacks()[*number];
        let script = fill(attack.script, project, victim);
        let before = fill(attack.before, project, victim);
        if matches!(batch.door, Door::BaseCase | Door::Setup | Door::Look | Door::Use | Door::Distrusted) {
            project.write_program(&format!("attack-{number}.sh"), &script);
        }
        if batch.door == Door::Agent {
            project.write_program(&format!("../bin/attack-{number}"), &script);
        }
        if !before.is_empty() {
            let done = sh(project, &before);
            assert!(done, "what comes before an attack fails: {before}");
        }
        text += &atom(batch.door, *number, &script);
    }
    let settled: Vec<String> = batch.attacks.iter().map(|number| format!("test -e done-{number}")).collect();
    let scripts: Vec<String> =
        batch.attacks.iter().map(|number| format!("sh ./attack-{number}.sh")).collect();
    let base_case = match batch.door {
        Door::BaseCase | Door::Distrusted => {
            format!("{{ {}; true; }} 2>&1; {}", scripts.join("; "), settled.join(" && "))
        }
        _ => settled.join(" && "),
    };
    let mode = match batch.door {
        Door::InPlace => "mode: in_place".to_owned(),
        Door::Unisolated => "mode: none".to_owned(),
        Door::Setup => format!("mode: worktree, setup: {:?}", format!("{}; true", scripts.join("; "))),
        _ => "mode: worktree".to_owned(),
    };
    let mode =
        if batch.door == Door::OutsideGit { String::new() } else { format!("\n  isolation: {{{mode}}}") };
    let fake = "#!/bin/sh\ncase \"$1\" in --version) echo 1.0; exit;; esac\n@RUN@\n";
    if batch.door == Door::Agent {
        // What the attacker prints is its answer, if it gives one; otherwise it says that all went well.
        let answer = r#"{"type":"result","subtype":"success","is_error":false,"structured_output":{"success":true,"summary":"done","artifacts":[],"reason":null,"too_large":false}}"#;
        let run = "n=$AOT_ATOM; n=${n#A}; sh @HOME@/bin/attack-$n > said-$n; cat said-$n; echo done > done-$n\ngrep -q type...result said-$n || echo '@ANSWER@'; rm -f said-$n"
            .replace("@ANSWER@", answer)
            .replace("@HOME@", &project.home().display().to_string());
        project.write_program("../bin/fake-claude", &fake.replace("@RUN@", &run));
    }
    let text = Loop {
        base_case: &format!("      - {{item: \"All were tried\", check: {{type: command, value: {base_case:?}}}}}"),
        constraints: &format!(
            "max_iterations: 12, max_parallel_agents: 3, max_stall_count: 1, agent_timeout: 4s, check_timeout: 4s, max_wall_time: {WALL}s"
        ),
        objective: &format!("  protected: [{}]{mode}", PROTECTED.map(|path| format!("{path:?}")).join(", ")),
        atoms: &text,
        or_groups: "",
    }
    .text();
    if batch.door != Door::OutsideGit {
        project.init();
    }
    if !project.path(STATE).exists() {
        project.write(STATE, &text);
    }
    for (victim, number) in victims.iter().zip(&batch.attacks) {
        let after = fill(attacks()[*number].after, project, victim);
        assert!(after.is_empty() || sh(project, &after), "what comes after the first commit fails: {after}");
    }
}

fn atom(door: Door, number: usize, script: &str) -> String {
    let run = match door {
        Door::Work
        | Door::WorkOffline
        | Door::WorkListed
        | Door::Shown
        | Door::InPlace
        | Door::OutsideGit
        | Door::Unisolated => {
            format!("run: {:?}", format!("( {script}\n) 2>&1; echo done > done-{number}"))
        }
        Door::Check => {
            let write = format!("cat > check-{number}.sh <<'EOF'\n{script}\nEOF\necho done > done-{number}");
            let check = format!("sh ./check-{number}.sh; true");
            format!("run: {write:?}, check: {{type: command, value: {check:?}}}")
        }
        Door::Distrusted => format!("run: \"sh ./attack-{number}.sh; echo done > done-{number}\""),
        // What setup made is not part of the work, unless the work takes it.
        Door::Setup => format!("run: \"cp stolen-{number} loot-{number}; echo done > done-{number}\""),
        Door::BaseCase | Door::Look | Door::Use => {
            format!("run: \"echo done > done-{number}\"")
        }
        // The agent's own answer is of no interest; its deeds are.
        Door::Agent => "agent: fake".to_owned(),
    };
    format!("  - {{id: A{number}, description: \"Try\", status: pending, depends_on: [], {run}}}\n")
}

fn sh(project: &Project, script: &str) -> bool {
    let mut command = Command::new("sh");
    project.dress(&mut command);
    command.args(["-ec", script]).status().is_ok_and(|status| status.success())
}

/// What a person types, each with a time limit.
fn run(project: &Project, batch: &Batch) -> Heard {
    let mut heard = Heard::default();
    let looking: [&[&str]; 12] = [
        &["status"],
        &["status", "--json"],
        &["show"],
        &["graph"],
        &["log"],
        &["ready"],
        &["validate"],
        &["gate"],
        &["lint"],
        &["agents"],
        &["doctor"],
        &["hook", "session-start"],
    ];
    let writing: [&[&str]; 7] = [
        &["atom", "add", "One more", "--run", "true"],
        &["verify"],
        &["redirect", "--intent", "Another", "--no-agent"],
        &["stop", "late"],
        &["confirm", "Nothing"],
        &["align", "--goal", "Files", "--check", "true", "--yes"],
        &["run", "--json"],
    ];
    match batch.door {
        Door::Look => looking.iter().for_each(|words| heard.listen(project, batch, words, VERB)),
        Door::Use | Door::Distrusted => {
            writing
                .iter()
                .for_each(|words| heard.listen(project, batch, words, Duration::from_secs(WALL) + SLACK));
        }
        _ => {
            let limit = Duration::from_secs(WALL) + SLACK;
            let run: &[&str] = if batch.door == Door::Shown { &["run"] } else { &["run", "--json"] };
            heard.exit = heard.listen_to(project, batch, run, limit);
            for words in [&["status"][..], &["log"], &["show"], &["graph"]] {
                heard.listen(project, batch, words, limit);
            }
        }
    }
    heard
}

impl Heard {
    fn listen(&mut self, project: &Project, batch: &Batch, words: &[&str], limit: Duration) {
        // Only the first run of a loop has an exit code that counts.
        let _ = self.listen_to(project, batch, words, limit);
    }

    fn listen_to(
        &mut self,
        project: &Project,
        batch: &Batch,
        words: &[&str],
        limit: Duration,
    ) -> Option<i32> {
        let plain = project.command(words);
        let mut command = match batch.user {
            User::Ourselves => plain,
            User::Nobody => {
                let mut other = Command::new("setpriv");
                project.dress(&mut other);
                let id = NOBODY.to_string();
                other.args(["--reuid", &id, "--regid", &id, "--clear-groups", "--"]);
                other.arg(plain.get_program()).args(plain.get_args());
                other
            }
        };
        for number in &batch.attacks {
            command.env(format!("TOKEN_{number}"), format!("secret-{number}-"));
        }
        if matches!(batch.door, Door::Look | Door::Distrusted) {
            command.env_remove("AOT_TRUST");
        }
        command.env("PATH", "/usr/local/bin:/usr/bin:/bin");
        if matches!(batch.door, Door::Look | Door::Use) {
            // A project that came from elsewhere, and that nobody has trusted.
            command.env_remove("AOT_TRUST");
        }
        let out = fs::File::create(project.note("heard")).expect("a file");
        command.stdout(out.try_clone().expect("a descriptor")).stderr(out);
        let began = Instant::now();
        let mut child = command.spawn().expect("the program starts");
        let exit = loop {
            match child.try_wait().expect("it can be waited for") {
                Some(status) => break Some(status.code().unwrap_or(-1)),
                None if began.elapsed() > limit => break None,
                None => std::thread::sleep(Duration::from_millis(5)),
            }
        };
        if exit.is_none() {
            self.hung.push(words.join(" "));
            for (pid, _) in project.processes() {
                Project::kill(pid);
            }
            let _ = child.wait();
        }
        self.runs.push(project.read_note("heard"));
        exit
    }
}

/// Makes everything in a home somebody else's.
fn give(folder: &Path) {
    lchown(folder, Some(NOBODY), Some(NOBODY)).expect("we are root");
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        let meta = entry.metadata().expect("it is there");
        lchown(&path, Some(NOBODY), Some(NOBODY)).expect("we are root");
        if meta.is_dir() && meta.nlink() > 0 {
            give(&path);
        }
    }
}

/// Whether a cage can be asked for at all here.
pub fn is_here(cage: Cage) -> bool {
    match cage {
        Cage::Bwrap => Path::new("/usr/bin/bwrap").exists(),
        Cage::Landlock | Cage::None => true,
    }
}
