//! Where a user's keys and logins lie, so that a caged job cannot read them: one table. Knows no agent; whoever starts
//! one gives it a copy of its own login.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use rustix::fs::Access;

use crate::agents::profile::places;

/// By whose they are. `~` is the home, `$NAME` at the beginning a variable of the user.
const PLACES: [(&str, &[&str]); 12] = [
    (
        "keys and passwords",
        &[
            "~/.ssh",
            "~/.gnupg",
            "$GNUPGHOME",
            "~/.pki",
            "~/.age",
            "~/.config/age",
            "~/.config/sops",
            "~/.vault-token",
            "~/.password-store",
            "$PASSWORD_STORE_DIR",
            "~/.local/share/gopass",
            "~/.local/share/keyrings",
            "~/.local/share/kwalletd",
            "~/.config/keepassxc",
            "~/.config/op",
            "~/.config/1Password",
            "~/.config/Bitwarden",
            "~/.config/Bitwarden CLI",
            "~/.netrc",
            "$NETRC",
            "~/.authinfo",
            "~/.authinfo.gpg",
            "~/.Xauthority",
            "~/.ICEauthority",
            "~/.pgpass",
            "~/.my.cnf",
            "~/.mylogin.cnf",
            "~/.msmtprc",
            "~/.fetchmailrc",
            "~/.mbsyncrc",
            "~/.offlineimaprc",
            "~/.config/solana",
            "~/.bitcoin",
            "~/.ethereum",
            "~/.electrum",
        ],
    ),
    (
        "clouds",
        &[
            "~/.aws",
            "$AWS_SHARED_CREDENTIALS_FILE",
            "$AWS_CONFIG_FILE",
            "~/.azure",
            "$AZURE_CONFIG_DIR",
            "~/.config/gcloud",
            "$CLOUDSDK_CONFIG",
            "$GOOGLE_APPLICATION_CREDENTIALS",
            "~/.boto",
            "~/.s3cfg",
            "~/.oci",
            "~/.aliyun",
            "~/.bluemix",
            "~/.config/doctl",
            "~/.config/hcloud",
            "~/.config/linode-cli",
            "~/.config/scw",
            "~/.config/exoscale",
            "~/.config/rclone",
            "~/.config/configstore",
            "~/.config/heroku",
            "~/.config/netlify",
            "~/.config/stripe",
            "~/.config/.wrangler",
            "~/.wrangler",
            "~/.fly",
            "~/.railway",
            "~/.supabase",
            "~/.local/share/com.vercel.cli",
            "~/.terraformrc",
            "~/.terraform.d/credentials.tfrc.json",
            "~/.pulumi/credentials.json",
        ],
    ),
    (
        "forges",
        &[
            "~/.config/gh",
            "$GH_CONFIG_DIR",
            "~/.config/glab-cli",
            "~/.config/hub",
            "~/.config/tea",
            "~/.config/lab",
            "~/.git-credentials",
            "~/.config/git/credentials",
        ],
    ),
    (
        "package registries",
        &[
            "~/.npmrc",
            "$NPM_CONFIG_USERCONFIG",
            "~/.yarnrc.yml",
            "~/.config/pnpm/auth.ini",
            "~/.pypirc",
            "~/.config/pypoetry/auth.toml",
            "~/.local/share/uv/credentials",
            "~/.cargo/credentials",
            "~/.cargo/credentials.toml",
            "$CARGO_HOME/credentials",
            "$CARGO_HOME/credentials.toml",
            "~/.gem/credentials",
            "~/.local/share/gem/credentials",
            "~/.m2/settings.xml",
            "~/.m2/settings-security.xml",
            "~/.gradle/gradle.properties",
            "$GRADLE_USER_HOME/gradle.properties",
            "~/.sbt/.credentials",
            "~/.ivy2/.credentials",
            "~/.composer/auth.json",
            "~/.config/composer/auth.json",
            "~/.nuget/NuGet/NuGet.Config",
            "~/.config/NuGet/NuGet.Config",
            "~/.hex/hex.config",
            "~/.config/dart/pub-credentials.json",
            "~/.huggingface/token",
            "~/.cache/huggingface/token",
            "~/.kaggle",
        ],
    ),
    (
        "containers and clusters",
        &[
            "~/.docker/config.json",
            "~/.docker/contexts",
            "~/.docker/run",
            "~/.docker/desktop",
            "~/.colima",
            "~/.lima",
            "~/.rd",
            "~/.local/share/containers/podman/machine",
            "$DOCKER_CONFIG/config.json",
            "~/.config/containers/auth.json",
            "~/.kube",
            "$KUBECONFIG",
            "~/.config/helm",
            "~/.config/argocd",
            "/etc/kubernetes",
            "/etc/rancher",
        ],
    ),
    (
        "browsers and messengers",
        &[
            "~/.mozilla",
            "~/.thunderbird",
            "~/snap/firefox",
            "~/snap/chromium",
            "~/.var/app",
            "~/.config/google-chrome",
            "~/.config/chromium",
            "~/.config/BraveSoftware",
            "~/.config/microsoft-edge",
            "~/.config/vivaldi",
            "~/.config/opera",
            "~/.config/Slack",
            "~/.config/Signal",
            "~/.config/discord",
        ],
    ),
    ("Claude Code", &["~/.claude", "~/.claude.json", "~/.claude.json.backup", "$CLAUDE_CONFIG_DIR"]),
    ("Codex", &["~/.codex", "$CODEX_HOME"]),
    ("Gemini CLI", &["~/.gemini"]),
    (
        "opencode",
        &["~/.local/share/opencode", "~/.config/opencode", "~/.local/state/opencode", "~/.cache/opencode"],
    ),
    (
        "other agents",
        &[
            "~/.cursor",
            "~/.config/Cursor",
            "~/.config/cursor",
            "~/.aider.conf.yml",
            "~/.aider",
            "~/.config/github-copilot",
            "~/.copilot",
            "~/.codeium",
            "~/.continue",
            "~/.config/goose",
            "~/.config/amp",
            "~/.local/share/amp",
            "~/.config/crush",
            "~/.local/share/crush",
            "~/.config/io.datasette.llm",
            "~/.factory",
            "~/.qwen",
            "~/.config/Code/User/globalStorage",
        ],
    ),
    (
        "histories",
        &[
            "$HISTFILE",
            "~/.bash_history",
            "~/.zsh_history",
            "~/.zhistory",
            "~/.histfile",
            "~/.ash_history",
            "~/.sh_history",
            "~/.local/share/fish/fish_history",
            "~/.local/share/atuin",
            "~/.python_history",
            "~/.node_repl_history",
            "~/.psql_history",
            "~/.mysql_history",
            "~/.sqlite_history",
            "~/.rediscli_history",
            "~/.viminfo",
            "~/.lesshst",
        ],
    ),
];

