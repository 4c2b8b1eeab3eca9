//! The first page of the help: two examples, and the verbs in groups, in the order in which a person needs them. Clap knows no
//! groups of verbs, so the page is made from what it knows of each. Prints nothing.

use clap::Command;

use crate::text;

/// Every verb that is shown is in one of these; some are left out of small builds.
const GROUPS: [(&str, &[&str]); 7] = [
    ("Start", &["run", "align", "demo", "doctor", "agents", "trust"]),
    ("Watch", &["status", "watch", "serve", "graph", "log", "loops"]),
    ("Steer", &["stop", "redirect", "confirm", "undo"]),
    ("Check", &["verify", "lint", "gate", "validate"]),
    ("Hand over", &["report", "pr"]),
    // In builds with the feature `restate`.
    ("Several machines", &["worker", "hosts"]),
    ("Plumbing", PLUMBING),
];

const PLUMBING: &[&str] = &[
    "atom",
    "or",
    "ready",
    "show",
    "schema",
    "judge",
    "turn",
    "hook",
    "statusline",
    "mcp",
    "plugin",
    "clean",
    "completions",
];

const EXAMPLES: [(&str, &str); 2] = [
    (r#"aot run "fix the failing tests" --check "npm test""#, "agree on a goal, and run it"),
    ("aot demo", "see a whole loop in seconds, without a model"),
];

/// Two blanks before each name, and two behind the longest.
const INDENT: usize = 15;

/// The command line with that page, for a window of so many columns.
pub fn grouped(command: Command, columns: usize) -> Command {
    let (head, literal) = (*command.get_styles().get_header(), *command.get_styles().get_literal());
    let mut page =
        format!("{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{head}Examples:{head:#}\n");
    for (line, what) in EXAMPLES {
        page += &format!("  {literal}{line}{literal:#}\n      {what}\n");
    }
    for (group, verbs) in GROUPS {
        if !verbs.iter().any(|name| command.find_subcommand(name).is_some()) {
            continue;
        }
        page += &format!("\n{head}{group}:{head:#}\n");
        for name in verbs {
            // One that was left out of this build is not shown.
            if command.find_subcommand(name).is_none() {
                continue;
            }
            let about = command.find_subcommand(name).and_then(Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            let mut lines = text::wrapped(&about, columns.saturating_sub(INDENT)).into_iter();
            let first = lines.next().unwrap_or_default();
            page += &format!("  {literal}{name:<width$}{literal:#}{first}\n", width = INDENT - 2);
            lines.for_each(|line| page += &format!("{:INDENT$}{line}\n", ""));
        }
    }
    page += &format!("\n{head}Options:{head:#}\n{{options}}\n\n`aot help VERB` lists all flags of a verb.");
    command.help_template(page)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn every_verb_is_in_one_group() {
        let command = super::super::Cli::command();
        let mut shown: Vec<&str> =
            command.get_subcommands().filter(|verb| !verb.is_hide_set()).map(Command::get_name).collect();
        let mut grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, verbs)| verbs.iter().copied()).collect();
        grouped.retain(|verb| command.find_subcommand(verb).is_some());
        shown.sort_unstable();
        grouped.sort_unstable();
        assert_eq!(grouped, shown);
    }
}
