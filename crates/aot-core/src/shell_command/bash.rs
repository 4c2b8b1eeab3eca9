//! Whether a command is written for bash. A guess from what people use, so that a command means the same whatever shell its
//! user logs in with.

/// Signs of bash outside of quotes.
const SIGNS: [&str; 8] = ["[[ ", "<(", ">(", "<<<", "&>", "|&", "$'", ";&"];

/// Words that only bash knows, where a command or an option can stand.
const WORDS: [&str; 11] = [
    "source",
    "shopt",
    "declare",
    "typeset",
    "mapfile",
    "readarray",
    "pushd",
    "popd",
    "let",
    "pipefail",
    "function",
];

/// Variables that only bash sets.
const VARIABLES: [&str; 6] = ["RANDOM", "SECONDS", "BASH", "PIPESTATUS", "OSTYPE", "HOSTTYPE"];

/// Whether the system's own shell would take it for something else than bash does.
pub fn needs_bash(command: &str) -> bool {
    let (bare, open) = unquoted(command);
    let is_arithmetic = bare.match_indices("((").any(|(at, _)| !bare[..at].ends_with('$'));
    let is_array = bare.match_indices("=(").any(|(at, _)| bare[..at].ends_with(is_of_name));
    let words = |c: char| !(is_of_name(c) || matches!(c, '-' | '.' | '/'));
    SIGNS.iter().any(|sign| bare.contains(sign))
        || bare.split(words).any(|word| WORDS.contains(&word))
        || is_arithmetic
        || is_array
        || has_range(&bare)
        || has_expansion(&open)
}

/// The text outside of all quotes, and outside of single ones.
fn unquoted(command: &str) -> (String, String) {
    let (mut bare, mut open) = (String::new(), String::new());
    let (mut single, mut double) = (false, false);
    let mut rest = command.chars();
    while let Some(c) = rest.next() {
        match c {
            '\'' if !double => {
                if !single && bare.ends_with('$') {
                    bare.push('\'');
                }
                single = !single;
            }
            _ if single => {}
            '"' => double = !double,
            '\\' => drop(rest.next()),
            c => {
                open.push(c);
                if !double {
                    bare.push(c);
                }
            }
        }
    }
    (bare, open)
}

/// `{1..9}`.
fn has_range(bare: &str) -> bool {
    bare.split('{').skip(1).any(|part| {
        let inner = part.split('}').next().unwrap_or_default();
        part.contains('}') && inner.contains("..") && !inner.contains(char::is_whitespace)
    })
}

/// `${name/a/b}`, `${name:1}`, `${name^^}`, `${!name}`, `${name[0]}`, `$RANDOM`.
fn has_expansion(open: &str) -> bool {
    open.split('$').skip(1).any(|part| {
        let (braced, inner) = match part.strip_prefix('{') {
            Some(inner) => (true, inner),
            None => (false, part),
        };
        let end = inner.find(|c| !is_of_name(c)).unwrap_or(inner.len());
        let (name, rest) = inner.split_at(end);
        let is_slice =
            rest.strip_prefix(':').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
        VARIABLES.contains(&name)
            || braced && name.is_empty() && rest.starts_with('!')
            || braced && !name.is_empty() && (is_slice || rest.starts_with(['/', '^', ',', '[']))
    })
}

fn is_of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::needs_bash;

    #[test]
    fn what_only_bash_understands() {
        for command in [
            "[[ -f x ]]",
            "diff <(sort a) <(sort b)",
            "set -o pipefail; a | b",
            "set -euo pipefail",
            "source env.sh && run",
            "for i in {1..3}; do a; done",
            "a=(1 2); echo ${a[0]}",
            "echo ${x//a/b}",
            "echo \"${x^^}\"",
            "echo ${x:1:2}",
            "make &> log",
            "cat <<< text",
            "((x > 1))",
            "printf $'a\\n'",
            "exit $((RANDOM % 2)); echo $RANDOM",
        ] {
            assert!(needs_bash(command), "{command}");
        }
    }

    #[test]
    fn what_every_shell_understands() {
        for command in [
            "npm test",
            "cd x && make -j4 2>&1 | tee log",
            "test \"$(cat a)\" = b",
            "echo $((1 + 2))",
            "echo ${x:-default} ${y%.c} ${z#a}",
            "grep -E '[[:space:]](a|b){1,3}' x",
            "grep '<(' x; echo \"source code\"",
            "./source.sh",
            "python -c 'print([[1, 2]])'",
            "a & b",
            "x=$(y) z",
            "while read -r line; do echo \"$line\"; done < file",
            "awk '{ a[$1] = 2 } END { for (i in a) print i }' x",
        ] {
            assert!(!needs_bash(command), "{command}");
        }
    }
}