/// The system's own. Only the superuser can read most of them.
const SYSTEM: [&str; 19] = [
    "/etc/shadow",
    "/etc/shadow-",
    "/etc/gshadow",
    "/etc/gshadow-",
    "/etc/security/opasswd",
    "/etc/krb5.keytab",
    "/etc/ipsec.secrets",
    "/etc/wireguard",
    "/etc/openvpn",
    "/etc/ppp/chap-secrets",
    "/etc/ppp/pap-secrets",
    "/etc/NetworkManager/system-connections",
    "/etc/ssl/private",
    "/etc/ssh/ssh_host_dsa_key",
    "/etc/ssh/ssh_host_ecdsa_key",
    "/etc/ssh/ssh_host_ed25519_key",
    "/etc/ssh/ssh_host_rsa_key",
    "/run/secrets",
    "/run/user",
];

/// Folders that a variable may have moved, and where they are without it.
const MOVED: [(&str, &str); 4] = [
    ("~/.config/", "$XDG_CONFIG_HOME/"),
    ("~/.local/share/", "$XDG_DATA_HOME/"),
    ("~/.local/state/", "$XDG_STATE_HOME/"),
    ("~/.cache/", "$XDG_CACHE_HOME/"),
];

/// So many entries of a hidden folder are looked at to leave one of them open.
const MOST_BESIDE: usize = 10_000;

