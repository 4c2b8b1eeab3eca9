//! Reads a shell command, without a shell, into the simple commands that it starts. Knows no verbs and no roles, and
//! runs nothing.
//!
//! Hooks must not be fooled, and the linter wants names of programs and files. So the reader never gives up: it notes
//! that a command is unclear as soon as something in it could hide another program or write a file, and reads on.
//! Hooks ignore what is unclear ([`plain_commands`]); the linter takes the words as a guess ([`simple_commands`]).
//!
//! The `shlex` crate does not serve. It splits words and knows no operators: to it `a;b` is one word, and a quoted
//! `';'`, which is data, looks like the `;` that ends a command.

mod bash;

pub use bash::needs_bash;

/// The words of each simple command; `None` if the text starts nothing, or is unclear.
pub fn plain_commands(text: &str) -> Option<Vec<Vec<String>>> {
    let read = CommandReader::read(text);
    (read.clear && !read.commands.is_empty()).then_some(read.commands)
}

/// The words of the only simple command of a text; `None` if it is not the only one, or unclear.
pub fn single_command(text: &str) -> Option<Vec<String>> {
    let mut commands = plain_commands(text)?;
    if commands.len() == 1 { commands.pop() } else { None }
}

struct CommandReader<'t> {
    rest: std::str::Chars<'t>,
    commands: Vec<Vec<String>>,
    /// The words of the command that is being read.
    words: Vec<String>,
    word: Option<String>,
    /// Whether a part of the current word was quoted or escaped.
    quoted: bool,
    /// The next word is the target of a redirection.
    target_next: bool,
    /// Nothing so far could hide a program or write a file.
    clear: bool,
}

