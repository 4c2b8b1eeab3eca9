//! Who gives an order and who replies: each machine has a key pair of its own, and knows the public keys of those that it
//! works with. A text is signed for one purpose, so that an order can never be taken for a reply. Knows neither.

use std::fmt;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey};
use serde::{Deserialize, Serialize};

use crate::plain_file;

/// In the user's folder for settings; no worker can read it.
pub const FOLDER: &str = "keys";

/// The secret half, in hexadecimal digits.
const SECRET: &str = "this-machine";
/// Whose orders this machine takes, and which hosts it gives orders to: a name and a key on each line.
const DRIVERS: &str = "drivers";
const HOSTS: &str = "hosts";

const KEY_BYTES: usize = 32;
const FILE_BYTES: u64 = 1 << 20;

/// What every public key begins with, so that people see what it is.
const BEGINS: &str = "aot1";

#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PublicKey([u8; KEY_BYTES]);

/// What a text is signed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignedAs {
    Order,
    Reply,
    Question,
    Answer,
}

/// Of whom keys are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peers {
    Drivers,
    Hosts,
}

/// Signs in the name of this machine.
#[derive(Clone)]
pub struct MachineIdentity(SigningKey);

#[derive(Debug, Serialize, Deserialize)]
struct Envelope {
    by: String,
    signature: String,
    text: String,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotOpened {
    #[error("it is not signed in the way that this version understands")]
    Unreadable,
    #[error("it is signed by {0}, a key that is not known here")]
    Unknown(PublicKey),
    #[error("its signature is not that of {0}")]
    Forged(PublicKey),
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no public key: it begins with `{BEGINS}` and has 64 hexadecimal digits")]
pub struct NoKey(String);

impl MachineIdentity {
    /// The one of this user on this machine, made when it is first needed.
    pub fn of(settings: &Path) -> io::Result<MachineIdentity> {
        let folder = settings.join(FOLDER);
        let path = folder.join(SECRET);
        let read = || {
            let text = plain_file::read(&path, FILE_BYTES)?;
            let bytes = std::str::from_utf8(&text).ok().and_then(|text| from_hex::<KEY_BYTES>(text.trim()));
            bytes.ok_or_else(|| {
                io::Error::new(io::ErrorKind::InvalidData, format!("{} holds no key", path.display()))
            })
        };
        match read() {
            Ok(bytes) => Ok(MachineIdentity(SigningKey::from_bytes(&bytes))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
                let identity = MachineIdentity::new()?;
                // Two processes at once: the second one reads what the first one has written.
                let mut half = tempfile::NamedTempFile::new_in(&folder)?;
                half.write_all(to_hex(&identity.0.to_bytes()).as_bytes())?;
                match half.persist_noclobber(&path) {
                    Ok(_) => Ok(identity),
                    Err(_) => Ok(MachineIdentity(SigningKey::from_bytes(&read()?))),
                }
            }
            Err(error) => Err(error),
        }
    }

    /// A new one, kept nowhere.
    pub fn new() -> io::Result<MachineIdentity> {
        let mut bytes = [0; KEY_BYTES];
        let mut random = fs::File::open("/dev/urandom")?;
        io::Read::read_exact(&mut random, &mut bytes)?;
        Ok(MachineIdentity(SigningKey::from_bytes(&bytes)))
    }

    pub fn public(&self) -> PublicKey {
        PublicKey(self.0.verifying_key().to_bytes())
    }

    pub fn sign(&self, purpose: SignedAs, text: String) -> Vec<u8> {
        let signature = self.0.sign(&signed(purpose, &text));
        let envelope =
            Envelope { by: self.public().to_string(), signature: to_hex(&signature.to_bytes()), text };
        serde_json::to_vec(&envelope).expect("texts can be written as JSON")
    }
}

/// The text of an envelope and who signed it, if that is known.
pub fn open(
    bytes: &[u8],
    purpose: SignedAs,
    is_known: impl Fn(&PublicKey) -> bool,
) -> Result<(PublicKey, String), NotOpened> {
    let envelope: Envelope = serde_json::from_slice(bytes).map_err(|_| NotOpened::Unreadable)?;
    let by: PublicKey = envelope.by.parse().map_err(|_| NotOpened::Unreadable)?;
    if !is_known(&by) {
        return Err(NotOpened::Unknown(by));
    }
    let signature = from_hex::<64>(&envelope.signature).ok_or(NotOpened::Unreadable)?;
    let key = VerifyingKey::from_bytes(&by.0).map_err(|_| NotOpened::Unreadable)?;
    key.verify_strict(&signed(purpose, &envelope.text), &Signature::from_bytes(&signature))
        .map_err(|_| NotOpened::Forged(by))?;
    Ok((by, envelope.text))
}

/// The keys that this user has written down, with their names; lines that are none are left out.
pub fn known(settings: &Path, peers: Peers) -> Vec<(String, PublicKey)> {
    let text = plain_file::read(&list(settings, peers), FILE_BYTES).unwrap_or_default();
    let text = String::from_utf8_lossy(&text).into_owned();
    let line = |line: &str| {
        let (name, key) = line.trim().split_once(char::is_whitespace)?;
        Some((name.to_owned(), key.trim().parse().ok()?))
    };
    text.lines().filter_map(line).collect()
}

/// Writes a key down; a name has one key.
pub fn remember(settings: &Path, peers: Peers, name: &str, key: PublicKey) -> io::Result<()> {
    let mut all = known(settings, peers);
    all.retain(|(known, _)| known != name);
    all.push((name.to_owned(), key));
    let folder = settings.join(FOLDER);
    DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
    let text: String = all.iter().map(|(name, key)| format!("{name} {key}\n")).collect();
    let path = list(settings, peers);
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    plain_file::open(&path, &mut options)?.write_all(text.as_bytes())
}

fn list(settings: &Path, peers: Peers) -> PathBuf {
    settings.join(FOLDER).join(match peers {
        Peers::Drivers => DRIVERS,
        Peers::Hosts => HOSTS,
    })
}

fn signed(purpose: SignedAs, text: &str) -> Vec<u8> {
    let word = match purpose {
        SignedAs::Order => "order",
        SignedAs::Reply => "reply",
        SignedAs::Question => "question",
        SignedAs::Answer => "answer",
    };
    format!("aot {word}\n{text}").into_bytes()
}

fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn from_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    if text.len() != 2 * N || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let mut bytes = [0; N];
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).ok()?;
    }
    Some(bytes)
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{BEGINS}{}", to_hex(&self.0))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for PublicKey {
    type Err = NoKey;

    fn from_str(text: &str) -> Result<PublicKey, NoKey> {
        let digits = text.strip_prefix(BEGINS).and_then(from_hex);
        digits.map(PublicKey).ok_or_else(|| NoKey(text.chars().take(100).collect()))
    }
}