/// What is known of the machine and wanted by the settings.
#[derive(Clone, Copy, Debug)]
pub struct KeySearch<'a> {
    pub home: Option<&'a Path>,
    /// Homes of others whose keys we could read; only the superuser has any.
    pub other_homes: &'a [PathBuf],
    pub variables: &'a [(OsString, OsString)],
    /// Further places, and places to leave open, as the settings name them.
    pub hide: &'a [PathBuf],
    pub show: &'a [PathBuf],
    /// The project's folder, its state file and its sidecar stay readable wherever they lie.
    pub project: &'a [PathBuf],
}

/// The places that are here and that we could read, as the kernel sees them.
pub fn hidden(search: &KeySearch<'_>) -> Vec<PathBuf> {
    let names = PLACES.iter().flat_map(|(_, names)| names.iter());
    let mut names: Vec<String> = names.map(|name| (*name).to_owned()).collect();
    let moved = names.iter().flat_map(|name| {
        let moved =
            move |(from, to): &(&str, &str)| name.strip_prefix(from).map(|rest| format!("{to}{rest}"));
        MOVED.iter().filter_map(moved)
    });
    let moved: Vec<String> = moved.collect();
    names.extend(moved);
    let variable = |name: &str| {
        let found = search.variables.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| PathBuf::from(value))
    };
    let mut found = places(&names, search.home, &variable);
    for home in search.other_homes {
        found.extend(places(&names, Some(home), &|_| None));
    }
    found.extend(SYSTEM.map(PathBuf::from));
    found.extend(search.hide.iter().cloned());
    let can_read = |path: &PathBuf| rustix::fs::access(path, Access::READ_OK).is_ok();
    // Most of these names are not here, and for the superuser they are looked for in every home: one look at each is cheaper
    // than following all of its folders.
    let here = found.iter().filter(|path| path.symlink_metadata().is_ok());
    let real = here.filter_map(|path| path.canonicalize().ok());
    let found: Vec<PathBuf> = real.filter(|path| path != Path::new("/") && can_read(path)).collect();
    let hidden = outermost(open_to(&found, search.show));
    let project = search.project.iter().filter_map(|path| path.canonicalize().ok());
    outermost(project.fold(hidden, |hidden, own| without(hidden, &own)))
}

/// What stays hidden from somebody to whom these places, and what lies in them, are open.
pub fn open_to(hidden: &[PathBuf], open: &[PathBuf]) -> Vec<PathBuf> {
    let open: Vec<PathBuf> = open.iter().filter_map(|path| path.canonicalize().ok()).collect();
    let is_open = |path: &&PathBuf| open.iter().any(|open| path.starts_with(open));
    let hidden = hidden.iter().filter(|path| !is_open(path)).cloned().collect();
    open.iter().fold(hidden, |hidden, open| without(hidden, open))
}

/// What has to be open so that a program runs that was installed into a hidden place: all that lies beside it there.
pub fn around(hidden: &[PathBuf], program: &Path) -> Option<PathBuf> {
    let program = program.canonicalize().ok()?;
    let (holder, rest) =
        hidden.iter().find_map(|path| program.strip_prefix(path).ok().map(|rest| (path, rest)))?;
    Some(rest.components().next().map_or(holder.clone(), |first| holder.join(first)))
}

/// The same without this path: what holds it is replaced by everything beside it.
fn without(hidden: Vec<PathBuf>, open: &Path) -> Vec<PathBuf> {
    let mut left = Vec::new();
    for path in hidden {
        if !open.starts_with(&path) {
            left.push(path);
        } else if open != path {
            let beside = fs::read_dir(&path).into_iter().flatten().flatten().take(MOST_BESIDE);
            left.extend(without(beside.map(|entry| entry.path()).collect(), open));
        }
    }
    left
}

/// What lies in something hidden is hidden with it.
fn outermost(mut hidden: Vec<PathBuf>) -> Vec<PathBuf> {
    hidden.sort();
    hidden.dedup();
    let mut kept: Vec<PathBuf> = Vec::new();
    for path in hidden {
        if !kept.last().is_some_and(|last| path.starts_with(last)) {
            kept.push(path);
        }
    }
    kept
}