impl<'t> CommandReader<'t> {
    fn read(text: &'t str) -> CommandReader<'t> {
        let mut reader = CommandReader {
            rest: text.chars(),
            commands: Vec::new(),
            words: Vec::new(),
            word: None,
            quoted: false,
            target_next: false,
            clear: true,
        };
        while let Some(c) = reader.rest.next() {
            reader.take(c);
        }
        reader.end_command();
        reader
    }

    fn take(&mut self, c: char) {
        match c {
            ' ' | '\t' => self.end_word(),
            '\n' | ';' => self.end_command(),
            '|' => {
                self.skip('|');
                self.end_command();
            }
            '&' => {
                // A background process would outlive its caller.
                self.clear &= self.skip('&');
                self.end_command();
            }
            '(' | ')' => {
                self.clear = false;
                self.end_command();
            }
            '\'' => self.single_quoted(),
            '"' => self.double_quoted(),
            '\\' => self.escaped(),
            '>' => {
                self.clear &= writes_no_file(self.rest.as_str());
                self.redirection();
            }
            '<' => {
                self.clear = false;
                self.redirection();
            }
            '$' => self.expansion(),
            '#' if self.word.is_none() => self.comment(),
            '!' if self.word.is_none() => self.push_unclear(c),
            '`' | '{' | '}' => self.push_unclear(c),
            c => self.push(c),
        }
    }

    fn push(&mut self, c: char) {
        self.word.get_or_insert_default().push(c);
    }

    fn push_unclear(&mut self, c: char) {
        self.clear = false;
        self.push(c);
    }

    fn skip(&mut self, c: char) -> bool {
        let found = self.rest.as_str().starts_with(c);
        if found {
            self.rest.next();
        }
        found
    }

    fn end_word(&mut self) {
        self.quoted = false;
        if let Some(word) = self.word.take()
            && !std::mem::take(&mut self.target_next)
        {
            self.words.push(word);
        }
    }

    fn end_command(&mut self) {
        self.end_word();
        self.target_next = false;
        let words = std::mem::take(&mut self.words);
        if let Some(first) = words.first() {
            // An assignment before a program can change which program runs.
            self.clear &= !first.contains('=');
            self.commands.push(words);
        }
    }

    fn single_quoted(&mut self) {
        self.quoted = true;
        self.word.get_or_insert_default();
        loop {
            match self.rest.next() {
                Some('\'') => return,
                Some(c) => self.push(c),
                None => {
                    self.clear = false;
                    return;
                }
            }
        }
    }

    fn double_quoted(&mut self) {
        self.quoted = true;
        self.word.get_or_insert_default();
        loop {
            match self.rest.next() {
                Some('"') => return,
                Some(c @ ('$' | '`')) => self.push_unclear(c),
                Some('\\') => match self.rest.next() {
                    Some(c @ ('"' | '\\' | '$' | '`')) => self.push(c),
                    Some('\n') => {}
                    Some(c) => {
                        self.push('\\');
                        self.push(c);
                    }
                    None => self.clear = false,
                },
                Some(c) => self.push(c),
                None => {
                    self.clear = false;
                    return;
                }
            }
        }
    }

    fn escaped(&mut self) {
        match self.rest.next() {
            // A continued line joins words that are not joined here.
            Some('\n') | None => self.clear = false,
            Some(c) => {
                self.quoted = true;
                self.push(c);
            }
        }
    }

    fn redirection(&mut self) {
        // The number in `2>` names a stream. A quoted one is an argument.
        let quoted = self.quoted;
        self.word.take_if(|word| !quoted && word.chars().all(|c| c.is_ascii_digit()));
        self.end_word();
        while ['>', '<', '&', '|'].into_iter().any(|c| self.skip(c)) {}
        self.target_next = true;
    }

    /// A variable, or a substitution, which is kept as one word with all that it runs.
    fn expansion(&mut self) {
        self.push_unclear('$');
        if !self.rest.as_str().starts_with('(') {
            return;
        }
        let mut depth = 0;
        while let Some(c) = self.rest.next() {
            depth += i32::from(c == '(') - i32::from(c == ')');
            self.push(c);
            if depth == 0 {
                return;
            }
        }
    }

    fn comment(&mut self) {
        self.clear = false;
        while self.rest.next().is_some_and(|c| c != '\n') {}
        self.end_command();
    }
}

/// Whether what follows a `>` leads to another stream or nowhere.
fn writes_no_file(rest: &str) -> bool {
    let rest = rest.strip_prefix('>').unwrap_or(rest);
    let ends = |rest: &str, with: &str| rest.chars().next().is_none_or(|next| with.contains(next));
    if let Some(stream) = rest.strip_prefix('&') {
        return stream.strip_prefix(['1', '2']).is_some_and(|rest| ends(rest, " \t\n;|&"));
    }
    let target = rest.trim_start_matches(' ');
    target.strip_prefix("/dev/null").is_some_and(|rest| ends(rest, " \t\n;|&<>"))
}

/// One program with its arguments, as far as the text tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SimpleCommand {
    /// Where an earlier `cd` has led to.
    pub folder: Option<String>,
    /// The program first; wrappers such as `env` or `time` and assignments are taken off.
    pub words: Vec<String>,
    /// A `!` inverts its exit code.
    pub negated: bool,
    /// A `timeout` stands before it.
    pub timed: bool,
}

impl SimpleCommand {
    /// The program's own name, without its folder.
    pub fn name(&self) -> &str {
        let program = self.program();
        program.rsplit('/').next().unwrap_or(program)
    }

    pub fn program(&self) -> &str {
        self.words.first().map_or("", String::as_str)
    }

    pub fn has(&self, word: &str) -> bool {
        self.words.iter().skip(1).any(|given| given == word)
    }

    pub fn starts(&self, words: &[&str]) -> bool {
        let own = std::iter::once(self.name()).chain(self.words.iter().skip(1).map(String::as_str));
        let own: Vec<&str> = own.take(words.len()).collect();
        own == words
    }

    /// Whether a word is what it seems: variables, substitutions and patterns are known only to a running shell.
    pub fn is_known(word: &str) -> bool {
        !word.is_empty() && !word.contains(['$', '`', '*', '?', '{', '~'])
    }

    pub fn is_builtin(&self) -> bool {
        BUILTINS.contains(&self.program())
    }
}

