//! A shell command, read as far as it is plain: the words of each program that it starts. Whatever could hide another
//! program or write a file makes it unclear, and what is unclear is never taken for harmless.

/// The programs of a pipeline or a list, each with its words; `None` if it is not plain.
pub(super) fn programs(text: &str) -> Option<Vec<Vec<String>>> {
    let mut reader =
        Reader { chars: text.chars().peekable(), found: Vec::new(), words: Vec::new(), word: None };
    reader.read()?;
    (!reader.found.is_empty()).then_some(reader.found)
}

/// The words of the one program that a command starts.
pub(super) fn only_program(text: &str) -> Option<Vec<String>> {
    match programs(text)?.as_slice() {
        [one] => Some(one.clone()),
        _ => None,
    }
}

struct Reader<'t> {
    chars: std::iter::Peekable<std::str::Chars<'t>>,
    found: Vec<Vec<String>>,
    words: Vec<String>,
    /// The word that is being read.
    word: Option<String>,
}

impl Reader<'_> {
    fn read(&mut self) -> Option<()> {
        while let Some(c) = self.chars.next() {
            match c {
                ' ' | '\t' => self.end_word(),
                '\n' | ';' => self.end_program()?,
                '|' => {
                    self.chars.next_if_eq(&'|');
                    self.end_program()?;
                }
                '&' => {
                    // In the background it would outlive its caller.
                    self.chars.next_if_eq(&'&')?;
                    self.end_program()?;
                }
                '\'' => self.single()?,
                '"' => self.double()?,
                // The shell takes a line that goes on for one, and may read another word than is seen here.
                '\\' => {
                    let next = self.chars.next().filter(|next| *next != '\n')?;
                    self.push(next);
                }
                '>' => self.redirection()?,
                '$' | '`' | '<' | '(' | ')' | '{' | '}' => return None,
                '#' if self.word.is_none() => return None,
                '!' if self.word.is_none() => return None,
                c => self.push(c),
            }
        }
        self.end_program()
    }

    fn push(&mut self, c: char) {
        self.word.get_or_insert_default().push(c);
    }

    fn end_word(&mut self) {
        self.words.extend(self.word.take());
    }

    fn end_program(&mut self) -> Option<()> {
        self.end_word();
        let words = std::mem::take(&mut self.words);
        if let Some(first) = words.first() {
            // An assignment before a program can change which program it is.
            if first.contains('=') {
                return None;
            }
            self.found.push(words);
        }
        Some(())
    }

    fn single(&mut self) -> Option<()> {
        self.word.get_or_insert_default();
        loop {
            match self.chars.next()? {
                '\'' => return Some(()),
                c => self.push(c),
            }
        }
    }

    fn double(&mut self) -> Option<()> {
        self.word.get_or_insert_default();
        loop {
            match self.chars.next()? {
                '"' => return Some(()),
                '$' | '`' => return None,
                '\\' => match self.chars.next()? {
                    c @ ('"' | '\\' | '$' | '`') => self.push(c),
                    '\n' => {}
                    c => {
                        self.push('\\');
                        self.push(c);
                    }
                },
                c => self.push(c),
            }
        }
    }

    /// Only to where nothing is written: another stream, or nowhere.
    fn redirection(&mut self) -> Option<()> {
        // `2>` is no word of the program.
        self.word.take_if(|word| word == "1" || word == "2");
        self.end_word();
        self.chars.next_if_eq(&'>');
        if self.chars.next_if_eq(&'&').is_some() {
            self.chars.next().filter(|c| matches!(c, '1' | '2'))?;
            let ends = self.chars.peek().is_none_or(|next| " \t\n;|&".contains(*next));
            return ends.then_some(());
        }
        while self.chars.next_if_eq(&' ').is_some() {}
        let mut target = String::new();
        while let Some(c) = self.chars.next_if(|c| !" \t\n;|&<>".contains(*c)) {
            target.push(c);
        }
        (target == "/dev/null").then_some(())
    }
}

/// Programs that only read, whatever their words.
const READERS: [&str; 34] = [
    "[", "basename", "cat", "cd", "cmp", "column", "cut", "diff", "dirname", "du", "echo", "egrep", "false",
    "fgrep", "file", "grep", "head", "jq", "ls", "nl", "od", "printf", "pwd", "readlink", "realpath", "rg",
    "stat", "tail", "test", "tr", "tree", "true", "wc", "which",
];

/// What git only reads with.
const GIT_READERS: [&str; 13] = [
    "blame",
    "cat-file",
    "describe",
    "diff",
    "grep",
    "log",
    "ls-files",
    "ls-tree",
    "rev-list",
    "rev-parse",
    "shortlog",
    "show",
    "status",
];

/// Whether a command only reads, as far as can be told.
pub(super) fn only_reads(text: &str) -> bool {
    programs(text).is_some_and(|programs| programs.iter().all(|words| reads(words)))
}

