//! The scripted agent of the proving ground: a real program that is started in a cage, reads a brief, and knows the right
//! text of one module. What it does wrong is written in its plan. It counts the tokens that a model would have been given
//! and would have said, request by request. Knows nothing of aot but its brief and two variables.

use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use serde_json::{Value, json};

use super::faults::Misdeed;

/// How pytest names a test that fails, and one that cannot even be read, in the end of its output. Without one of them in
/// what it is told, an agent that was wrong has learnt nothing, and is wrong again.
const EVIDENCE: [&str; 2] = ["FAILED ", "ERROR"];

/// Bytes of a token, on average.
const BYTES_PER_TOKEN: usize = 4;

/// How long a model takes for a token that it says, beside the pause of each request.
const MICROSECONDS_PER_TOKEN: u64 = 100;

/// An agent that goes on with a conversation when it is asked to, or one with which every conversation ends with its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    Mends,
    Declines,
}

/// What the agent is started with.
#[derive(Clone, Debug)]
pub struct AgentArguments {
    /// The folder with the plan of this run and the texts.
    pub knowledge: PathBuf,
    /// Where it remembers conversations and writes down what it did.
    pub memory: PathBuf,
    pub patience: Patience,
    /// The pause of each request.
    pub pace: Duration,
    pub resume: Option<String>,
}

impl AgentArguments {
    /// The words that make an agent with these arguments; a conversation to go on with is not among them.
    pub fn words(&self) -> Vec<String> {
        let patience = if self.patience == Patience::Mends { "mends" } else { "declines" };
        let path = |path: &Path| path.display().to_string();
        let pace = self.pace.as_millis().to_string();
        ["agent".into(), path(&self.knowledge), path(&self.memory), patience.into(), pace].into()
    }

    /// Reads the words after the first.
    pub fn read(words: &[String]) -> Option<AgentArguments> {
        let [knowledge, memory, patience, pace, rest @ ..] = words else { return None };
        let resume = match rest {
            [] => None,
            [flag, name] if flag == "--resume" => Some(name.clone()),
            _ => return None,
        };
        Some(AgentArguments {
            knowledge: knowledge.into(),
            memory: memory.into(),
            patience: if patience == "mends" { Patience::Mends } else { Patience::Declines },
            pace: Duration::from_millis(pace.parse().ok()?),
            resume,
        })
    }
}

/// A program whose first word is `agent` is one; `--version` is asked of it, too.
pub fn as_agent(words: &[String]) -> Option<ExitCode> {
    match words.first().map(String::as_str) {
        Some("agent") => Some(match AgentArguments::read(&words[1..]).map(|arguments| agent(&arguments)) {
            None => ExitCode::from(2),
            Some(Ok(())) => ExitCode::SUCCESS,
            Some(Err(error)) => {
                eprintln!("{error}");
                ExitCode::FAILURE
            }
        }),
        Some("--version") => {
            println!("scripted 1");
            Some(ExitCode::SUCCESS)
        }
        _ => None,
    }
}

/// One turn: from a brief, or from what was wrong with the last answer, to an answer.
fn agent(arguments: &AgentArguments) -> io::Result<()> {
    let mut prompt = String::new();
    io::stdin().read_to_string(&mut prompt)?;
    let atom = std::env::var("AOT_ATOM").map_err(io::Error::other)?;
    let plan: Value = serde_json::from_slice(&fs::read(arguments.knowledge.join("plan.json"))?)?;
    let known = &plan[&atom];
    if known.is_null() {
        return Err(io::Error::other(format!("{atom} is not in the plan")));
    }
    let mut turn = Turn::new(arguments, atom, known, prompt)?;
    turn.say(&json!({"type": "begin", "conversation": turn.name}))?;
    if arguments.patience == Patience::Declines && turn.is_resumed {
        turn.log(&json!({"declines": true}))?;
        // Nothing is asked of a model, so it costs nothing.
        return turn.say(&match turn.memory["babbled"].as_bool() {
            Some(true) => json!({"type": "end", "answer": "as I said, all is well"}),
            _ => json!({"type": "end", "answer": answer(Claim::Failure, "this conversation is over")}),
        });
    }
    turn.play()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Claim {
    Success,
    Failure,
}

fn answer(claim: Claim, words: &str) -> Value {
    let reason = (claim == Claim::Failure).then_some(words);
    json!({"success": claim == Claim::Success, "summary": words, "artifacts": [], "reason": reason})
}

struct Turn<'t> {
    arguments: &'t AgentArguments,
    atom: String,
    known: &'t Value,
    prompt: String,
    is_resumed: bool,
    name: String,
    /// What this conversation and this atom's earlier ones were: `context` (tokens), `has_read`, `babbled` belong to the
    /// conversation, `turns` and `was_wrong` to the atom.
    memory: Value,
}

