//! The simple commands in a shell command, as far as they can be told without a shell: enough to name programs and
//! files, never to decide an outcome by.

/// One program with its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Simple {
    /// Where an earlier `cd` has led to.
    pub folder: Option<String>,
    /// The program first; wrappers such as `env` or `time` and assignments are taken off.
    pub words: Vec<String>,
    /// Its exit is turned around by `!`.
    pub negated: bool,
    /// Something before it limits its time.
    pub timed: bool,
}

impl Simple {
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

    /// What only a running shell knows: variables, substitutions, patterns.
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

pub fn simple_commands(command: &str) -> Vec<Simple> {
    let mut found = Vec::new();
    let mut folder: Option<String> = None;
    for words in split(command) {
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
fn unwrapped(words: Vec<String>, folder: Option<String>) -> Option<Simple> {
    let (mut negated, mut timed) = (false, false);
    let mut rest = words.into_iter().peekable();
    while let Some(word) = rest.peek() {
        match word.as_str() {
            "!" => negated = !negated,
            "for" | "case" | "function" => return None,
            "env" | "time" | "nice" | "nohup" | "exec" | "command" | "sudo" | "xvfb-run" | "stdbuf"
            | "setsid" => {
                rest.next();
                while rest.peek().is_some_and(|word| word.starts_with('-')) {
                    rest.next();
                }
                continue;
            }
            "timeout" | "gtimeout" => {
                timed = true;
                rest.next();
                while rest.peek().is_some_and(|word| word.starts_with('-')) {
                    rest.next();
                }
            }
            word if KEYWORDS.contains(&word) || is_assignment(word) => {}
            _ => break,
        }
        rest.next();
    }
    let words: Vec<String> = rest.collect();
    (!words.is_empty()).then_some(Simple { folder, words, negated, timed })
}

fn is_assignment(word: &str) -> bool {
    let Some((name, _)) = word.split_once('=') else { return false };
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Words between the operators. Redirections are left out; what is quoted stays one word.
fn split(command: &str) -> Vec<Vec<String>> {
    let mut found: Vec<Vec<String>> = vec![Vec::new()];
    let mut word: Option<String> = None;
    let mut skip_target = false;
    let mut chars = command.chars().peekable();
    let end_word = |word: &mut Option<String>, found: &mut Vec<Vec<String>>, skip: &mut bool| {
        if let Some(word) = word.take() {
            match std::mem::take(skip) {
                true => {}
                false => found.last_mut().expect("there is always one").push(word),
            }
        }
    };
    while let Some(c) = chars.next() {
        match c {
            '\'' => {
                let text = word.get_or_insert_default();
                text.extend(chars.by_ref().take_while(|c| *c != '\''));
            }
            '"' => {
                let text = word.get_or_insert_default();
                while let Some(c) = chars.next() {
                    match c {
                        '"' => break,
                        '\\' => text.extend(chars.next()),
                        _ => text.push(c),
                    }
                }
            }
            '\\' => word.get_or_insert_default().extend(chars.next().filter(|c| *c != '\n')),
            '$' if chars.peek() == Some(&'(') => {
                // A substitution is one unknown word; what runs inside it is not looked at.
                let text = word.get_or_insert_default();
                text.push('$');
                let mut depth = 0;
                for c in chars.by_ref() {
                    depth += i32::from(c == '(') - i32::from(c == ')');
                    text.push(c);
                    if depth == 0 {
                        break;
                    }
                }
            }
            '>' | '<' => {
                // The number before it is a stream, not an argument.
                if word.as_ref().is_some_and(|word| word.chars().all(|c| c.is_ascii_digit())) {
                    word = None;
                }
                end_word(&mut word, &mut found, &mut skip_target);
                while chars.peek().is_some_and(|c| matches!(c, '>' | '<' | '&' | '|')) {
                    chars.next();
                }
                skip_target = true;
            }
            ';' | '&' | '|' | '\n' | '(' | ')' => {
                end_word(&mut word, &mut found, &mut skip_target);
                skip_target = false;
                found.push(Vec::new());
            }
            '#' if word.is_none() => {
                for c in chars.by_ref() {
                    if c == '\n' {
                        break;
                    }
                }
                found.push(Vec::new());
            }
            c if c.is_whitespace() => end_word(&mut word, &mut found, &mut skip_target),
            c => word.get_or_insert_default().push(c),
        }
    }
    end_word(&mut word, &mut found, &mut skip_target);
    found.retain(|words| !words.is_empty());
    found
}

#[cfg(test)]
mod tests {
    use super::simple_commands;

    fn check(command: &str, expected: &str) {
        let shown: Vec<String> = simple_commands(command)
            .iter()
            .map(|simple| {
                let folder = simple.folder.as_ref().map(|folder| format!("{folder}: ")).unwrap_or_default();
                let not = if simple.negated { "! " } else { "" };
                format!("{folder}{not}{}", simple.words.join("|"))
            })
            .collect();
        assert_eq!(shown.join(" ; "), expected, "{command}");
    }

    #[test]
    fn programs_and_their_words_are_found() {
        check("npm test", "npm|test");
        check("FOO=1 BAR=x env -i python3 -m pytest", "python3|-m|pytest");
        check(
            "cd web && npm ci && cd app; ./run.sh",
            "cd|web ; web: npm|ci ; web: cd|app ; web/app: ./run.sh",
        );
        check("! grep -q 'a b' x.txt 2>/dev/null | wc -l", "! grep|-q|a b|x.txt ; wc|-l");
        check("if [ -f x ]; then make all > log 2>&1; fi", "[|-f|x|] ; make|all");
        check("timeout 10 curl -f \"http://x/?a=1&b=2\"", "curl|-f|http://x/?a=1&b=2");
        check("echo $(ls; pwd) done # note; rm x", "echo|$(ls; pwd)|done");
        check("(sleep 1 &) ; wait", "sleep|1 ; wait");
        check("", "");
        check("'unclosed", "unclosed");
    }
}
