//! The tools: what each is called, what it takes, and which words of the command line it stands for. A table, and how it
//! is read. Knows neither the protocol nor what a verb does.

use std::ffi::OsString;

use aot_core::state::LIMITS;
use serde_json::{Map, Value, json};

/// One verb, as agents call it.
#[derive(Debug)]
pub struct Tool {
    pub name: &'static str,
    pub title: &'static str,
    pub description: &'static str,
    pub manner: Manner,
    pub form: Form,
    verb: &'static [&'static str],
    fields: &'static [Field],
}

/// What a client may think of a call before it is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// It reads, and starts nothing.
    Looks,
    /// It changes nothing of the loop, but runs the commands that were agreed on, and those may do anything.
    Runs,
    /// It changes the loop, and takes nothing away.
    Steps,
    /// It gives work up, or what was agreed on.
    Undoes,
}

/// How a verb answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// An object.
    Json,
    /// The text that people see, under this name.
    Text(&'static str),
    /// The state, of which a part may be wanted.
    State,
}

#[derive(Debug)]
struct Field {
    name: &'static str,
    kind: Kind,
    need: Need,
    word: Word,
    description: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Need {
    Must,
    May,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Text,
    Texts,
    Number,
    Yes,
    OneOf(&'static [&'static str]),
    /// Atoms that are to be made.
    Atoms,
    /// Objects with these texts.
    Records(&'static [(&'static str, &'static str)]),
    /// An atom and a list of atoms.
    Needs,
    /// Limits by their names in the file.
    Limits,
    /// Checks as they stand in the file.
    Checks,
}

/// How a field is written on the command line.
#[derive(Clone, Copy, Debug)]
enum Word {
    /// Without a flag, after all flags.
    Place,
    /// `--flag=VALUE`, once for each value.
    Flag(&'static str),
    /// `--flag=A1,A2`.
    Joined(&'static str),
    /// `--flag ONE TWO`.
    Pair(&'static str),
    /// `--flag=ONE=TWO`.
    Equals(&'static str),
    /// `--flag=-`, and the value on standard input.
    Input(&'static str),
    /// `--hold`, with the session that holds.
    Hold,
    /// It is not for the verb: see [`Form::State`].
    Ours,
}

/// What is to be typed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Typed {
    pub words: Vec<OsString>,
    pub input: Vec<u8>,
}

const fn must(name: &'static str, kind: Kind, word: Word, description: &'static str) -> Field {
    Field { name, kind, need: Need::Must, word, description }
}

const fn may(name: &'static str, kind: Kind, word: Word, description: &'static str) -> Field {
    Field { name, kind, need: Need::May, word, description }
}

const ATOM: Field = must("atom", Kind::Text, Word::Place, "The atom's id, like A1");

/// Parts of the state that can be asked for.
pub const SECTIONS: [&str; 9] = [
    "objective",
    "control",
    "atoms",
    "decompositions",
    "or_groups",
    "bindings",
    "trail",
    "corrections",
    "body",
];

pub const TOOLS: &[Tool] = &[
    Tool {
        name: "status",
        title: "Where the loop stands",
        description: "Tells where the loop stands: what runs, what is next, what failed, what it can still cost.",
        manner: Manner::Looks,
        form: Form::Json,
        verb: &["status"],
        fields: &[],
    },
    Tool {
        name: "ready",
        title: "What can start now",
        description: "Lists the atoms that can start now, in the order in which they should.",
        manner: Manner::Looks,
        form: Form::Json,
        verb: &["ready"],
        fields: &[],
    },
    Tool {
        name: "show",
        title: "The state",
        description: "Shows the state: all of it, one section, or all about one atom. A large state is cut, and says how \
                      the rest is had.",
        manner: Manner::Looks,
        form: Form::State,
        verb: &["show"],
        fields: &[
            may(
                "atom",
                Kind::Text,
                Word::Ours,
                "Only what concerns this atom: itself, its result, its failures",
            ),
            may("section", Kind::OneOf(&SECTIONS), Word::Ours, "Only this part of the state"),
            may("from", Kind::Number, Word::Ours, "With `section`: begin after so many entries"),
        ],
    },
    Tool {
        name: "graph",
        title: "The graph",
        description: "Draws the graph as an outline: what waits for what, what was cut into what, which ways there are.",
        manner: Manner::Looks,
        form: Form::Text("graph"),
        verb: &["graph"],
        fields: &[],
    },
    Tool {
        name: "log",
        title: "What happened",
        description: "Tells what happened, newest last; with `atom` only to that one, attempt by attempt.",
        manner: Manner::Looks,
        form: Form::Json,
        verb: &["log"],
        fields: &[
            may("atom", Kind::Text, Word::Place, "Only this atom"),
            may("number", Kind::Number, Word::Flag("-n"), "How many of the newest entries; 20 if not said"),
        ],
    },
    Tool {
        name: "validate",
        title: "Mistakes in the state file",
        description: "Reads the state file strictly and lists every mistake with its place and its remedy.",
        manner: Manner::Looks,
        form: Form::Json,
        verb: &["validate"],
        fields: &[],
    },
    Tool {
        name: "gate",
        title: "Is the goal agreed on",
        description: "Tells whether the goal is agreed on so that a loop can start, and what is missing.",
        manner: Manner::Looks,
        form: Form::Json,
        verb: &["gate"],
        fields: &[],
    },
    Tool {
        name: "lint",
        title: "Checks that prove nothing",
        description: "Looks for what is likely wrong with the base case. Runs its checks once, unless `no_run`.",
        manner: Manner::Runs,
        form: Form::Json,
        verb: &["lint"],
        fields: &[may("no_run", Kind::Yes, Word::Flag("--no-run"), "Only look, run nothing")],
    },
    Tool {
        name: "verify",
        title: "Run the base case",
        description: "Runs the checks that prove the goal and shows the evidence. It changes nothing of the loop and does \
                      not complete it; `turn` does.",
        manner: Manner::Runs,
        form: Form::Json,
        verb: &["verify"],
        fields: &[may(
            "fresh",
            Kind::Yes,
            Word::Flag("--fresh"),
            "Run everything, also what passed on these very files before",
        )],
    },
    Tool {
        name: "align",
        title: "Agree on a goal",
        description: "Writes the agreement that a loop works by: goal, why, result, when it is done, the checks that prove \
                      it, the first atoms. Call it only when the user has said yes to all of it.",
        manner: Manner::Undoes,
        form: Form::Json,
        verb: &["align", "--yes"],
        fields: &[
            may("request", Kind::Text, Word::Place, "What the user asked for, in their words"),
            must("goal", Kind::Text, Word::Flag("--goal"), "The aim in a sentence"),
            must("intent", Kind::Text, Word::Flag("--intent"), "Why it is wanted"),
            must("deliverable", Kind::Texts, Word::Flag("--deliverable"), "What is to be there in the end"),
            must("done", Kind::Text, Word::Flag("--done"), "When it is done, in words"),
            may(
                "check",
                Kind::Texts,
                Word::Flag("--check"),
                "Commands that succeed when it is done, and fail now",
            ),
            may("not_check", Kind::Texts, Word::Flag("--not-check"), "Commands that must not succeed"),
            may("file", Kind::Texts, Word::Flag("--file"), "Files or globs that exist when it is done"),
            may("not_file", Kind::Texts, Word::Flag("--not-file"), "Files or globs that must not be there"),
            may("assert", Kind::Texts, Word::Flag("--assert"), "What only a person can confirm in the end"),
            must(
                "atom",
                Kind::Atoms,
                Word::Flag("--atom"),
                "The pieces of work, in order; they are called A1, A2, …",
            ),
            may("protect", Kind::Texts, Word::Flag("--protect"), "Globs of files that no worker may change"),
            may(
                "include",
                Kind::Texts,
                Word::Flag("--include"),
                "What belongs to it, where one might think otherwise",
            ),
            may("exclude", Kind::Texts, Word::Flag("--exclude"), "What does not belong to it"),
            may("set", Kind::Limits, Word::Equals("--set"), "Limits of the loop"),
            may(
                "force",
                Kind::Yes,
                Word::Flag("--force"),
                "Take the place of an agreement that is there; it is kept",
            ),
            may(
                "no_run",
                Kind::Yes,
                Word::Flag("--no-run"),
                "Do not run the checks to see how they stand now",
            ),
        ],
    },
    Tool {
        name: "enter",
        title: "Take the loop",
        description: "Takes the loop for this session, and says what to do first. Then: `atom_start`, work in the folder that \
                      it names, `atom_resolve` or `atom_fail`, and `turn` when nothing is in progress.",
        manner: Manner::Steps,
        form: Form::Json,
        verb: &["run", "--session"],
        fields: &[may(
            "take_over",
            Kind::Yes,
            Word::Flag("--take-over"),
            "Take it from a session that is gone; only if the user says so",
        )],
    },
    Tool {
        name: "turn",
        title: "End the turn",
        description: "Ends a turn: what is still in progress goes back, the iteration is judged, the base case is run if all \
                      is resolved. Answers with what is next, or how the loop has halted.",
        manner: Manner::Steps,
        form: Form::Json,
        verb: &["turn"],
        fields: &[],
    },
    Tool {
        name: "stop",
        title: "Stop the loop",
        description: "Asks the loop to stop: nothing new starts, what runs may finish; with `now` it is given up.",
        manner: Manner::Undoes,
        form: Form::Json,
        verb: &["stop"],
        fields: &[
            may("reason", Kind::Text, Word::Place, "Why; it stands in the state"),
            may("now", Kind::Yes, Word::Flag("--now"), "At once"),
        ],
    },
    Tool {
        name: "redirect",
        title: "Change the direction",
        description: "Interrupts everything and changes what is given, all of it or nothing; then the loop goes on. Call it \
                      only for what the user wants. `hold` only interrupts, `cancel` lets it go on as it was.",
        manner: Manner::Undoes,
        form: Form::Json,
        verb: &["redirect"],
        fields: &[
            may("reason", Kind::Text, Word::Place, "Why, in the user's words"),
            may("goal", Kind::Text, Word::Flag("--goal"), "Another goal"),
            may("intent", Kind::Text, Word::Flag("--intent"), "Another reason why it is wanted"),
            may(
                "deliverables",
                Kind::Text,
                Word::Flag("--deliverables"),
                "Something else that is to be there",
            ),
            may("done", Kind::Text, Word::Flag("--done"), "Another meaning of done, in words"),
            may("base_case", Kind::Checks, Word::Input("--base-case"), "Other checks that prove the goal"),
            may("add", Kind::Atoms, Word::Flag("--add"), "New atoms"),
            may("remove", Kind::Texts, Word::Flag("--remove"), "Pending atoms to take out"),
            may(
                "select",
                Kind::Records(&[("group", "An OR group"), ("atom", "The way to take")]),
                Word::Equals("--select"),
                "Take these ways of OR groups",
            ),
            may(
                "add_choice",
                Kind::Records(&[("group", "An OR group"), ("description", "The way, tried last")]),
                Word::Pair("--add-choice"),
                "Further ways of OR groups",
            ),
            may("depends", Kind::Needs, Word::Flag("--depends"), "All that atoms depend on from now on"),
            may(
                "rebind",
                Kind::Records(&[("atom", "A resolved atom"), ("summary", "What it came to")]),
                Word::Pair("--rebind"),
                "Other results; what rests on them is done again",
            ),
            may(
                "redo",
                Kind::Texts,
                Word::Flag("--redo"),
                "Resolved atoms to do again, with what rests on them",
            ),
            may(
                "protect",
                Kind::Texts,
                Word::Flag("--protect"),
                "Globs of files that no worker may change from now on",
            ),
            may("unprotect", Kind::Texts, Word::Flag("--unprotect"), "Globs that workers may change again"),
            may("set", Kind::Limits, Word::Equals("--set"), "Limits of the loop"),
            may("hold", Kind::Yes, Word::Hold, "Only interrupt, and hold until the next `redirect`"),
            may("cancel", Kind::Yes, Word::Flag("--cancel"), "End a hold, and let the loop go on as it was"),
        ],
    },
    Tool {
        name: "atom_add",
        title: "Add an atom",
        description: "Adds an atom to the graph.",
        manner: Manner::Steps,
        form: Form::Json,
        verb: &["atom", "add"],
        fields: &[
            must("description", Kind::Text, Word::Place, "What is to be done"),
            may("id", Kind::Text, Word::Flag("--id"), "Its id; the next in sequence if not said"),
            may(
                "depends_on",
                Kind::Texts,
                Word::Joined("--depends-on"),
                "Atoms that must be resolved before it",
            ),
            may("or_group", Kind::Text, Word::Flag("--or-group"), "Make it the last choice of this OR group"),
            may(
                "check",
                Kind::Text,
                Word::Flag("--check"),
                "The command that must succeed before it counts as resolved",
            ),
            may("run", Kind::Text, Word::Flag("--run"), "The command that solves it, without any agent"),
        ],
    },
    Tool {
        name: "atom_start",
        title: "Start an atom",
        description: "Starts an atom that is ready. In this session's loop it answers with `tree`, the folder to work in, and \
                      with the brief.",
        manner: Manner::Steps,
        form: Form::Json,
        verb: &["atom", "start"],
        fields: &[ATOM],
    },
    Tool {
        name: "atom_brief",
        title: "The brief of an atom",
        description: "Tells once more what an atom in progress is about, and the folder to work in.",
        manner: Manner::Looks,
        form: Form::Json,
        verb: &["atom", "brief"],
        fields: &[ATOM],
    },
    Tool {
        name: "atom_resolve",
        title: "Resolve an atom",
        description: "Hands in an atom in progress. The program looks itself: it runs the atom's check in its folder and \
                      commits the work. A red check is refused with its evidence; mend it and call again.",
        manner: Manner::Steps,
        form: Form::Json,
        verb: &["atom", "resolve"],
        fields: &[
            ATOM,
            must("summary", Kind::Text, Word::Flag("--summary"), "What it came to, in a sentence"),
            may("artifacts", Kind::Texts, Word::Flag("--artifact"), "Files that were made or changed"),
        ],
    },
    Tool {
        name: "atom_fail",
        title: "Give an atom up",
        description: "Gives an atom in progress up: its work is discarded, and its OR group goes to the next choice.",
        manner: Manner::Undoes,
        form: Form::Json,
        verb: &["atom", "fail"],
        fields: &[
            ATOM,
            must("reason", Kind::Text, Word::Flag("--reason"), "Why, for whoever tries next"),
            may(
                "too_large",
                Kind::Yes,
                Word::Flag("--too-large"),
                "It is too much for one go, and should be cut",
            ),
        ],
    },
    Tool {
        name: "atom_decompose",
        title: "Cut an atom",
        description: "Cuts an atom into smaller ones, which take over what it depends on.",
        manner: Manner::Steps,
        form: Form::Json,
        verb: &["atom", "decompose"],
        fields: &[
            ATOM,
            must("children", Kind::Atoms, Word::Input("--from"), "The smaller ones, in order"),
            may("reason", Kind::Text, Word::Flag("--reason"), "Why it is cut"),
        ],
    },
    Tool {
        name: "atom_remove",
        title: "Remove an atom",
        description: "Removes a pending atom that no other needs.",
        manner: Manner::Undoes,
        form: Form::Json,
        verb: &["atom", "remove"],
        fields: &[ATOM],
    },
    Tool {
        name: "or_add",
        title: "Add alternatives",
        description: "Makes an OR group of existing atoms, or adds choices to one; they are tried in this order.",
        manner: Manner::Steps,
        form: Form::Json,
        verb: &["or", "add"],
        fields: &[
            must("group", Kind::Text, Word::Place, "The group's name"),
            must("choices", Kind::Texts, Word::Joined("--choices"), "Atoms"),
        ],
    },
    Tool {
        name: "or_switch",
        title: "Take another alternative",
        description: "Selects another choice; what was done under the old one, or rests on it, is undone.",
        manner: Manner::Undoes,
        form: Form::Json,
        verb: &["or", "switch"],
        fields: &[
            must("group", Kind::Text, Word::Place, "The group's name"),
            must("choice", Kind::Text, Word::Place, "The atom to take"),
            must("reason", Kind::Text, Word::Flag("--reason"), "Why"),
        ],
    },
];

pub fn named(name: &str) -> Option<&'static Tool> {
    TOOLS.iter().find(|tool| tool.name == name)
}

impl Tool {
    /// The JSON Schema of what it takes.
    pub fn schema(&self) -> Map<String, Value> {
        let property = |field: &Field| (field.name.to_owned(), field.schema());
        let properties: Map<String, Value> = self.fields.iter().map(property).collect();
        let must = self.fields.iter().filter(|field| field.need == Need::Must);
        let required: Vec<&str> = must.map(|field| field.name).collect();
        let mut schema = json!({"type": "object", "properties": properties, "additionalProperties": false});
        if !required.is_empty() {
            schema["required"] = json!(required);
        }
        match schema {
            Value::Object(schema) => schema,
            _ => Map::new(),
        }
    }

    /// The words that a call stands for, or what is wrong with it. No value can be taken for a flag.
    pub fn typed(&self, arguments: &Map<String, Value>, session: &str) -> Result<Typed, String> {
        let known = |name: &str| self.fields.iter().any(|field| field.name == name);
        if let Some(unknown) = arguments.keys().find(|name| !known(name)) {
            let all: Vec<String> = self.fields.iter().map(|field| format!("`{}`", field.name)).collect();
            let all =
                if all.is_empty() { "it takes none".into() } else { format!("known: {}", all.join(", ")) };
            return Err(format!("`{}` has no field `{unknown}`; {all}", self.name));
        }
        let mut typed = Typed { words: self.verb.iter().map(OsString::from).collect(), ..Typed::default() };
        let mut places = Vec::new();
        for field in self.fields {
            let value = arguments.get(field.name).filter(|value| !value.is_null());
            let Some(value) = value else {
                match field.need {
                    Need::Must => {
                        return Err(format!(
                            "`{}` is missing; {} is expected",
                            field.name,
                            field.kind.told()
                        ));
                    }
                    Need::May => continue,
                }
            };
            let wrong = || format!("`{}` is not right; {} is expected", field.name, field.kind.told());
            let read = field.kind.read(value).ok_or_else(wrong)?;
            field.word.write(read, session, &mut typed, &mut places);
        }
        if !places.is_empty() {
            typed.words.push("--".into());
            typed.words.extend(places);
        }
        Ok(typed)
    }
}

/// A value in the shape that words are made of.
enum Read {
    No,
    Yes,
    /// One value for each word.
    Values(Vec<String>),
    /// Two values for each word.
    Pairs(Vec<(String, String)>),
    Json(Value),
}

impl Word {
    fn write(self, read: Read, session: &str, typed: &mut Typed, places: &mut Vec<OsString>) {
        let mut push = |word: String| typed.words.push(word.into());
        match (self, read) {
            (_, Read::No) | (Word::Ours, _) => {}
            (Word::Place, Read::Values(values)) => places.extend(values.into_iter().map(OsString::from)),
            (Word::Flag(flag), Read::Yes) => push(flag.into()),
            (Word::Hold, Read::Yes) => {
                push("--hold".into());
                push(format!("--session={session}"));
            }
            (Word::Flag(flag), Read::Values(values)) => {
                values.into_iter().for_each(|value| push(format!("{flag}={value}")));
            }
            (Word::Joined(flag), Read::Values(values)) => push(format!("{flag}={}", values.join(","))),
            (Word::Pair(flag), Read::Pairs(pairs)) => {
                for (one, two) in pairs {
                    push(flag.into());
                    push(one);
                    push(two);
                }
            }
            (Word::Equals(flag), Read::Pairs(pairs)) => {
                pairs.into_iter().for_each(|(one, two)| push(format!("{flag}={one}={two}")));
            }
            (Word::Flag(flag), Read::Pairs(pairs)) => {
                pairs.into_iter().for_each(|(one, two)| push(format!("{flag}={one} <- {two}")));
            }
            (Word::Flag(flag), Read::Json(Value::Array(atoms))) => {
                atoms.into_iter().for_each(|atom| push(format!("{flag}={atom}")));
            }
            (Word::Input(flag), Read::Json(value)) => {
                push(format!("{flag}=-"));
                typed.input = value.to_string().into_bytes();
            }
            (word, _) => unreachable!("the table pairs {word:?} with a kind that it cannot write"),
        }
    }
}

impl Field {
    fn schema(&self) -> Value {
        let mut schema = self.kind.schema();
        schema["description"] = json!(self.description);
        schema
    }
}

impl Kind {
    fn schema(self) -> Value {
        let text = |description: &str| json!({"type": "string", "description": description});
        let texts = |description: &str| json!({"type": "array", "items": {"type": "string"}, "description": description});
        match self {
            Kind::Text => json!({"type": "string"}),
            Kind::Texts => json!({"type": "array", "items": {"type": "string"}}),
            Kind::Number => json!({"type": "integer", "minimum": 1}),
            Kind::Yes => json!({"type": "boolean"}),
            Kind::OneOf(words) => json!({"type": "string", "enum": words}),
            Kind::Atoms => json!({"type": "array", "items": {
                "type": "object",
                "properties": {
                    "description": text("What is to be done"),
                    "id": text("Its id; the next in sequence if not said"),
                    "depends_on": texts("Ids of what must be resolved before it"),
                    "or_group": text("The OR group that it is a choice of"),
                    "check": text("The command that must succeed before it counts as resolved"),
                    "run": text("The command that solves it, without any agent"),
                    "writes": texts("Globs of what it writes; two that overlap do not run at the same time"),
                    "resource": text("Something that only one may use at a time"),
                },
                "required": ["description"],
                "additionalProperties": false,
            }}),
            Kind::Records(parts) => {
                let property = |(name, description): &(&str, &str)| ((*name).to_owned(), text(description));
                let properties: Map<String, Value> = parts.iter().map(property).collect();
                let required: Vec<&str> = parts.iter().map(|(name, _)| *name).collect();
                json!({"type": "array", "items": {
                    "type": "object", "properties": properties, "required": required,
                    "additionalProperties": false,
                }})
            }
            Kind::Needs => json!({"type": "array", "items": {
                "type": "object",
                "properties": {"atom": text("An atom"), "depends_on": texts("All that it depends on")},
                "required": ["atom", "depends_on"],
                "additionalProperties": false,
            }}),
            Kind::Limits => {
                let limit = |name: &&str| ((*name).to_owned(), json!({"type": "string"}));
                let properties: Map<String, Value> = LIMITS.iter().map(limit).collect();
                json!({"type": "object", "properties": properties, "additionalProperties": false})
            }
            Kind::Checks => json!({
                "type": "object",
                "properties": {"checklist": {"type": "array", "items": {
                    "type": "object",
                    "properties": {
                        "item": text("Its name"),
                        "check": {"type": "object", "properties": {
                            "type": text("command, not_command, file, not_file or assertion"),
                            "value": text("The command, the glob, or what a person confirms"),
                        }},
                    },
                }}},
            }),
        }
    }

    /// What is expected, in words.
    fn told(self) -> String {
        match self {
            Kind::Text => "a text".into(),
            Kind::Texts => "a list of texts".into(),
            Kind::Number => "a whole number from 1".into(),
            Kind::Yes => "true or false".into(),
            Kind::OneOf(words) => format!("one of {}", words.join(", ")),
            Kind::Atoms => r#"a list like [{"description": "…", "depends_on": ["A1"], "check": "a command"}]"#.into(),
            Kind::Records(parts) => {
                let parts: Vec<String> = parts.iter().map(|(name, _)| format!("\"{name}\": \"…\"")).collect();
                format!("a list like [{{{}}}]", parts.join(", "))
            }
            Kind::Needs => r#"a list like [{"atom": "A5", "depends_on": ["A1"]}]"#.into(),
            Kind::Limits => format!("an object with some of {}", LIMITS.join(", ")),
            Kind::Checks => {
                r#"an object like {"checklist": [{"item": "Tests", "check": {"type": "command", "value": "make test"}}]}"#
                    .into()
            }
        }
    }

    /// `None` if it is something else than this kind.
    fn read(self, value: &Value) -> Option<Read> {
        match self {
            Kind::Text => Some(Read::Values(vec![value.as_str()?.to_owned()])),
            Kind::OneOf(words) => {
                let word = words.iter().find(|word| value == **word)?;
                Some(Read::Values(vec![(*word).to_owned()]))
            }
            Kind::Texts => Some(Read::Values(texts(value)?)),
            Kind::Number => {
                let number = value.as_u64().filter(|number| *number > 0)?;
                Some(Read::Values(vec![number.to_string()]))
            }
            Kind::Yes => Some(if value.as_bool()? { Read::Yes } else { Read::No }),
            Kind::Atoms => {
                let atoms = value.as_array()?.iter().map(atom);
                Some(Read::Json(Value::Array(atoms.collect::<Option<_>>()?)))
            }
            Kind::Records(parts) => {
                let [(one, _), (two, _)] = parts else { return None };
                let pair = |record: &Value| {
                    let record = record.as_object().filter(|record| record.len() == 2)?;
                    let part = |name: &str| Some(record.get(name)?.as_str()?.to_owned());
                    Some((part(one)?, part(two)?))
                };
                Some(Read::Pairs(value.as_array()?.iter().map(pair).collect::<Option<_>>()?))
            }
            Kind::Needs => {
                let pair = |record: &Value| {
                    let record = record.as_object().filter(|record| record.len() == 2)?;
                    let atom = record.get("atom")?.as_str()?.to_owned();
                    Some((atom, texts(record.get("depends_on")?)?.join(",")))
                };
                Some(Read::Pairs(value.as_array()?.iter().map(pair).collect::<Option<_>>()?))
            }
            Kind::Limits => {
                let pair = |(name, value): (&String, &Value)| {
                    let value = match value {
                        Value::String(text) => text.clone(),
                        Value::Number(number) => number.to_string(),
                        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => return None,
                    };
                    LIMITS.contains(&name.as_str()).then(|| (name.clone(), value))
                };
                Some(Read::Pairs(value.as_object()?.iter().map(pair).collect::<Option<_>>()?))
            }
            Kind::Checks => value.is_object().then(|| Read::Json(value.clone())),
        }
    }
}

fn texts(value: &Value) -> Option<Vec<String>> {
    value.as_array()?.iter().map(|text| text.as_str().map(str::to_owned)).collect()
}

/// An atom with the keys of the file; its check is a command.
fn atom(value: &Value) -> Option<Value> {
    let mut atom = Map::new();
    for (key, value) in value.as_object()? {
        let value = match key.as_str() {
            "check" => json!({"type": "command", "value": value.as_str()?}),
            "description" | "id" | "or_group" | "run" | "resource" => json!(value.as_str()?),
            "depends_on" | "writes" => json!(texts(value)?),
            _ => return None,
        };
        atom.insert(key.clone(), value);
    }
    atom.contains_key("description").then_some(Value::Object(atom))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(tool: &str, arguments: Value) -> Result<String, String> {
        let Value::Object(arguments) = arguments else { panic!("an object") };
        let typed = named(tool).expect("a tool").typed(&arguments, "s")?;
        let words: Vec<String> = typed.words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        Ok([words.join("|"), String::from_utf8_lossy(&typed.input).into_owned()].join("<"))
    }

    #[test]
    fn calls_become_words() {
        for (tool, arguments, expected) in [
            ("status", json!({}), "status<"),
            ("show", json!({"atom": "A1"}), "show<"),
            ("log", json!({"atom": "A1", "number": 3}), "log|-n=3|--|A1<"),
            ("verify", json!({"fresh": true}), "verify|--fresh<"),
            ("verify", json!({"fresh": false}), "verify<"),
            ("stop", json!({"reason": "--now"}), "stop|--|--now<"),
            (
                "atom_add",
                json!({"description": "-x", "depends_on": ["A1", "A2"], "check": "-y"}),
                "atom|add|--depends-on=A1,A2|--check=-y|--|-x<",
            ),
            (
                "atom_resolve",
                json!({"atom": "A1", "summary": "--help", "artifacts": ["-a", "b"]}),
                "atom|resolve|--summary=--help|--artifact=-a|--artifact=b|--|A1<",
            ),
            (
                "atom_decompose",
                json!({"atom": "A1", "children": [{"description": "d", "check": "true"}]}),
                r#"atom|decompose|--from=-|--|A1<[{"description":"d","check":{"type":"command","value":"true"}}]"#,
            ),
            (
                "or_switch",
                json!({"group": "g", "choice": "A4", "reason": "r"}),
                "or|switch|--reason=r|--|g|A4<",
            ),
            ("enter", json!({"take_over": true}), "run|--session|--take-over<"),
            ("redirect", json!({"hold": true}), "redirect|--hold|--session=s<"),
            (
                "redirect",
                json!({
                    "reason": "-r", "select": [{"group": "g", "atom": "A4"}],
                    "rebind": [{"atom": "A3", "summary": "-s"}], "set": {"max_iterations": 30},
                    "depends": [{"atom": "A5", "depends_on": ["A1", "A2"]}],
                }),
                "redirect|--select=g=A4|--depends=A5 <- A1,A2|--rebind|A3|-s|--set=max_iterations=30|--|-r<",
            ),
            (
                "align",
                json!({
                    "goal": "g", "intent": "i", "deliverable": ["a", "b"], "done": "d",
                    "atom": [{"description": "x"}],
                }),
                "align|--yes|--goal=g|--intent=i|--deliverable=a|--deliverable=b|--done=d|--atom={\"description\":\"x\"}<",
            ),
        ] {
            assert_eq!(typed(tool, arguments).as_deref(), Ok(expected));
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (tool, arguments, expected) in [
            ("status", json!({"x": 1}), "`status` has no field `x`; it takes none"),
            ("atom_start", json!({"id": "A1"}), "`atom_start` has no field `id`; known: `atom`"),
            ("atom_start", json!({}), "`atom` is missing; a text is expected"),
            ("atom_start", json!({"atom": null}), "`atom` is missing; a text is expected"),
            ("atom_start", json!({"atom": 1}), "`atom` is not right; a text is expected"),
            ("log", json!({"number": 0}), "`number` is not right; a whole number from 1 is expected"),
            ("stop", json!({"now": "yes"}), "`now` is not right; true or false is expected"),
            (
                "or_add",
                json!({"group": "g", "choices": "A4"}),
                "`choices` is not right; a list of texts is expected",
            ),
            (
                "redirect",
                json!({"rebind": [{"atom": "A1"}]}),
                r#"`rebind` is not right; a list like [{"atom": "…", "summary": "…"}] is expected"#,
            ),
            ("redirect", json!({"accept": true}), "`redirect` has no field `accept`"),
        ] {
            let wrong = typed(tool, arguments).expect_err(expected);
            assert!(wrong.starts_with(expected), "{wrong}");
        }
    }
}
