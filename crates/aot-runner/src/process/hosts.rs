//! Which hosts a job may reach whose network is a list, and what is said of the others. Connects to nothing.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What a host is reached by that is named without a port.
const WEB: [u16; 2] = [80, 443];

/// This machine, whichever of its names is used.
const LOCAL: &str = "localhost";

/// So many hosts can be named, and so many ports of this machine: each of those is a socket of the cage.
const MOST_HOSTS: usize = 1000;
pub const MOST_LOCAL_PORTS: usize = 64;

/// The longest name that the domain name system knows.
const LONGEST_NAME: usize = 253;

/// Names or addresses, each with a port or for the web. `*.example.org` is every name below `example.org`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hosts(Vec<String>);

/// One host of a list.
#[derive(Debug, PartialEq, Eq)]
struct HostPattern {
    name: String,
    is_parent: bool,
    port: Option<u16>,
}

impl HostPattern {
    fn read(word: &str) -> Option<HostPattern> {
        let (is_parent, word) = match word.strip_prefix("*.") {
            Some(parent) => (true, parent),
            None => (false, word),
        };
        let (name, port) = split(word)?;
        let name = normal(name)?;
        let is_address = name.parse::<IpAddr>().is_ok() || name == LOCAL;
        // Below an address there is nothing, and the web of this machine is rarely meant.
        let is_odd = is_parent && is_address || name == LOCAL && port.is_none();
        (!is_odd).then_some(HostPattern { name, is_parent, port })
    }

    fn fits(&self, host: &str, port: u16) -> bool {
        let is_named = match self.is_parent {
            true => host.strip_suffix(&self.name).is_some_and(|below| below.ends_with('.')),
            false => host == self.name,
        };
        is_named && self.port.map_or(WEB.contains(&port), |known| known == port)
    }
}

impl Hosts {
    /// Nothing if a word is no host, or if there are too many. A host of this machine needs a port.
    pub fn parse(words: &[String]) -> Option<Hosts> {
        let hosts = Hosts(words.to_vec());
        let are_known = words.iter().all(|word| HostPattern::read(word).is_some());
        let are_few = words.len() <= MOST_HOSTS && hosts.local_ports().len() <= MOST_LOCAL_PORTS;
        (are_known && are_few).then_some(hosts)
    }

    /// The same and these; what is no host is left out.
    pub fn and(&self, more: impl IntoIterator<Item = String>) -> Hosts {
        let more = more.into_iter().filter(|word| HostPattern::read(word).is_some());
        let mut all = self.0.clone();
        for word in more {
            if !all.contains(&word) {
                all.push(word);
            }
        }
        Hosts(all)
    }

    pub fn words(&self) -> &[String] {
        &self.0
    }

    pub fn allow(&self, host: &str, port: u16) -> bool {
        let Some(host) = normal(host) else { return false };
        self.patterns().any(|pattern| pattern.fits(&host, port))
    }

    /// Whether a host that is allowed may be reached at this address. Whoever answers for a name could lead a job into the
    /// user's own network: an address in there has to be named itself.
    pub fn allow_address(&self, host: &str, address: IpAddr, port: u16) -> bool {
        let is_address = host.parse::<IpAddr>().is_ok();
        is_address || is_public(address) || self.allow(&address.to_string(), port)
    }

    /// The ports of this machine that are named.
    pub fn local_ports(&self) -> Vec<u16> {
        let local = self.patterns().filter(|pattern| pattern.name == LOCAL && !pattern.is_parent);
        let mut ports: Vec<u16> = local.filter_map(|pattern| pattern.port).collect();
        ports.sort_unstable();
        ports.dedup();
        ports
    }

    fn patterns(&self) -> impl Iterator<Item = HostPattern> {
        self.0.iter().filter_map(|word| HostPattern::read(word))
    }
}

/// A name and a port if there is one. An address with colons stands in brackets if a port follows.
pub fn split(word: &str) -> Option<(&str, Option<u16>)> {
    let port = |word: &str| word.parse::<u16>().ok().filter(|port| *port > 0);
    if let Some(rest) = word.strip_prefix('[') {
        let (name, after) = rest.split_once(']')?;
        name.parse::<Ipv6Addr>().ok()?;
        return match after {
            "" => Some((name, None)),
            after => Some((name, Some(port(after.strip_prefix(':')?)?))),
        };
    }
    match word.split_once(':') {
        None => Some((word, None)),
        Some(_) if word.parse::<Ipv6Addr>().is_ok() => Some((word, None)),
        Some((name, after)) => Some((name, Some(port(after)?))),
    }
}

/// One spelling for each host; nothing if it can be none.
pub fn normal(name: &str) -> Option<String> {
    let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
    if let Ok(address) = name.parse::<IpAddr>() {
        let address = address.to_canonical();
        let is_local = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)].contains(&address);
        return Some(if is_local { LOCAL.to_owned() } else { address.to_string() });
    }
    let is_letter = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let is_label = |label: &str| !label.is_empty() && label.chars().all(is_letter);
    (name.len() <= LONGEST_NAME && name.split('.').all(is_label)).then_some(name)
}

