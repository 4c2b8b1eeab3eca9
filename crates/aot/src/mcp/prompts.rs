//! The four commands as prompts: what an agent is asked to do when a person picks one. Knows no protocol.

/// One command of a person.
#[derive(Debug)]
pub struct Prompt {
    pub name: &'static str,
    pub title: &'static str,
    pub description: &'static str,
    /// The name of its one argument.
    pub argument: &'static str,
    pub argument_description: &'static str,
    text: &'static str,
}

pub const PROMPTS: [Prompt; 4] = [
    Prompt {
        name: "align-goal",
        title: "Agree on a goal",
        description: "Agree on a goal, the checks that prove it, and the first plan",
        argument: "request",
        argument_description: "What you want",
        text: "\
Make an agreement that a loop can work by without asking again. *How* may stay open; *what* and *when it is done* may not.

1. Read the project: what it is, how it is tested, linted and built. Ask only what you cannot find out, two or three
   questions at a time, each with an answer that you suggest.
2. Propose, in a few lines: why it is wanted, what will be there, when it is done, the checks that prove it (real commands
   that fail now), files that nobody may change (the tests that prove it), and the first atoms: small, independent where
   possible, with what they depend on.
3. When the user has said yes, call `align` once. It runs the checks: tell the user which are red now and which hold
   already. Then `gate`; if it is ready, the next step is `enter-recursion`.",
    },
    Prompt {
        name: "enter-recursion",
        title: "Run the loop here",
        description: "Run the loop in this session until the goal is proven done or it stops",
        argument: "how",
        argument_description: "`take over`, if the session that had the loop is gone",
        text: "\
Run the loop in this session.

1. Call `enter` (with `take_over` only if the user said so). If it is refused or the loop has halted, tell the user what it
   said, and end.
2. For each atom that is ready: `atom_start`, then do what its brief says in the folder that `tree` names and nowhere else,
   then `atom_resolve` with a summary. If it is refused, read the evidence, mend it and call it again. If it cannot be
   done, `atom_fail` with the reason; the loop knows another way or asks for one.
3. When nothing is in progress, call `turn`. It says what is next: follow it. If it asks for another plan, use
   `atom_decompose`, `atom_add`, `or_add` or `or_switch`.
4. Go on until `turn` says that the loop has halted. Tell the user exactly that: completed only if the program says so.

Do not edit the state file, and do not commit: the program does both.",
    },
    Prompt {
        name: "exit-recursion",
        title: "Stop the loop",
        description: "Stop the loop; what runs may finish, nothing new starts",
        argument: "reason",
        argument_description: "Why",
        text: "\
Call `stop` with the reason (with `now` only if the user wants it to end at once). If something is in progress, hand it in
or give it up, then call `turn`. Then `status`, and tell the user where the loop stands and that `enter-recursion` takes it
up again.",
    },
    Prompt {
        name: "redirect",
        title: "Change the direction",
        description: "Interrupt the loop at once and change its direction",
        argument: "change",
        argument_description: "What should be different",
        text: "\
1. Call `redirect` with `hold`: everything is interrupted, results of what ran are discarded.
2. `status` and `graph`: show the goal, what is unresolved and the latest failures in a few lines.
3. Ask until the change is clear. Say what will change, and whether the goal itself does (that clears the history of
   choices). Then call `redirect` once with all of it; `redirect` with `cancel` lets the loop go on as it was.
4. If the loop was run here, go on with `enter`, as in `enter-recursion`.

What only a person can say yes to (`aot confirm`, `aot redirect --accept`) is for the user to type in a terminal.",
    },
];

pub fn named(name: &str) -> Option<&'static Prompt> {
    PROMPTS.iter().find(|prompt| prompt.name == name)
}

impl Prompt {
    /// The text, with the argument that the person gave.
    pub fn text(&self, argument: Option<&str>) -> String {
        match argument.map(str::trim).filter(|argument| !argument.is_empty()) {
            Some(argument) => format!("The user said: {argument}\n\n{}", self.text),
            None => self.text.to_owned(),
        }
    }
}