const KEYWORDS: [&str; 18] = [
    "if", "then", "else", "elif", "fi", "while", "until", "do", "done", "for", "case", "esac", "in", "{",
    "}", "(", ")", "function",
];

const BUILTINS: [&str; 44] = [
    ".", ":", "[", "[[", "alias", "bg", "break", "cd", "command", "continue", "declare", "echo", "eval",
    "exec", "exit", "export", "false", "fg", "getopts", "hash", "jobs", "kill", "let", "local", "popd",
    "printf", "pushd", "pwd", "read", "readonly", "return", "set", "shift", "shopt", "source", "test",
    "times", "trap", "true", "type", "ulimit", "umask", "unset", "wait",
];

/// Every simple command that can be made out, also in what is unclear. A guess: no outcome may rest on it.
pub fn simple_commands(text: &str) -> Vec<SimpleCommand> {
    let mut found = Vec::new();
    let mut folder: Option<String> = None;
    for words in CommandReader::read(text).commands {
        let Some(simple) = unwrapped(words, folder.clone()) else { continue };
        if simple.program() == "cd" {
            folder = match (simple.words.get(1), folder) {
                (Some(to), Some(from)) if !to.starts_with('/') => Some(format!("{from}/{to}")),
                (Some(to), _) => Some(to.clone()),
                (None, from) => from,
            };
        }
        found.push(simple);
    }
    found
}

/// Takes off what stands before the program itself.
fn unwrapped(words: Vec<String>, folder: Option<String>) -> Option<SimpleCommand> {
    let (mut negated, mut timed) = (false, false);
    let mut rest = words.into_iter().peekable();
    while let Some(word) = rest.peek() {
        match word.as_str() {
            "!" => negated = !negated,
            "for" | "case" | "function" => return None,
            "env" | "time" | "nice" | "nohup" | "exec" | "command" | "sudo" | "xvfb-run" | "stdbuf"
            | "setsid" => {
                rest.next();
                while rest.next_if(|word| word.starts_with('-')).is_some() {}
                continue;
            }
            "timeout" | "gtimeout" => {
                timed = true;
                rest.next();
                while rest.next_if(|word| word.starts_with('-')).is_some() {}
            }
            word if KEYWORDS.contains(&word) || is_assignment(word) => {}
            _ => break,
        }
        rest.next();
    }
    let words: Vec<String> = rest.collect();
    (!words.is_empty()).then_some(SimpleCommand { folder, words, negated, timed })
}

