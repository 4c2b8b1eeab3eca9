//! Which variables a worker gets to see. A list of what is let through and not of what is held back: nobody knows the
//! names of all secrets. Reads no environment itself.

use std::ffi::{OsStr, OsString};

/// Who and where.
const PERSON: [&str; 9] = ["PATH", "HOME", "USER", "LOGNAME", "SHELL", "TZ", "HOSTNAME", "PWD", "CI"];

/// How to speak and to draw.
const SPEECH: [&str; 10] = [
    "LANG",
    "LANGUAGE",
    "TERM",
    "TERMINFO",
    "TERMINFO_DIRS",
    "COLORTERM",
    "NO_COLOR",
    "FORCE_COLOR",
    "CLICOLOR",
    "CLICOLOR_FORCE",
];

/// Not the folder for sockets of the session, `XDG_RUNTIME_DIR`.
const FOLDERS: [&str; 6] = [
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_CACHE_HOME",
    "XDG_STATE_HOME",
    "XDG_CONFIG_DIRS",
    "XDG_DATA_DIRS",
];

/// Where tools and their libraries lie.
const TOOLS: [&str; 50] = [
    "CARGO_HOME",
    "RUSTUP_HOME",
    "RUSTUP_TOOLCHAIN",
    "RUSTFLAGS",
    "RUSTC_WRAPPER",
    "SCCACHE_DIR",
    "CCACHE_DIR",
    "GOPATH",
    "GOROOT",
    "GOBIN",
    "GOFLAGS",
    "GOCACHE",
    "GOMODCACHE",
    "GOTOOLCHAIN",
    "JAVA_HOME",
    "JDK_HOME",
    "MAVEN_HOME",
    "M2_HOME",
    "GRADLE_HOME",
    "GRADLE_USER_HOME",
    "ANDROID_HOME",
    "ANDROID_SDK_ROOT",
    "DOTNET_ROOT",
    "NVM_DIR",
    "NODE_PATH",
    "PNPM_HOME",
    "BUN_INSTALL",
    "DENO_DIR",
    "VOLTA_HOME",
    "PYENV_ROOT",
    "PYTHONPATH",
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
    "UV_CACHE_DIR",
    "PIPX_HOME",
    "RBENV_ROOT",
    "GEM_HOME",
    "GEM_PATH",
    "CC",
    "CXX",
    "CFLAGS",
    "CXXFLAGS",
    "CPPFLAGS",
    "LDFLAGS",
    "MAKEFLAGS",
    "PKG_CONFIG_PATH",
    "LD_LIBRARY_PATH",
    "LIBRARY_PATH",
    "CPATH",
    "NIX_PATH",
];

/// The way out, and whom to trust on it.
const NETWORK: [&str; 16] = [
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "CURL_CA_BUNDLE",
    "REQUESTS_CA_BUNDLE",
    "NODE_EXTRA_CA_CERTS",
    "GIT_SSL_CAINFO",
    "CARGO_HTTP_CAINFO",
    "NIX_SSL_CERT_FILE",
];

/// Every name that begins so, if it does not sound like a secret.
const LOCALE: &str = "LC_";

const SECRETS: [&str; 6] = ["TOKEN", "SECRET", "PASSWORD", "PASSWD", "KEY", "CREDENTIAL"];

/// What is let through: the usual ones, and the further ones by name or by `PREFIX_*`. The folder for temporary files is
/// not among them: whoever starts a worker gives it one.
pub fn allowed(
    all: impl Iterator<Item = (OsString, OsString)>,
    further: &[String],
) -> Vec<(OsString, OsString)> {
    all.filter(|(name, _)| is_usual(name) || further.iter().any(|wanted| fits(name, wanted))).collect()
}

/// Whether somebody can name a variable, or the beginning of several, like this.
pub fn is_name(word: &str) -> bool {
    let name = word.strip_suffix('*').unwrap_or(word);
    let is_letter = |c: char| c.is_ascii_alphabetic() || c == '_';
    name.starts_with(is_letter) && name.chars().all(|c| is_letter(c) || c.is_ascii_digit())
}

fn is_usual(name: &OsStr) -> bool {
    let Some(name) = name.to_str() else { return false };
    let lists: [&[&str]; 5] = [&PERSON, &SPEECH, &FOLDERS, &TOOLS, &NETWORK];
    let is_locale = name.starts_with(LOCALE) && !SECRETS.iter().any(|secret| name.contains(secret));
    is_locale || lists.iter().any(|list| list.contains(&name))
}

/// Whether a variable has this name, or begins so.
pub fn fits(name: &OsStr, wanted: &str) -> bool {
    match wanted.strip_suffix('*') {
        Some(beginning) => name.as_encoded_bytes().starts_with(beginning.as_bytes()),
        None => name == wanted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(names: &str, further: &[&str], expected: &str) {
        let all = names.split(' ').map(|name| (OsString::from(name), OsString::from("x")));
        let further: Vec<String> = further.iter().map(|name| (*name).to_owned()).collect();
        let let_through: Vec<String> =
            allowed(all, &further).into_iter().map(|(name, _)| name.into_string().expect("a text")).collect();
        assert_eq!(let_through.join(" "), expected, "{names} with {further:?}");
    }

    #[test]
    fn what_is_not_known_is_held_back() {
        let usual = "PATH HOME USER LOGNAME SHELL LANG LANGUAGE LC_ALL LC_CTYPE TERM TZ COLORTERM NO_COLOR \
                     XDG_CONFIG_HOME XDG_DATA_DIRS CARGO_HOME RUSTUP_HOME GOPATH GOROOT JAVA_HOME NVM_DIR \
                     PYENV_ROOT VIRTUAL_ENV https_proxy NO_PROXY SSL_CERT_FILE NODE_EXTRA_CA_CERTS";
        check(usual, &[], usual);
        for secret in [
            "AWS_SECRET_ACCESS_KEY",
            "GITHUB_TOKEN",
            "SSH_AUTH_SOCK",
            "ANTHROPIC_API_KEY",
            "DATABASE_URL",
            "NPM_TOKEN",
            "CARGO_REGISTRY_TOKEN",
            "LC_MY_TOKEN",
            "XDG_RUNTIME_DIR",
            "DBUS_SESSION_BUS_ADDRESS",
            "TMUX",
            "TMPDIR",
            "path",
            "PATHX",
            "",
        ] {
            check(secret, &[], "");
        }
    }

    #[test]
    fn what_is_named_is_let_through() {
        check("GITHUB_TOKEN GITHUB_TOKEN_2 HOME", &["GITHUB_TOKEN"], "GITHUB_TOKEN HOME");
        check("AWS_REGION AWS_SECRET_ACCESS_KEY AWSOME", &["AWS_*"], "AWS_REGION AWS_SECRET_ACCESS_KEY");
        check("A B", &[], "");
    }

    #[test]
    fn names_are_told_from_other_words() {
        for (word, expected) in [
            ("A", true),
            ("_a1", true),
            ("A_*", true),
            ("*", false),
            ("", false),
            ("A B", false),
            ("1", false),
        ] {
            assert_eq!(is_name(word), expected, "{word:?}");
        }
    }
}