/// Without the secret.
impl fmt::Debug for MachineIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Identity").field(&self.public()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_text_is_opened_by_whoever_knows_the_key_and_for_its_purpose_only() {
        let (ours, theirs) = (MachineIdentity::new().expect("a key"), MachineIdentity::new().expect("a key"));
        let sealed = ours.sign(SignedAs::Order, "run it".into());
        let knows = |key: PublicKey| move |asked: &PublicKey| *asked == key;
        assert_eq!(
            open(&sealed, SignedAs::Order, knows(ours.public())),
            Ok((ours.public(), "run it".into()))
        );
        assert_eq!(
            open(&sealed, SignedAs::Reply, knows(ours.public())),
            Err(NotOpened::Forged(ours.public()))
        );
        assert_eq!(
            open(&sealed, SignedAs::Order, knows(theirs.public())),
            Err(NotOpened::Unknown(ours.public()))
        );
        let text = String::from_utf8(sealed).expect("text");
        let changed = text.replace("run it", "run that");
        assert_eq!(
            open(changed.as_bytes(), SignedAs::Order, knows(ours.public())),
            Err(NotOpened::Forged(ours.public()))
        );
        let pretended = text.replace(&ours.public().to_string(), &theirs.public().to_string());
        assert_eq!(
            open(pretended.as_bytes(), SignedAs::Order, knows(theirs.public())),
            Err(NotOpened::Forged(theirs.public()))
        );
        for odd in ["", "{}", "null", "[1]", "{\"by\":\"x\",\"signature\":\"y\",\"text\":\"z\"}"] {
            assert_eq!(open(odd.as_bytes(), SignedAs::Order, |_| true), Err(NotOpened::Unreadable), "{odd}");
        }
    }

    #[test]
    fn an_identity_and_its_peers_are_kept() {
        let settings = tempfile::tempdir().expect("a folder");
        let first = MachineIdentity::of(settings.path()).expect("made");
        let again = MachineIdentity::of(settings.path()).expect("read");
        assert_eq!(first.public(), again.public());
        let mode =
            fs::metadata(settings.path().join("keys/this-machine")).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(known(settings.path(), Peers::Drivers), []);
        let other = MachineIdentity::new().expect("a key").public();
        remember(settings.path(), Peers::Drivers, "office", other).expect("kept");
        remember(settings.path(), Peers::Drivers, "office", first.public()).expect("kept");
        assert_eq!(known(settings.path(), Peers::Drivers), [("office".to_owned(), first.public())]);
        assert_eq!(known(settings.path(), Peers::Hosts), []);
        assert_eq!(first.public().to_string().parse(), Ok(first.public()));
        assert!("aot1zz".parse::<PublicKey>().is_err());
    }
}
