//! What ordinary programs need works in a cage.

use std::process::Command;

use aot_runner::process::How;

use super::kit::{Yard, is_here, kinds};

#[test]
fn ordinary_tools_work() {
    for &kind in kinds() {
        let yard = Yard::of(kind);
        let git = |words: &[&str]| {
            let done = Command::new("git").arg("-C").arg(yard.path("out")).args(words).output();
            let done = done.expect("git is here");
            assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        };
        // A repository outside, and a tree of it inside, as workers have.
        git(&["init", "-q"]);
        git(&["add", "."]);
        git(&["-c", "user.name=Ada", "-c", "user.email=a@example.org", "commit", "-q", "-m", "one"]);
        git(&["worktree", "add", "-q", "--detach", &yard.path("in/tree").to_string_lossy()]);
        for (needs, script, expected) in [
            ("bash", "cat <<EOF\nhere $((1+1))\nEOF", "here 2\n"),
            ("bash", "cat < <(echo process)", "process\n"),
            ("bash", "echo out > /dev/stdout; echo err > /dev/stderr", "out\nerr\n"),
            ("bash", "echo gone > /dev/null; head -c 3 /dev/zero | wc -c; test -c /dev/tty", "3\n"),
            ("mktemp", "f=$(mktemp) && echo x > $f && case $f in $IN/tmp/*) echo inside;; esac", "inside\n"),
            ("sort", "seq 300000 -1 1 | sort -n -S 1M | head -1", "1\n"),
            (
                "make",
                "printf 'a b:\\n\\t@sleep 0.01\\n\\t@touch $@\\nc: a b\\n\\t@echo made\\n' > Makefile; make -s -j2 c",
                "made\n",
            ),
            ("cc", "echo 'int main(){return 0;}' > x.c && cc x.c -o x && ./x && echo built", "built\n"),
            (
                "python3",
                "python3 -c 'import tempfile; tempfile.TemporaryFile().write(b\"x\"); print(1)'",
                "1\n",
            ),
            (
                "python3",
                "python3 -c 'import multiprocessing as m; m.Lock(); print(m.get_context(\"fork\").Pool(2).map(abs, [-1]))'",
                "[1]\n",
            ),
            (
                "python3",
                "python3 -c 'import os,pty; a,b=pty.openpty(); os.write(b,b\"tty\"); print(os.read(a,3).decode())'",
                "tty\n",
            ),
            ("script", "script -qec 'echo in a terminal' /dev/null | tr -d '\\r'", "in a terminal\n"),
            ("node", "node -e 'require(\"fs\").writeFileSync(\"n\", \"x\"); console.log(1)'", "1\n"),
            (
                "git",
                "cd tree && git status --short && git diff && echo x > file && git status --short && git diff --stat | tail -1",
                " M file\n 1 file changed, 1 insertion(+), 1 deletion(-)\n",
            ),
            ("git", "cd tree && git log --format=%s", "one\n"),
            (
                "git",
                "git init -q fresh && cd fresh && git -c user.name=a -c user.email=b commit -q --allow-empty -m x && git log --format=%s",
                "x\n",
            ),
            ("sh", "test \"$(id -u)\" = \"$(stat -c %u .)\" && echo the same user", "the same user\n"),
            ("ps", "ps -o comm= -p $$; true", "bash\n"),
        ] {
            if !is_here(needs) {
                // The script is for whoever has the program; its absence shows in the list of what is here.
                continue;
            }
            let (how, said) = yard.sh(script);
            assert_eq!((how, said.as_str()), (How::Exited(0), expected), "{kind}: {script}");
        }
    }
}

/// What is inside can only become less: a job may put jobs of its own into cages.
#[test]
fn a_cage_stands_in_a_cage() {
    for &kind in kinds() {
        let yard = Yard::of(kind);
        let script = format!("HOME=$IN SHELL=/bin/sh {} doctor --json", env!("CARGO_BIN_EXE_aot"));
        let (how, said) = yard.sh(&script);
        let object: serde_json::Value =
            serde_json::from_str(&said).unwrap_or_else(|_| panic!("{how:?} {said}"));
        assert_ne!(object["cage"]["kind"], "none", "{kind}: {object}");
        assert_eq!(how, How::Exited(0), "{kind}: {object}");
    }
}
