//! Which shell commands only read, so that a probe or a verifier may run them. Whatever is not known to read is taken
//! for a command that writes.

use crate::shell_command::plain_commands;

/// Programs that only read, whatever their arguments.
const READERS: [&str; 28] = [
    "basename", "cat", "cd", "cmp", "column", "cut", "diff", "dirname", "du", "echo", "egrep", "false",
    "fgrep", "grep", "head", "jq", "ls", "nl", "od", "pwd", "readlink", "realpath", "stat", "tail", "tr",
    "true", "wc", "which",
];

/// Verbs of git that only read.
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

pub(super) fn only_reads(text: &str) -> bool {
    plain_commands(text).is_some_and(|commands| commands.iter().all(|words| reads(words)))
}

fn reads(words: &[String]) -> bool {
    let (program, rest) = (words[0].as_str(), &words[1..]);
    let has = |flags: &[&str]| rest.iter().any(|word| flags.iter().any(|flag| word.starts_with(flag)));
    match program {
        "find" => !has(&["-delete", "-exec", "-ok", "-fprint", "-fls"]),
        "sort" => !long(rest, &["--output", "--compress-program"]) && !short(rest, "o"),
        // `uniq` writes to a second file.
        "uniq" => rest.iter().filter(|word| !word.starts_with('-') || *word == "-").count() < 2,
        // A program of `sed` can write files; only the printing of lines is let through.
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
        // The shell evaluates the index of a variable that `-v` names, and with it any substitution in it.
        "test" | "[" | "printf" => !has(&["-v"]),
        _ => READERS.contains(&program),
    }
}

/// Whether one of these long flags is given, also abbreviated, as programs accept it.
fn long(words: &[String], flags: &[&str]) -> bool {
    let given = words.iter().filter(|word| word.starts_with("--") && word.len() > 2);
    given
        .filter_map(|word| word.split('=').next())
        .any(|name| flags.iter().any(|flag| flag.starts_with(name)))
}

/// Whether one of these short flags is given, also bundled behind others.
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
    use super::only_reads;

    #[test]
    fn reading_is_distinguished_from_writing() {
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
            "uniq -c",
            "uniq a",
            "sort a",
            "git grep x",
            "rg x",
            "tree -L 2",
            "file a",
            "printf x",
            "[ -f a ]",
            "sed -n '2p;4p' a",
            "sed -n '$p'",
            "sort -- a",
            "sort notes",
            "sort --numeric-sort a",
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
            "file -C",
            "uniq a '2'>/dev/null",
            "uniq a \\2>/dev/null",
            "git",
            "git -c core.pager=x log",
            "git diff --ext-diff",
            "git show --textconv",
            "sed",
            "sed -n",
            "sed -n 1d a",
            "sed -n p1 a",
            "sed 1p a",
            "find . -ok rm {} +",
            "find . -fprint x",
            "find . -fls x",
            "tree --output=x",
        ] {
            assert!(!only_reads(text), "{text}");
        }
    }
}
