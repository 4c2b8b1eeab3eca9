//! The reference of the command line, rendered from clap, and the test that the file in `docs` is the same.

use std::fmt::Write;
use std::path::Path;

use clap::Command;

const FILE: &str = "../../docs/reference/cli.md";

const HEAD: &str = "\
# The command line

Every verb with its flags, as `aot VERB --help` prints it. This page is generated: after a change of a verb, run
`AOT_UPDATE_REFERENCE=1 cargo test --workspace --features aot/restate reference`. `aot worker`, `aot hosts` and `aot run --on` need the
feature `restate`.
";

fn page() -> String {
    let mut cli = super::command(None).term_width(100);
    cli.build();
    let mut page = HEAD.to_owned();
    add(&mut page, &mut cli, "aot");
    page
}

fn add(page: &mut String, command: &mut Command, name: &str) {
    let help = command.render_long_help().to_string();
    let lines: Vec<&str> = help.lines().map(str::trim_end).collect();
    write!(page, "\n## `{name}`\n\n```text\n{}\n```\n", lines.join("\n").trim_end())
        .expect("a text takes it");
    for verb in command.get_subcommands_mut().filter(|verb| !verb.is_hide_set() && verb.get_name() != "help")
    {
        let name = format!("{name} {}", verb.get_name());
        add(page, verb, &name);
    }
}

#[test]
fn the_reference_is_what_the_program_says() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(FILE);
    let page = page();
    if std::env::var_os("AOT_UPDATE_REFERENCE").is_some() {
        std::fs::write(&file, &page).expect("the reference can be written");
    }
    let written = std::fs::read_to_string(&file).unwrap_or_default();
    let differs = page.lines().zip(written.lines()).find(|(new, old)| new != old);
    assert!(
        page == written,
        "{FILE} is not what the program says; first difference: {differs:?}; write it anew with \
         AOT_UPDATE_REFERENCE=1 cargo test -p aot reference"
    );
}
