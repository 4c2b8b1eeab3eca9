#!/usr/bin/env node
// Starts the program for this system, which npm installed beside this package.
"use strict";

const { spawn } = require("node:child_process");

const name = `@aot-loop/${process.platform}-${process.arch}`;

let program;
try {
  program = require.resolve(`${name}/bin/aot`);
} catch {
  console.error(`error: there is no aot for ${process.platform} on ${process.arch} here: ${name} is not installed`);
  console.error("hint: install again without --omit=optional, or build it: cargo install --path crates/aot");
  process.exit(70);
}

const child = spawn(program, process.argv.slice(2), { stdio: "inherit" });

// Ctrl-C reaches the program by the terminal itself; a second one from here would mean "at once". Other signals come to this
// process alone.
process.on("SIGINT", () => {});
for (const signal of ["SIGTERM", "SIGHUP"]) {
  process.on(signal, () => child.kill(signal));
}

child.on("error", (error) => {
  console.error(`error: ${program} cannot be started: ${error.message}`);
  process.exit(70);
});
child.on("exit", (code, signal) => {
  if (signal === null) process.exit(code);
  process.removeAllListeners(signal);
  process.kill(process.pid, signal);
});