impl<'t> Turn<'t> {
    fn new(
        arguments: &'t AgentArguments,
        atom: String,
        known: &'t Value,
        prompt: String,
    ) -> io::Result<Turn<'t>> {
        let mut memory = match fs::read(arguments.memory.join(format!("{atom}.json"))) {
            Ok(text) => serde_json::from_slice(&text)?,
            Err(_) => json!({"turns": 0, "conversations": 0, "was_wrong": false}),
        };
        let is_resumed = arguments.resume.is_some();
        if !is_resumed {
            memory["conversations"] = json!(memory["conversations"].as_u64().unwrap_or_default() + 1);
            memory["context"] = json!(0);
            memory["has_read"] = json!(false);
            memory["babbled"] = json!(false);
        }
        let name = format!("{atom}-{}", memory["conversations"]);
        if arguments.resume.as_ref().is_some_and(|asked| *asked != name) {
            return Err(io::Error::other("there is no such conversation"));
        }
        Ok(Turn { arguments, atom, known, prompt, is_resumed, name, memory })
    }

    fn play(&mut self) -> io::Result<()> {
        let turns = self.memory["turns"].as_u64().unwrap_or_default();
        let was_wrong = self.memory["was_wrong"] == true;
        let is_blind = was_wrong && !EVIDENCE.iter().any(|mark| self.prompt.contains(mark));
        let planned = self.known["misdeeds"][usize::try_from(turns).unwrap_or(usize::MAX)].as_str();
        let misdeed = match is_blind {
            true => Some(Misdeed::Wrong),
            false => planned.and_then(Misdeed::named),
        };
        if !is_blind {
            self.memory["turns"] = json!(turns + 1);
        }
        self.memory["was_wrong"] = json!(misdeed == Some(Misdeed::Wrong) || (was_wrong && is_blind));
        let did = misdeed.map_or("right", Misdeed::name);
        self.log(&json!({"did": did, "blind": is_blind, "resumed": self.is_resumed}))?;
        let module = self.known["path"].as_str().unwrap_or_default().to_owned();
        let mut unsaid = std::mem::take(&mut self.prompt);
        if self.memory["babbled"] == true && self.is_resumed {
            // The work is done; only the answer was not one.
            self.memory["babbled"] = json!(false);
            let answer = answer(Claim::Success, &format!("{module} is whole again"));
            self.request(&unsaid, &answer.to_string(), "answer")?;
            return self.say(&json!({"type": "end", "answer": answer}));
        }
        if misdeed == Some(Misdeed::Lie) {
            let answer = answer(Claim::Success, &format!("{module} is whole again, all tests pass"));
            self.request(&unsaid, &answer.to_string(), "answer")?;
            return self.say(&json!({"type": "end", "answer": answer}));
        }
        if self.memory["has_read"] != true {
            for file in self.known["reads"].as_array().into_iter().flatten() {
                let file = file.as_str().unwrap_or_default();
                self.request(&unsaid, &format!("read {file}"), &format!("read {file}"))?;
                unsaid = fs::read_to_string(file)?;
            }
            self.memory["has_read"] = json!(true);
        }
        let folder = if misdeed == Some(Misdeed::Wrong) { "spoiled" } else { "reference" };
        let text = fs::read_to_string(self.arguments.knowledge.join(folder).join(&module))?;
        let said = changed_lines(&fs::read_to_string(&module)?, &text);
        self.request(&unsaid, &said, &format!("write {module}"))?;
        if matches!(misdeed, Some(Misdeed::Crash | Misdeed::Hang)) {
            fs::write(&module, &text[..text.floor_char_boundary(text.len() / 2)])?;
            self.remember()?;
            match misdeed {
                Some(Misdeed::Crash) => std::process::abort(),
                _ => loop {
                    std::thread::sleep(Duration::from_secs(3600));
                },
            }
        }
        fs::write(&module, &text)?;
        if misdeed == Some(Misdeed::EditTests) {
            let test = self.known["test"].as_str().unwrap_or_default().to_owned();
            let easier = "def test_nothing():\n    pass\n";
            self.request("done", easier, &format!("write {test}"))?;
            let written = fs::write(&test, easier);
            self.log(&json!({"prevented": written.is_err()}))?;
        }
        if misdeed == Some(Misdeed::Babble) {
            self.memory["babbled"] = json!(true);
            let words = "I have restored the module and I am sure that it works now. Shall I go on?";
            self.request("done", words, "answer")?;
            return self.say(&json!({"type": "end", "answer": words}));
        }
        let answer = answer(Claim::Success, &format!("{module} is whole again"));
        self.request("done", &answer.to_string(), "answer")?;
        self.say(&json!({"type": "end", "answer": answer}))
    }

    /// One request to a model: all that was said before comes from its cache, `heard` is new, and it says `said`.
    fn request(&mut self, heard: &str, said: &str, doing: &str) -> io::Result<()> {
        let cached = self.memory["context"].as_u64().unwrap_or_default();
        let (new, output) = (tokens(heard), tokens(said));
        self.memory["context"] = json!(cached + new + output);
        self.remember()?;
        let event =
            json!({"type": "request", "new": new, "cached": cached, "output": output, "doing": doing});
        self.log(&event)?;
        self.say(&event)?;
        std::thread::sleep(match self.arguments.pace.is_zero() {
            true => Duration::ZERO,
            false => self.arguments.pace + Duration::from_micros(output * MICROSECONDS_PER_TOKEN),
        });
        Ok(())
    }

    fn say(&self, event: &Value) -> io::Result<()> {
        self.remember()?;
        let mut out = io::stdout().lock();
        writeln!(out, "{event}")?;
        out.flush()
    }

    fn log(&self, entry: &Value) -> io::Result<()> {
        let mut entry = entry.clone();
        entry["atom"] = json!(self.atom);
        entry["conversation"] = json!(self.name);
        let mut file =
            OpenOptions::new().append(true).create(true).open(self.arguments.memory.join("log.jsonl"))?;
        file.write_all(format!("{entry}\n").as_bytes())
    }

    fn remember(&self) -> io::Result<()> {
        fs::write(self.arguments.memory.join(format!("{}.json", self.atom)), self.memory.to_string())
    }
}

fn tokens(text: &str) -> u64 {
    text.len().div_ceil(BYTES_PER_TOKEN) as u64
}

/// What an agent says when it edits a file: the lines that go and the lines that come, from the first that differs to the
/// last.
fn changed_lines(before: &str, after: &str) -> String {
    let (before, after): (Vec<&str>, Vec<&str>) = (before.lines().collect(), after.lines().collect());
    let same = |(a, b): &(&&str, &&str)| a == b;
    let first = before.iter().zip(&after).take_while(same).count();
    let last = before
        .iter()
        .rev()
        .zip(after.iter().rev())
        .take_while(same)
        .count()
        .min(before.len().min(after.len()) - first);
    let part = |lines: &[&str]| lines[first..lines.len() - last].join("\n");
    format!("{}\n{}", part(&before), part(&after))
}
