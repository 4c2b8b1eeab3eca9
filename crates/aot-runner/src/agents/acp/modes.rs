//! Which of the modes that an agent offers fits a role. The protocol has no kinds of modes, only names; letters and
//! digits are compared.

use aot_core::brief::Role;

/// Modes in which an agent only reads, and those in which it works without asking, the best first.
const READING: [&str; 3] = ["readonly", "plan", "ask"];
const WORKING: [&str; 8] =
    ["bypasspermissions", "yolo", "fullaccess", "acceptedits", "autoedit", "auto", "build", "code"];

/// The id of the best mode that is offered, by id or name. The profile's own comes first.
pub(super) fn best<'o>(
    role: Role,
    own: Option<&str>,
    offered: impl IntoIterator<Item = (&'o str, &'o str)>,
) -> Option<&'o str> {
    let known: &[&str] = match role {
        Role::Worker => &WORKING,
        Role::Probe | Role::Judge | Role::Coordinator => &READING,
    };
    let offered: Vec<(&str, &str)> = offered.into_iter().collect();
    let own = own.map(plain);
    let wanted = own.iter().map(String::as_str).chain(known.iter().copied());
    wanted.into_iter().find_map(|wanted| {
        let fits = |(id, name): &&(&str, &str)| plain(id) == wanted || plain(name) == wanted;
        offered.iter().find(fits).map(|(id, _)| *id)
    })
}

/// Letters and digits of a name. Some agents name a mode by a URL.
fn plain(name: &str) -> String {
    let name = name.rsplit(['/', '#']).next().unwrap_or(name).to_lowercase();
    let letters: String = name.chars().filter(|c| c.is_alphanumeric()).collect();
    letters.strip_suffix("mode").map(str::to_owned).unwrap_or(letters)
}
