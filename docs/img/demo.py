#!/usr/bin/env python3
"""Draws demo.svg: what `aot demo` really prints, each line at the moment at which it comes.

    cargo build && docs/img/demo.py target/debug/aot
"""

import html
import os
import re
import subprocess
import sys
import time
from pathlib import Path

PROGRAM = sys.argv[1] if len(sys.argv) > 1 else "aot"
WIDTH, LINE, SIZE, MARGIN = 760, 17, 13, 14
# Seconds between the first line and the second, and how long the end stays before it begins anew.
LEAD, REST = 1.0, 6.0
COLOURS = {"31": "#f47067", "32": "#8ddb8c", "33": "#e0c285", "36": "#76e3ea"}


def captured():
    """The lines of the run, with the second at which each came."""
    environment = {**os.environ, "CLICOLOR_FORCE": "1", "LC_ALL": "C.UTF-8"}
    began, lines, shown = None, [("$ aot run", 0.0)], False
    with subprocess.Popen([PROGRAM, "demo"], stdout=subprocess.PIPE, text=True, env=environment) as demo:
        for line in demo.stdout:
            line = line.rstrip("\n")
            if line == "$ aot run":
                began, shown = time.monotonic(), True
            elif shown and line.startswith("The end was proven"):
                shown = False
            elif shown:
                lines.append((line, LEAD + time.monotonic() - began))
    if demo.returncode != 0:
        sys.exit(f"the demo failed with {demo.returncode}")
    while not lines[-1][0]:
        lines.pop()
    return lines


def spans(line):
    """A line with its colours as spans of SVG."""
    drawn, style = [], ""
    for part in re.split(r"(\x1b\[[0-9;]*m)", line):
        if part.startswith("\x1b["):
            codes = part[2:-1].split(";")
            colour = next((COLOURS[code] for code in codes if code in COLOURS), None)
            style = f' fill="{colour}"' if colour else ""
            if "2" in codes:
                style += ' opacity="0.6"'
            if "1" in codes:
                style += ' font-weight="bold"'
        elif part:
            drawn.append(f"<tspan{style}>{html.escape(part)}</tspan>")
    return "".join(drawn)


def picture(lines):
    height = 2 * MARGIN + LINE * len(lines)
    whole = lines[-1][1] + REST
    rules, rows = [], []
    for number, (line, second) in enumerate(lines):
        share = 100 * second / whole
        # Without motion, or where styles are ignored, every line is simply there.
        rules.append(f"@keyframes l{number} {{ 0% {{ opacity: {0 if second else 1} }} {share:.2f}%, 100% {{ opacity: 1 }} }}")
        rules.append(f"#l{number} {{ animation: l{number} {whole:.1f}s step-end infinite }}")
        y = MARGIN + LINE * (number + 1) - 4
        rows.append(f'<text id="l{number}" x="{MARGIN}" y="{y}" xml:space="preserve">{spans(line)}</text>')
    style = "\n".join(rules)
    body = "\n".join(rows)
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img"
 aria-label="A run of aot demo: atoms run side by side, one fails and another takes over, and the end is proven by a test"
 font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, monospace" font-size="{SIZE}" fill="#d1d7e0">
<style>
@media (prefers-reduced-motion: no-preference) {{
{style}
}}
</style>
<rect width="100%" height="100%" rx="8" fill="#1c2128"/>
{body}
</svg>
"""


if __name__ == "__main__":
    Path(__file__).with_name("demo.svg").write_text(picture(captured()))