/// The homes of this machine's users, for the superuser, who can read them all.
pub fn other_homes() -> Vec<PathBuf> {
    if !rustix::process::geteuid().is_root() {
        return Vec::new();
    }
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let homes = users.lines().filter_map(|line| line.split(':').nth(5)).map(PathBuf::from);
    let homes: BTreeSet<PathBuf> = homes.filter(|home| home.is_absolute() && home.is_dir()).collect();
    homes.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Files that are there, what is to be hidden and shown, and what is hidden in the end.
    fn check(files: &[&str], hide: &[&str], show: &[&str], expected: &[&str]) {
        let folder = tempfile::tempdir().expect("a folder");
        let home = folder.path().canonicalize().expect("it is there");
        for file in files.iter().chain(&["project/x"]) {
            let path = home.join(file);
            fs::create_dir_all(path.parent().expect("it has one")).expect("folders");
            fs::write(path, "x").expect("a file");
        }
        let whole = |names: &[&str]| names.iter().map(|name| home.join(name)).collect::<Vec<_>>();
        let search = KeySearch {
            home: Some(&home),
            other_homes: &[],
            variables: &[("XDG_CONFIG_HOME".into(), home.join("moved").into())],
            hide: &whole(hide),
            show: &whole(show),
            project: &[home.join("project"), home.join(".claude/state.md")],
        };
        let found = hidden(&search);
        let found: Vec<_> = found.iter().filter_map(|path| path.strip_prefix(&home).ok()).collect();
        assert_eq!(found, expected.iter().map(Path::new).collect::<Vec<_>>(), "{files:?} {hide:?} {show:?}");
    }

    #[test]
    fn what_is_here_is_hidden_and_what_is_shown_is_not() {
        check(&["notes"], &[], &[], &[]);
        check(&[".ssh/id", ".npmrc", "notes"], &[], &[], &[".npmrc", ".ssh"]);
        check(&["moved/gh/hosts.yml", ".config/gh/hosts.yml"], &[], &[], &[".config/gh", "moved/gh"]);
        check(&["notes", "more"], &["notes", "gone"], &[], &["notes"]);
        check(&[".ssh/id", ".ssh/config"], &[], &[".ssh"], &[]);
        check(&[".ssh/id", ".ssh/config"], &[], &[".ssh/config"], &[".ssh/id"]);
        check(&[".aws/a/x", ".aws/a/y", ".aws/b"], &[], &[".aws/a/x"], &[".aws/a/y", ".aws/b"]);
        check(&[".ssh/id"], &[".ssh/id"], &[], &[".ssh"]);
        // The project is in the way of nobody but itself.
        check(&[".ssh/id"], &["project"], &[], &[".ssh"]);
        check(&["all/.ssh/id"], &[""], &[], &["all"]);
        // A loop in the home itself lies among the settings of Claude Code.
        check(&[".claude/state.md", ".claude/key"], &[], &[], &[".claude/key"]);
    }

    #[test]
    fn a_program_in_a_hidden_place_can_run() {
        let folder = tempfile::tempdir().expect("a folder");
        let home = folder.path().canonicalize().expect("it is there");
        let package = home.join(".claude/local/node_modules/claude");
        fs::create_dir_all(&package).expect("folders");
        for file in [".claude/key", ".claude/local/node_modules/claude/cli.js"] {
            fs::write(home.join(file), "x").expect("a file");
        }
        let hidden = [home.join(".ssh"), home.join(".claude")];
        let open = around(&hidden, &package.join("cli.js"));
        assert_eq!(open, Some(home.join(".claude/local")));
        let left = open_to(&hidden, &open.into_iter().collect::<Vec<_>>());
        assert_eq!(left, [home.join(".ssh"), home.join(".claude/key")]);
        assert_eq!(around(&hidden, Path::new("/bin/sh")), None);
    }

    #[test]
    fn a_link_hides_what_it_leads_to() {
        let folder = tempfile::tempdir().expect("a folder");
        let home = folder.path().canonicalize().expect("it is there");
        fs::create_dir_all(home.join("dotfiles/ssh")).expect("folders");
        std::os::unix::fs::symlink("dotfiles/ssh", home.join(".ssh")).expect("a link");
        let search = KeySearch {
            home: Some(&home),
            other_homes: &[],
            variables: &[],
            hide: &[],
            show: &[],
            project: &[],
        };
        assert!(hidden(&search).contains(&home.join("dotfiles/ssh")));
    }
}