/// The host of an address such as `https://api.example.org:8443/v1`, with its port.
pub fn host_of(url: &str) -> Option<String> {
    let (scheme, rest) = url.trim().split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next()?;
    let (name, port) = split(authority.rsplit('@').next()?)?;
    let port = port.or(match scheme {
        "http" => Some(80),
        "https" => Some(443),
        _ => None,
    })?;
    normal(name)?;
    Some(with_port(name, port))
}

fn with_port(name: &str, port: u16) -> String {
    match name.contains(':') {
        true => format!("[{name}]:{port}"),
        false => format!("{name}:{port}"),
    }
}

/// Whether it is somewhere in the internet, and not of this machine, its network or a special use.
fn is_public(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => {
            let [a, b, c, _] = address.octets();
            let is_shared = a == 100 && (64..128).contains(&b);
            let is_special = a == 0 || a >= 240 || (a, b, c) == (192, 0, 0) || (a, b & 0xfe) == (198, 18);
            !(address.is_private()
                || address.is_loopback()
                || address.is_link_local()
                || address.is_multicast()
                || address.is_documentation()
                || is_shared
                || is_special)
        }
        IpAddr::V6(address) => {
            let parts = address.segments();
            let embedded = |high: u16, low: u16| {
                let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
                is_public(IpAddr::V4(Ipv4Addr::new(a, b, c, d)))
            };
            match parts {
                // Translated to the older protocol.
                [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0x2002, high, low, ..] => embedded(high, low),
                [first, ..] => (0x2000..0x4000).contains(&first) && parts[..2] != [0x2001, 0xdb8],
            }
        }
    }
}

/// A host that a job wanted to reach and may not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostRefusal {
    pub host: String,
    pub port: u16,
    /// Its address, if it is on the list and its address is none of the internet.
    pub address: Option<IpAddr>,
}

const REFUSED: &str = "refused";

impl HostRefusal {
    /// As a line from the guard.
    pub(super) fn line(&self) -> String {
        let address = self.address.map(|address| format!(" {address}")).unwrap_or_default();
        format!("{REFUSED} {} {}{address}\n", self.host, self.port)
    }

    pub(super) fn read(line: &str) -> Option<HostRefusal> {
        let mut words = line.trim_end().split(' ');
        let (Some(REFUSED), Some(host), Some(port)) = (words.next(), words.next(), words.next()) else {
            return None;
        };
        let address = words.next().map(|address| address.parse().ok());
        Some(HostRefusal {
            host: normal(host)?,
            port: port.parse().ok()?,
            address: address.map_or(Some(None), |address| address.map(Some))?,
        })
    }

