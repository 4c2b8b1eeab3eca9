#!/usr/bin/env python3
"""Draws watch.svg: what `aot watch` really shows of a loop, in a tmux of 80 by 24.

    cargo build && docs/img/watch.py target/debug/aot
"""

import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from demo import LINE, MARGIN, SIZE, spans

WIDTH = 656
PROGRAM = Path(sys.argv[1] if len(sys.argv) > 1 else "aot").resolve()
AGENT = """#!/bin/sh
case "$(cat)" in
*Expiry*) doing='Edit src/sessions/expiry.ts' ;;
*) doing='Bash npm test -- sessions' ;;
esac
echo '{"type": "tool", "name": "'"$doing"'"}'
until test -f "$(dirname "$0")/../go"; do sleep 0.2; done
"""
SETTINGS = """[agents]
worker = "own"
probe = "none"
coordinator = "none"
[agent.own]
program = "AGENT"
input = "prompt"
answer = "event"
try_first = false
[[agent.own.events]]
when = { type = "end" }
answer = "result"
[[agent.own.events]]
when = { type = "tool" }
doing = ["name"]
"""
STATE = """---
objective:
  goal: "Let people log in, and stay logged in over a restart of the server"
  base_case:
    checklist:
      - {item: "The tests are green", check: {type: command, value: "test -f src/login.ts"}}
      - {item: "The linter is quiet", check: {type: command, value: "true"}}
      - {item: "It reads well", check: {type: assertion, value: "It reads well"}}
  background_intent: Existing users need accounts that work
  deliverables: A login API
  definition_of_done: The tests are green
  constraints: {max_iterations: 20, max_parallel_agents: 2, max_stall_count: 3, max_wall_time: "2h"}
atoms:
  - {id: A1, description: The user model, status: pending, depends_on: [], run: "mkdir -p src && echo model > src/model.ts"}
  - {id: A2, description: Hashing of passwords, status: pending, depends_on: [A1], run: "echo hash > src/hash.ts"}
  - {id: A3, description: Tokens signed with a key from the vault, status: pending, depends_on: [A1], or_group: tokens, run: "echo the vault is not reachable; exit 1"}
  - {id: A4, description: Tokens by sessions in a table, status: pending, depends_on: [A1], or_group: tokens}
  - {id: A5, description: Expiry of sessions, status: pending, depends_on: [A2]}
  - {id: A6, description: The login route, status: pending, depends_on: [A2, A3]}
or_groups:
  tokens: {choices: [A3, A4], selected: A3, failed: []}
---
"""


def captured(folder):
    """The lines of the screen, with the colours of each."""
    home, project = folder / "home", folder / "project"
    (project / ".claude").mkdir(parents=True)
    home.mkdir()
    names = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b"}
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "LC_ALL": "C.UTF-8", "AOT_TRUST": str(project), **names}
    (home / "agent.sh").write_text(AGENT)
    (home / "agent.sh").chmod(0o755)
    (project / "aot.toml").write_text(SETTINGS.replace("AGENT", str(home / "agent.sh")))
    (project / ".claude/aot-loop-state.md").write_text(STATE)

    def run(*words):
        return subprocess.run(words, cwd=project, env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout

    run("git", "init", "-q", "-b", "main")
    run("git", "add", "aot.toml")
    run("git", "commit", "-qm", "start")
    tmux = ["tmux", "-S", str(folder / "tmux")]
    loop = subprocess.Popen([PROGRAM, "run", "--json"], cwd=project, env=environment, stdout=subprocess.DEVNULL)
    try:
        run(*tmux, "new-session", "-d", "-x", "80", "-y", "24", f"exec {PROGRAM} watch")
        shown = ""
        while "Bash npm test" not in shown or "Edit src" not in shown:
            time.sleep(0.2)
            shown = run(*tmux, "capture-pane", "-p", "-e")
        time.sleep(12)
        return run(*tmux, "capture-pane", "-p", "-e").rstrip("\n").split("\n")
    finally:
        subprocess.run([*tmux, "kill-server"], check=False)
        (folder / "go").touch()
        loop.terminate()
        loop.wait()


def absolute(lines):
    """tmux tells what changes in the colours, from line to line; this tells each time what they are."""
    codes, all_drawn = [], []
    for line in lines:
        drawn = f"\x1b[{';'.join(['0', *codes])}m"
        for part in re.split(r"(\x1b\[[0-9;]*m)", line):
            if not part.startswith("\x1b["):
                drawn += part
                continue
            for code in part[2:-1].split(";"):
                if code in ("", "0"):
                    codes = []
                elif len(code) > 1:
                    codes = [one for one in codes if one[0] != code[0] or len(one) == 1]
                codes += [code] if code not in ("", "0", "39", "49") else []
            drawn += f"\x1b[{';'.join(['0', *codes])}m"
        all_drawn.append(drawn)
    return all_drawn


def picture(lines):
    height = 2 * MARGIN + LINE * len(lines)
    rows = []
    for number, line in enumerate(absolute(lines)):
        y = MARGIN + LINE * number
        if re.sub(r"\x1b\[[0-9;]*m", "", line).startswith(">"):
            rows.append(f'<rect x="{MARGIN - 4}" y="{y}" width="{WIDTH - 2 * MARGIN + 8}" height="{LINE}" fill="#373e47"/>')
        rows.append(f'<text x="{MARGIN}" y="{y + LINE - 4}" xml:space="preserve">{spans(line)}</text>')
    body = "\n".join(rows)
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img"
 aria-label="aot watch: the graph as an outline, two agents at work with what each does now, the checks, and the log"
 font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, monospace" font-size="{SIZE}" fill="#d1d7e0">
<rect width="100%" height="100%" rx="8" fill="#1c2128"/>
{body}
</svg>
"""


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        Path(__file__).with_name("watch.svg").write_text(picture(captured(Path(folder))))
