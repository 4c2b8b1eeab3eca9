//! The text of a state file as a tree of places. Knows YAML and bytes; nothing of atoms.