fn reads(words: &[String]) -> bool {
    let (program, rest) = (words[0].as_str(), &words[1..]);
    let has = |flags: &[&str]| rest.iter().any(|word| flags.iter().any(|flag| word.starts_with(flag)));
    match program {
        "find" => !has(&["-delete", "-exec", "-ok", "-fprint", "-fls"]),
        "sort" => !long(rest, &["--output", "--compress-program"]) && !short(rest, "o"),
        // A second name is written to.
        "uniq" => rest.iter().filter(|word| !word.starts_with('-') || *word == "-").count() < 2,
        // Its programs can write; printing lines is what it is used for.
        "sed" => match rest {
            [flag, lines, files @ ..] => {
                flag == "-n" && is_line_print(lines) && !files.iter().any(|word| word.starts_with('-'))
            }
            _ => false,
        },
        "git" => {
            rest.first().is_some_and(|verb| GIT_READERS.contains(&verb.as_str()))
                && !long(rest, &["--output", "--ext-diff", "--textconv", "--open-files-in-pager"])
                && !short(rest, "O")
        }
        "rg" => !has(&["--pre", "--hostname-bin"]),
        "file" => !long(rest, &["--compile"]) && !short(rest, "C"),
        "tree" => !long(rest, &["--output"]) && !short(rest, "o"),
        // A name in brackets is computed, and so is what stands in it.
        "test" | "[" | "printf" => !has(&["-v"]),
        _ => READERS.contains(&program),
    }
}

/// Whether one of these flags is there, also shortened as far as programs understand.
fn long(words: &[String], flags: &[&str]) -> bool {
    let given = words.iter().filter(|word| word.starts_with("--") && word.len() > 2);
    given
        .filter_map(|word| word.split('=').next())
        .any(|name| flags.iter().any(|flag| flag.starts_with(name)))
}

/// Whether one of these letters stands among short flags, also behind others.
fn short(words: &[String], letters: &str) -> bool {
    let mut bundles = words.iter().filter(|word| word.starts_with('-') && !word.starts_with("--"));
    bundles.any(|word| word.contains(|letter| letters.contains(letter)))
}

fn is_line_print(program: &str) -> bool {
    program.ends_with('p')
        && program.chars().all(|c| c.is_ascii_digit() || matches!(c, ',' | '$' | 'p' | ';' | ' '))
}

#[cfg(test)]
mod tests {
    use super::{only_program, only_reads, programs};

    #[test]
    fn plain_commands_are_read() {
        for (text, expected) in [
            ("aot status", "aot status"),
            (
                "aot atom resolve A1 --summary 'it is; done & $well'",
                "aot atom resolve A1 --summary it is; done & $well",
            ),
            (r#"aot stop "a \"b\" c""#, r#"aot stop a "b" c"#),
            ("ls -l 2>/dev/null | wc -l", "ls -l/wc -l"),
            ("cat a && cat b; cat c", "cat a/cat b/cat c"),
            ("grep x y 2>&1", "grep x y"),
            ("echo ''", "echo "),
        ] {
            let read = programs(text).map(|all| all.iter().map(|words| words.join(" ")).collect::<Vec<_>>());
            assert_eq!(read.map(|all| all.join("/")).as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn what_hides_something_is_unclear() {
        for text in [
            "aot status $(rm x)",
            "aot status `rm x`",
            "cat <(rm x)",
            "echo \"$(rm x)\"",
            "a > b",
            "a >> b",
            "a 2> b",
            "rm x &",
            "(rm x)",
            "X=1 aot status",
            "PATH=. aot status",
            "cat << E",
            "find . -del\\\nete",
            "find . -{delete,print}",
            "echo 'open",
            "echo \"open",
            "",
            " ",
            "# a",
            "! a",
            "{ a; }",
            "echo $HOME",
            "a >&3",
            "a > /dev/null2",
        ] {
            assert_eq!(programs(text), None, "{text}");
        }
        assert_eq!(only_program("aot status; rm x"), None);
        assert_eq!(only_program("aot status | tee x"), None);
        assert_eq!(only_program("aot status\nrm x"), None);
    }

    #[test]
    fn reading_is_told_from_writing() {
        for text in [
            "ls -la src",
            "cat a | head -3",
            "grep -rn x . | sort | uniq -c",
            "find . -name '*.rs'",
            "git log -3 --oneline",
            "git diff HEAD~1",
            "sed -n '1,20p' a",
            "cd src && ls",
            "wc -l a 2>/dev/null",
            "test -f a && echo yes",
            "git log --oneline --stat",
            "sort -u a | uniq -c",
            "ls x 2>&1 | head",
        ] {
            assert!(only_reads(text), "{text}");
        }
        for text in [
            "rm a",
            "echo x > a",
            "tee a",
            "sed -i s/a/b/ c",
            "sed -n 'w x' a",
            "find . -delete",
            "find . -exec rm {} +",
            "sort a -o b",
            "sort -uo b a",
            "uniq a b",
            "git commit -m x",
            "git diff --output=x",
            "git checkout .",
            "sh -c 'rm a'",
            "env rm a",
            "xargs rm",
            "python3 -c 'x'",
            "npm test",
            "ls; rm a",
            "cat a && touch b",
            "rg --pre sh x",
            "rg --hostname-bin=./x y",
            "tree -o x",
            "tree -Jo x",
            "file -C -m x",
            "/bin/ls",
            "sed -n 1p -i a",
            "sed -n 1p -Ei a",
            "sed -n 1p --in=.bak a",
            "sed -n 1p --expr='w b' a",
            "test -v 'a[$(touch b)]'",
            "[ -v 'a[$(touch b)]' ]",
            "printf -v 'a[$(touch b)]' x",
            "git grep -nO'touch b;' x",
            "git grep --open='touch b;' x",
            "git diff --outp=x",
            "cat a | uniq - b",
            "echo x >&2file",
            "sort a --outp=b",
            "sort --compress=./x a",
            "file --comp x",
        ] {
            assert!(!only_reads(text), "{text}");
        }
    }
}
