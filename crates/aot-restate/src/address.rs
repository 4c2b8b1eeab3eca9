//! Where a Restate server is, as a user types it. Asks nothing of the server.

use std::fmt;

use hyper::Uri;

/// Where the server takes orders unless it is said or it says itself.
const INGRESS_PORT: u16 = 8080;

/// The two addresses of a server: where it is administered, and where it takes orders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    pub admin: Base,
    /// Where nothing is said, it is where the administration is, at the port that the server says.
    pub ingress: Option<Base>,
}

/// `http://HOST:PORT`, without a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Base {
    host: String,
    port: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    #[error(
        "`{text}` is not the address of a Restate server: give it as http://HOST:9070, or as http://HOST:9070,http://HOST:8080"
    )]
    Malformed { text: String },
    #[error(
        "`{text}`: https is not supported: open a tunnel to it, such as ssh -L 9070:127.0.0.1:9070 -L 8080:127.0.0.1:8080 HOST, and give http://127.0.0.1:9070,http://127.0.0.1:8080"
    )]
    Https { text: String },
}

impl Address {
    /// Reads `ADMIN` or `ADMIN,INGRESS`.
    pub fn read(text: &str) -> Result<Address, AddressError> {
        match text.split_once(',') {
            None => Ok(Address { admin: Base::read(text)?, ingress: None }),
            Some((admin, ingress)) => {
                Ok(Address { admin: Base::read(admin)?, ingress: Some(Base::read(ingress)?) })
            }
        }
    }
}

impl Base {
    pub fn read(text: &str) -> Result<Base, AddressError> {
        let malformed = || AddressError::Malformed { text: text.to_owned() };
        let uri: Uri = text.trim().parse().map_err(|_| malformed())?;
        match uri.scheme_str() {
            Some("http") => {}
            Some("https") => return Err(AddressError::Https { text: text.to_owned() }),
            _ => return Err(malformed()),
        }
        let named = uri.authority().is_some_and(|authority| !authority.as_str().contains('@'));
        if !named || !["", "/"].contains(&uri.path()) || uri.query().is_some() {
            return Err(malformed());
        }
        let host = uri.host().filter(|host| !host.is_empty()).ok_or_else(malformed)?;
        Ok(Base { host: host.to_owned(), port: uri.port_u16().unwrap_or(80) })
    }

    /// The ingress of the server that is administered here, when the server says that it is at `advertised`. Only the port
    /// counts: the host is what the server thinks that it is called, on a network that may be another one.
    pub(crate) fn ingress(&self, advertised: Option<&str>) -> Base {
        let port = advertised.and_then(|text| Base::read(text).ok()).map_or(INGRESS_PORT, |base| base.port);
        Base { host: self.host.clone(), port }
    }
}

impl fmt::Display for Base {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "http://{}:{}", self.host, self.port)
    }
}