    /// For people, with what to type. `listed` are the hosts that the settings name.
    pub fn describe(&self, listed: &Hosts) -> String {
        let HostRefusal { host, port, address } = self;
        let (name, why) = match address {
            None => (host.clone(), String::new()),
            Some(address) => (address.to_string(), format!(", which lies in your own network at {address}")),
        };
        let needs_port = !WEB.contains(port) || normal(&name).as_deref() == Some(LOCAL);
        let word = if needs_port { with_port(&name, *port) } else { name };
        let words: Vec<String> =
            listed.words().iter().chain([&word]).map(|word| format!("\"{word}\"")).collect();
        let place = with_port(host, *port);
        let line = words.join(", ");
        format!(
            "the cage kept it from reaching {place}{why}; if it may, write `network = [{line}]` under `[cage]` in aot.toml"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(words: &[&str]) -> Option<Hosts> {
        Hosts::parse(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn only_what_is_named_is_allowed() {
        let listed = [
            "api.example.org",
            "*.crates.io",
            "Host.example:8443",
            "127.0.0.1:9",
            "[fd00::1]:7",
            "10.0.0.1",
            "*.any.example:22",
        ];
        let listed = hosts(&listed).expect("they are hosts");
        for (host, port, expected) in [
            ("api.example.org", 443, true),
            ("API.example.org.", 80, true),
            ("api.example.org", 22, false),
            ("evil.api.example.org", 443, false),
            ("api.example.org.evil", 443, false),
            ("evil@api.example.org", 443, false),
            ("api.example.org..", 443, false),
            ("static.crates.io", 443, true),
            ("a.b.crates.io", 443, true),
            ("x@a.crates.io", 443, false),
            ("crates.io", 443, false),
            ("evilcrates.io", 443, false),
            (".crates.io", 443, false),
            ("host.example", 8443, true),
            ("host.example", 443, false),
            ("a.any.example", 22, true),
            ("a.any.example", 443, false),
            ("127.0.0.1", 9, true),
            ("::ffff:127.0.0.1", 9, true),
            ("localhost", 9, true),
            ("::1", 9, true),
            ("127.0.0.1", 10, false),
            ("127.0.0.2", 9, false),
            ("127.1", 9, false),
            ("2130706433", 9, false),
            ("fd00::1", 7, true),
            ("10.0.0.1", 443, true),
            ("10.0.0.1", 22, false),
            ("10.0.0.2", 443, false),
            ("", 443, false),
        ] {
            assert_eq!(listed.allow(host, port), expected, "{host}:{port}");
        }
        assert_eq!(listed.local_ports(), [9]);
        assert!(!Hosts::default().allow("api.example.org", 443));
        let more = listed.and(["b.example:1".to_owned(), "no host".to_owned(), "10.0.0.1".to_owned()]);
        assert!(more.allow("b.example", 1) && more.words().len() == listed.words().len() + 1);
    }

    #[test]
    fn hosts_are_told_from_other_words() {
        for word in ["a.b", "*.a.b", "a:1", "[::1]:2", "localhost:5432", "1.2.3.4", "fd00::1", "[fd00::1]"] {
            assert!(hosts(&[word]).is_some(), "{word}");
        }
        let others = [
            "",
            "a b",
            "http://a",
            "*",
            "*.",
            "a/b",
            "a:0",
            "a:x",
            "a:70000",
            "a.*.b",
            "*a.b",
            "localhost",
            "127.0.0.1",
            "*.localhost:1",
            "*.1.2.3.4",
            "a\"b",
            "[a]:1",
            "a..b",
        ];
        for word in others {
            assert_eq!(hosts(&[word]), None, "{word}");
        }
        let many: Vec<String> = (1..=MOST_LOCAL_PORTS + 1).map(|port| format!("localhost:{port}")).collect();
        assert_eq!(Hosts::parse(&many), None);
    }

    #[test]
    fn a_name_leads_to_the_internet_only() {
        let listed = hosts(&["*.example.org", "10.0.0.5:443", "localhost:443"]).expect("they are hosts");
        for (address, expected) in [
            ("93.184.216.34", true),
            ("2606:4700::1111", true),
            ("64:ff9b::5db8:d822", true),
            ("10.0.0.5", true),
            ("127.0.0.1", true),
            ("10.0.0.6", false),
            ("127.0.0.2", false),
            ("0.0.0.0", false),
            ("169.254.169.254", false),
            ("172.20.0.1", false),
            ("192.168.1.1", false),
            ("100.100.1.1", false),
            ("224.0.0.1", false),
            ("255.255.255.255", false),
            ("::", false),
            ("::ffff:10.0.0.6", false),
            ("64:ff9b::a00:6", false),
            ("2002:a00:6::1", false),
            ("fe80::1", false),
            ("fd00::1", false),
            ("ff02::1", false),
        ] {
            let address: IpAddr = address.parse().expect("an address");
            assert_eq!(listed.allow_address("a.example.org", address, 443), expected, "{address}");
        }
        // Named as an address it was meant.
        assert!(listed.allow_address("10.0.0.6", "10.0.0.6".parse().expect("an address"), 443));
    }

    #[test]
    fn hosts_are_found_in_addresses() {
        for (url, expected) in [
            ("https://api.example.org/v1", Some("api.example.org:443")),
            ("http://127.0.0.1:8080", Some("127.0.0.1:8080")),
            ("https://user:pass@a.b:1/x", Some("a.b:1")),
            ("http://[::1]:5/x", Some("[::1]:5")),
            ("api.example.org", None),
            ("file:///x", None),
            ("http:///x", None),
        ] {
            assert_eq!(host_of(url).as_deref(), expected, "{url}");
        }
    }

    #[test]
    fn a_refusal_comes_through_the_line_and_names_what_to_type() {
        let listed = hosts(&["a.b"]).expect("it is a host");
        for (host, port, address, line) in [
            ("c.d", 443, None, "reaching c.d:443; if it may, write `network = [\"a.b\", \"c.d\"]`"),
            ("c.d", 22, None, "[\"a.b\", \"c.d:22\"]` under `[cage]` in aot.toml"),
            (
                "fd00::1",
                22,
                None,
                "reaching [fd00::1]:22; if it may, write `network = [\"a.b\", \"[fd00::1]:22\"]`",
            ),
            ("localhost", 80, None, "\"localhost:80\""),
            (
                "a.b",
                443,
                Some("10.1.2.3"),
                "a.b:443, which lies in your own network at 10.1.2.3; if it may, write `network = [\"a.b\", \"10.1.2.3\"]`",
            ),
        ] {
            let address = address.map(|address| address.parse().expect("an address"));
            let refusal = HostRefusal { host: host.into(), port, address };
            assert_eq!(HostRefusal::read(&refusal.line()).as_ref(), Some(&refusal));
            let told = refusal.describe(&listed);
            assert!(told.contains(line), "{told}");
        }
        for other in ["exit 0 0\n", "refused\n", "refused a b\n", "refused a 1 b\n", "refused a\" 1\n"] {
            assert_eq!(HostRefusal::read(other), None, "{other}");
        }
    }
}
