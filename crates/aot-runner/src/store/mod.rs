//! The only hands on the state file: lock, read again, apply, replace, watch, journal. Interprets nothing.
