//! What a tree costs in a large repository: `cargo run --release -p aot-runner --example tree_speed [FILES]`.
//! A second lend may cost at most a fifth of `git worktree add`.

use std::error::Error;
use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use aot_core::state::AtomId;
use aot_runner::confinement::Confinement;
use aot_runner::process::{Guard, guard};
use aot_runner::tree::{CommitMessage, End, Ground, IsolationRequest, Project, ProjectRepository, Work};

const FILES: usize = 20_000;
const PER_FOLDER: usize = 100;
const LENDS: u32 = 5;

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<_> = std::env::args_os().collect();
    if guard::is_called(&words) {
        // The reaper of this very program, which starts git.
        guard::run(&words);
        return Ok(());
    }
    let files = std::env::args().nth(1).map_or(Ok(FILES), |count| count.parse())?;
    let temporary = tempfile::tempdir()?;
    let root = temporary.path().canonicalize()?.join("p");
    fs::create_dir_all(root.join(".claude/aot"))?;
    fs::write(root.join(".claude/aot/.gitignore"), "*\n")?;
    for number in 0..files {
        let folder = root.join(format!("d{}", number / PER_FOLDER));
        fs::create_dir_all(&folder)?;
        fs::write(folder.join(format!("f{number}.txt")), format!("{number}\n").repeat(50))?;
    }
    git(&root, &["init", "-q", "-b", "main"])?;
    git(&root, &["config", "user.name", "Ann"])?;
    git(&root, &["config", "user.email", "ann@example.com"])?;
    git(&root, &["add", "-A"])?;
    git(&root, &["commit", "-q", "-m", "start"])?;

    let aside = root.with_file_name("aside").display().to_string();
    let began = Instant::now();
    git(&root, &["worktree", "add", "-q", "--detach", &aside])?;
    let add = began.elapsed();
    git(&root, &["worktree", "remove", "--force", &aside])?;
    tell("git worktree add", add);

    let project = Project {
        root: root.clone(),
        state: root.join(".claude/aot-loop-state.md"),
        sidecar: root.join(".claude/aot"),
        cache: None,
        repository: ProjectRepository::Searched,
    };
    let wanted = IsolationRequest {
        mode: None,
        share: Vec::new(),
        copy: Vec::new(),
        setup: None,
        teardown: None,
        shell: None,
        branch: None,
        loop_id: "speed".into(),
        confinement: Confinement::None,
        writable: Vec::new(),
    };
    let guard = Guard::new(std::env::current_exe()?);
    let began = Instant::now();
    let ground = Ground::open(&project, wanted, &guard)?;
    tell("open", began.elapsed());
    let mut dearest = Duration::ZERO;
    for attempt in 0..=LENDS {
        let work = Work { atom: AtomId::new("A1"), attempt };
        let began = Instant::now();
        let mut lent = ground.lend(&work)?;
        let lend = began.elapsed();
        tell(if attempt == 0 { "first lend" } else { "next lend" }, lend);
        if attempt > 0 {
            dearest = dearest.max(lend);
        }
        for folder in 0..10 {
            fs::write(lent.root().join(format!("d{folder}/new{attempt}.txt")), "new\n")?;
        }
        let began = Instant::now();
        ground.changed(&lent)?;
        tell("  changed", began.elapsed());
        let message = CommitMessage {
            subject: "speed".into(),
            summary: String::new(),
            loop_id: "speed".into(),
            atom: work.atom,
            attempt,
        };
        let began = Instant::now();
        let landing =
            ground.land(&mut lent, &message, &mut |_, _| Ok(()), &mut |_| ControlFlow::Break(()))?;
        tell("  land", began.elapsed());
        assert!(matches!(landing, aot_runner::tree::Landing::Landed { commit: Some(_), .. }), "{landing:?}");
        ground.give_back(lent, End::Landed)?;
    }
    let began = Instant::now();
    ground.close()?;
    tell("close", began.elapsed());
    println!(
        "a next lend costs at most {:.2} of `git worktree add`",
        dearest.as_secs_f64() / add.as_secs_f64()
    );
    Ok(())
}

fn tell(what: &str, took: Duration) {
    println!("{what:<20} {:>8.1} ms", took.as_secs_f64() * 1000.0);
}

fn git(folder: &Path, words: &[&str]) -> Result<(), Box<dyn Error>> {
    let status = Command::new("git").arg("-C").arg(folder).args(words).status()?;
    if status.success() { Ok(()) } else { Err(format!("git {words:?} failed").into()) }
}