fn is_assignment(word: &str) -> bool {
    let Some((name, _)) = word.split_once('=') else { return false };
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::{plain_commands, simple_commands, single_command};

    #[test]
    fn plain_commands_are_read() {
        for (text, expected) in [
            ("aot status", "aot status"),
            ("ls\t-l", "ls -l"),
            (
                "aot atom resolve A1 --summary 'it is; done & $well'",
                "aot atom resolve A1 --summary it is; done & $well",
            ),
            (r#"aot stop "a \"b\" c""#, r#"aot stop a "b" c"#),
            (r#"echo "a\nb\\ \$x \`y\`""#, r"echo a\nb\ $x `y`"),
            ("echo \"a\\\nb\"", "echo ab"),
            (r"echo a\ b \;", "echo a b ;"),
            ("echo a#b a!b", "echo a#b a!b"),
            ("ls -l 2>/dev/null | wc -l", "ls -l/wc -l"),
            ("ls >/dev/null -l", "ls -l"),
            ("ls 2>> /dev/null;pwd", "ls/pwd"),
            ("ls 10>/dev/null", "ls"),
            ("echo '2'>/dev/null", "echo 2"),
            ("echo \\2>/dev/null", "echo 2"),
            ("echo a2>/dev/null", "echo a2"),
            ("cat a && cat b; cat c || cat d", "cat a/cat b/cat c/cat d"),
            ("cat a\n\ncat b;", "cat a/cat b"),
            ("grep x y 2>&1", "grep x y"),
            ("grep x y >&2;ls", "grep x y/ls"),
            ("echo ''", "echo "),
            ("echo \"\"", "echo "),
            ("grep a=b c", "grep a=b c"),
        ] {
            let read =
                plain_commands(text).map(|all| all.iter().map(|words| words.join(" ")).collect::<Vec<_>>());
            assert_eq!(read.map(|all| all.join("/")).as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn what_hides_something_is_unclear() {
        for text in [
            "aot status $(rm x)",
            "aot status `rm x`",
            "cat <(rm x)",
            "cat < x",
            "echo \"$(rm x)\"",
            "echo \"`rm x`\"",
            "a > b",
            "a >> b",
            "a 2> b",
            "a >| b",
            "rm x &",
            "rm x & ls",
            "rm x |& ls",
            "(rm x)",
            "a )",
            "X=1 aot status",
            "PATH=. aot status",
            "ls; X=1 aot status",
            "cat << E",
            "find . -del\\\nete",
            "find . -{delete,print}",
            "echo a}",
            "echo 'open",
            "echo \"open",
            "echo \"open\\",
            "echo open\\",
            "",
            " ",
            "# a",
            "ls # a",
            "! a",
            "a !b",
            "{ a; }",
            "echo $HOME",
            "a >&3",
            "a >&",
            "a >&2file",
            "a > /dev/null2",
            "a > /dev/nul",
            "a >\t/dev/null",
            "a > '/dev/null'",
        ] {
            assert_eq!(plain_commands(text), None, "{text}");
        }
    }

    #[test]
    fn a_single_command_is_the_only_one() {
        assert_eq!(single_command("aot status").map(|words| words.join(" ")).as_deref(), Some("aot status"));
        for text in ["aot status; rm x", "aot status | tee x", "aot status\nrm x", "aot status > x", ""] {
            assert_eq!(single_command(text), None, "{text}");
        }
    }

    fn check(command: &str, expected: &str) {
        let shown: Vec<String> = simple_commands(command)
            .iter()
            .map(|simple| {
                let folder = simple.folder.as_ref().map(|folder| format!("{folder}: ")).unwrap_or_default();
                let not = if simple.negated { "! " } else { "" };
                let timed = if simple.timed { "timed " } else { "" };
                format!("{folder}{not}{timed}{}", simple.words.join("|"))
            })
            .collect();
        assert_eq!(shown.join(" ; "), expected, "{command}");
    }

    #[test]
    fn programs_and_their_words_are_guessed() {
        check("npm test", "npm|test");
        check("FOO=1 BAR=x env -i python3 -m pytest", "python3|-m|pytest");
        check("1A=1 x=", "1A=1|x=");
        check("A-B=1 x", "A-B=1|x");
        check("=1 x", "=1|x");
        check(
            "cd web && npm ci && cd app; ./run.sh",
            "cd|web ; web: npm|ci ; web: cd|app ; web/app: ./run.sh",
        );
        check("cd web; cd /srv; cd; ls", "cd|web ; web: cd|/srv ; /srv: cd ; /srv: ls");
        check("! grep -q 'a b' x.txt 2>/dev/null | wc -l", "! grep|-q|a b|x.txt ; wc|-l");
        check("! ! ls", "ls");
        check("if [ -f x ]; then make all > log 2>&1; fi", "[|-f|x|] ; make|all");
        check("timeout 10 curl -f \"http://x/?a=1&b=2\"", "timed curl|-f|http://x/?a=1&b=2");
        check("timeout -k 5 ls; nice -n ls", "timed ls ; ls");
        check("for f in a; do ls $f; done", "ls|$f");
        check("echo $(ls; pwd) done # note; rm x", "echo|$(ls; pwd)|done");
        check("echo $(a $(b) c) d", "echo|$(a $(b) c)|d");
        check("echo a # b\nls", "echo|a ; ls");
        check("sort < in > out x", "sort|x");
        check("(sleep 1 &) ; wait", "sleep|1 ; wait");
        check("make \\\n all", "make|all");
        check("", "");
        check("'unclosed", "unclosed");
    }
}
