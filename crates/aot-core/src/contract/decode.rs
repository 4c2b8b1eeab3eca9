//! The document's tree as a `State`. The structs of `state` and their serde derives say which fields there are and of
//! which type; here each value is held against its type, and what does not fit is noted with its place. What the
//! fields mean to one another is `invariants`.
//!
//! A file without errors is read in one pass. Serde stops at the first error, so a file with errors is read a second
//! time: then stand-ins take the place of what does not fit, and the JSON Schema says which fields must be there.

mod special;

use std::collections::HashMap;
use std::fmt::Display;

use serde::Deserialize;
use serde::de::value::{BorrowedStrDeserializer, StrDeserializer, UsizeDeserializer};
use serde::de::{DeserializeSeed, MapAccess, SeqAccess, Visitor};

use super::checks::proving;
use super::document::{Entries, Items, Kind, Node};
use super::finding::{Findings, Severity};
use super::read::{Field, ItemOf, Name, Requirement, as_text, note_blank_name, note_slips, wrong_type};
use super::touched::Touched;
use crate::state::{AtomId, Background, State};
pub use special::owned_by_program;
use special::{TrailType, least, most, note_defaults, noun, requirement};

/// Stands in for a text that is missing or no text. No file can say it: a NUL byte is refused.
const UNREAD: &str = "\0";

/// What the tree says, as far as it can be read, and what is wrong with it. The state is whole only if no error was
/// noted.
pub(super) fn state(root: Node<'_>) -> (Option<State>, Findings) {
    let mut reader = DecodePass::default();
    let listed = root.get("atoms").map_or(0, |atoms| atoms.len());
    if let Ok(state) = State::deserialize(FieldValue::root(root, &mut reader))
        && state.atoms.len() == listed
    {
        return (Some(State { background: background(root), ..state }), reader.findings);
    }
    let second = SecondPass { schema: super::schema(), ids: HashMap::new() };
    let mut reader = DecodePass { second: Some(second), ..DecodePass::default() };
    let state = State::deserialize(FieldValue::root(root, &mut reader));
    let state = state.ok().map(|state| State { background: background(root), ..state });
    (state.map(without_stand_ins), reader.findings)
}

/// The same of those entries only that were touched; `None` if there is an error in them.
pub(super) fn touched<'d>(root: Node<'d>, touched: &'d Touched) -> Option<State> {
    let mut reader = DecodePass { only: Some(touched), ..DecodePass::default() };
    let state = State::deserialize(FieldValue::root(root, &mut reader)).ok()?;
    (!reader.findings.has_errors()).then_some(state)
}

/// What stands beside the contract's own fields, as far as it can be read.
pub(super) fn background(root: Node<'_>) -> Background {
    let of = |key: &str| root.get(key).map(|node| node.value()).unwrap_or_default();
    Background {
        clarifications: serde_json::from_value(of("clarifications")).unwrap_or_default(),
        scope: serde_json::from_value(of("scope")).unwrap_or_default(),
    }
}

fn without_stand_ins(mut state: State) -> State {
    let is_read = |id: &AtomId| id.as_str() != UNREAD;
    state.atoms.retain(|id, _| is_read(id));
    for atom in state.atoms_mut() {
        atom.depends_on.retain(is_read);
        atom.or_group = atom.or_group.take().filter(|group| group.as_str() != UNREAD);
    }
    state.decompositions.retain(|decomposition| is_read(&decomposition.parent));
    state.decompositions.iter_mut().for_each(|decomposition| decomposition.children.retain(is_read));
    for group in state.or_groups.values_mut() {
        group.choices.retain(is_read);
        group.failed.retain(is_read);
        // Any choice will do: that none is selected has been noted, and is enough of a mistake.
        if !is_read(&group.selected) {
            group.selected = group.choices.first().cloned().unwrap_or_else(|| AtomId::new(""));
        }
    }
    state
}

/// Why a pass ended early. In the second one whatever it is has been noted.
#[derive(Debug, thiserror::Error)]
enum DecodeError {
    #[error("it has been noted")]
    Noted,
    #[error("{0}")]
    Refused(String),
}

impl serde::de::Error for DecodeError {
    fn custom<T: Display>(message: T) -> DecodeError {
        DecodeError::Refused(message.to_string())
    }
}

#[derive(Default)]
struct DecodePass<'d> {
    findings: Findings,
    /// Findings about a mapping of which it is not known what it is; they would only confuse.
    unheard: Findings,
    quiet: bool,
    second: Option<SecondPass<'d>>,
    /// The only entries of the state's collections that are read.
    only: Option<&'d Touched>,
}

struct SecondPass<'d> {
    schema: serde_json::Value,
    /// The ids seen so far, with the number of atoms before them.
    ids: HashMap<&'d str, usize>,
}

impl DecodePass<'_> {
    fn findings(&mut self) -> &mut Findings {
        if self.quiet { &mut self.unheard } else { &mut self.findings }
    }

    /// The second pass goes on with a stand-in for a value that could not be read.
    fn or_stand_in<T>(&self, value: Option<T>, stand_in: T) -> Result<T, DecodeError> {
        value.or(self.second.is_some().then_some(stand_in)).ok_or(DecodeError::Noted)
    }

    /// Whether the schema says that a field must be there.
    fn is_required(&self, owner: &str, key: &str) -> bool {
        let Some(SecondPass { schema, .. }) = &self.second else { return false };
        let of = if owner == "State" { schema } else { &schema["$defs"][owner] };
        of["required"].as_array().is_some_and(|required| required.iter().any(|name| name == key))
    }
}

/// Where a value stands in the field that holds it.
#[derive(Clone, Copy)]
enum Within<'d> {
    Root,
    Field,
    /// An item of the field's list.
    Item(usize),
    /// An entry of the field's mapping, by its name.
    Entry(&'d str),
}

/// A value on its way into a field of the state.
struct FieldValue<'r, 'd> {
    reader: &'r mut DecodePass<'d>,
    field: Field<'d, 'r>,
    within: Within<'d>,
    /// The struct that has the field, and its mapping.
    owner: &'static str,
    mapping: Option<Node<'d>>,
    /// The field's type is an `Option`.
    optional: bool,
}

impl<'r, 'd> FieldValue<'r, 'd> {
    fn root(root: Node<'d>, reader: &'r mut DecodePass<'d>) -> FieldValue<'r, 'd> {
        let field = Field { node: Some(root), offset: root.offset(), key: "", owner: &Name::State };
        FieldValue { reader, field, within: Within::Root, owner: "", mapping: None, optional: false }
    }

    fn requirement(&self) -> Requirement {
        let plain = if self.optional { Requirement::Optional } else { Requirement::Required };
        requirement(self.owner, self.field.key, self.mapping).unwrap_or(plain)
    }

    fn is_absent(&self) -> bool {
        self.field.node.is_none_or(|node| node.is_null())
    }

    fn name(&self) -> Name<'r>
    where
        'd: 'r,
    {
        let noun = noun(self.field.key).unwrap_or(self.field.key);
        match self.within {
            Within::Root => Name::State,
            Within::Field => Name::Key(self.field.key),
            Within::Item(index) => Name::Numbered(noun, index),
            Within::Entry(name) => Name::Named(noun, name),
        }
    }

    fn text(&mut self) -> Result<&'d str, DecodeError> {
        let key = self.field.key;
        let requirement = self.requirement();
        let text = match (self.field.node, self.within) {
            (Some(node), Within::Item(_)) => as_text(node, &ItemOf(&self.field), self.reader.findings()),
            (Some(node), Within::Entry(_)) => as_text(node, &self.name(), self.reader.findings()),
            // A commit is hexadecimal, and some of those look like numbers to YAML (`1234567`, `12e4567`).
            (Some(node), _) if (self.owner, key) == ("Binding", "commit") && !node.kind().is_collection() => {
                node.scalar_str()
            }
            _ => self.field.text(requirement, self.reader.findings()),
        };
        if (self.owner, key) == ("Atom", "id") {
            return self.id(text);
        }
        match requirement {
            // The file is legible without it.
            Requirement::Agreed if self.is_absent() => Ok(""),
            _ => self.reader.or_stand_in(text, if requirement == Requirement::Agreed { "" } else { UNREAD }),
        }
    }

    /// The id of an atom: one word, and no other atom's.
    fn id(&mut self, text: Option<&'d str>) -> Result<&'d str, DecodeError> {
        let id = self.reader.or_stand_in(text, UNREAD)?;
        let offset = self.field.node.map_or(self.field.offset, |node| node.offset());
        if text.is_some() && !id.trim().is_empty() && !AtomId::is_usable(id) {
            let hint = "use letters, digits, `_`, `-` and `.`, at most 128 of them";
            let message = format!("`{id}` is no usable id");
            self.reader.findings().note(Severity::Error, "bad_id", offset, message, hint);
        }
        let Some(SecondPass { ids, .. }) = self.reader.second.as_mut().filter(|_| text.is_some()) else {
            return Ok(id);
        };
        let before = ids.len();
        let first = *ids.entry(id).or_insert(before);
        if first == before {
            return Ok(id);
        }
        let message = format!("atom id `{id}` is used twice (first by atom {})", first + 1);
        let hint = "give each atom an id of its own";
        self.reader.findings().note(Severity::Error, "duplicate_id", offset, message, hint);
        Ok(UNREAD)
    }

    fn number(&mut self) -> Result<i64, DecodeError> {
        let requirement = self.requirement();
        let least = least(self.owner, self.field.key);
        let number = self.field.number(least, requirement, self.reader.findings());
        self.reader.or_stand_in(number, 0)
    }

    fn count(&mut self) -> Result<u32, DecodeError> {
        if let (Some(node), Within::Entry(_)) = (self.field.node, self.within) {
            let count = node.int().and_then(|number| u32::try_from(number).ok());
            if count.is_none() {
                wrong_type(node, &self.name(), "a count", self.reader.findings());
            }
            return self.reader.or_stand_in(count, 0);
        }
        let requirement = self.requirement();
        let (least, most) = (least(self.owner, self.field.key), most(self.owner, self.field.key));
        let count = self.field.count(least, most, requirement, self.reader.findings());
        self.reader.or_stand_in(count, 0)
    }

    /// Checks have two forms and older spellings, which are read by hand and handed over as JSON.
    fn checks<T: DeserializeSeed<'d>>(self, seed: T) -> Result<T::Value, DecodeError> {
        let requirement = self.requirement();
        let node = self.field.value(requirement, self.reader.findings());
        let name = self.name();
        let checks = match (self.owner, self.mapping.and_then(|atom| atom.get("id")?.scalar_str())) {
            ("Atom", Some(id)) => {
                let name = Name::Named("the check of atom", id);
                node.and_then(|node| proving(node, &name, self.reader.findings()))
            }
            _ => node.and_then(|node| proving(node, &name, self.reader.findings())),
        };
        if checks.is_none() && self.reader.findings.has_errors() {
            self.reader.or_stand_in(None, ())?;
        }
        let json = serde_json::to_value(checks).expect("checks are plain data");
        seed.deserialize(json).map_err(serde::de::Error::custom)
    }
}

impl<'d> serde::Deserializer<'d> for FieldValue<'_, 'd> {
    type Error = DecodeError;

    /// A fact that the program noted beside a sentence, which is read as JSON (`state::fact`).
    fn deserialize_any<V: Visitor<'d>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        let value = self.field.node.map(|node| node.value()).unwrap_or_default();
        value.deserialize_any(visitor).map_err(serde::de::Error::custom)
    }

    fn deserialize_bool<V: Visitor<'d>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        let flag = self.field.flag(self.requirement(), self.reader.findings());
        visitor.visit_bool(self.reader.or_stand_in(flag, false)?)
    }

    fn deserialize_u32<V: Visitor<'d>>(mut self, visitor: V) -> Result<V::Value, DecodeError> {
        visitor.visit_u32(self.count()?)
    }

    fn deserialize_u64<V: Visitor<'d>>(mut self, visitor: V) -> Result<V::Value, DecodeError> {
        visitor.visit_u64(self.number()?.unsigned_abs())
    }

    fn deserialize_i64<V: Visitor<'d>>(mut self, visitor: V) -> Result<V::Value, DecodeError> {
        visitor.visit_i64(self.number()?)
    }

    fn deserialize_f64<V: Visitor<'d>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        let amount = self.field.amount(self.requirement(), self.reader.findings());
        visitor.visit_f64(self.reader.or_stand_in(amount, 0.0)?)
    }

    fn deserialize_str<V: Visitor<'d>>(mut self, visitor: V) -> Result<V::Value, DecodeError> {
        visitor.visit_borrowed_str(self.text()?)
    }

    fn deserialize_string<V: Visitor<'d>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        self.deserialize_str(visitor)
    }

    /// Moments and spans of time are texts of a certain form.
    fn deserialize_newtype_struct<V: Visitor<'d>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        let requirement = self.requirement();
        let (text, stand_in) = match name {
            "Stamp" => (self.field.stamp(requirement, self.reader.findings()), "1970-01-01"),
            "Span" => (self.field.span(requirement, self.reader.findings()), "0s"),
            _ => return visitor.visit_newtype_struct(self),
        };
        let text = self.reader.or_stand_in(text, stand_in)?;
        visitor.visit_newtype_struct(BorrowedStrDeserializer::new(text))
    }

    fn deserialize_option<V: Visitor<'d>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        let value = FieldValue { optional: true, ..self };
        if value.is_absent() && value.requirement() == Requirement::Optional {
            return visitor.visit_none();
        }
        visitor.visit_some(value)
    }

    fn deserialize_enum<V: Visitor<'d>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        let word = self.field.word(variants, self.requirement(), self.reader.findings());
        visitor.visit_enum(StrDeserializer::new(self.reader.or_stand_in(word, variants[0])?))
    }

    fn deserialize_seq<V: Visitor<'d>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        let requirement = self.requirement();
        let findings = self.reader.findings();
        let list = match noun(self.field.key) {
            Some(_) => self.field.list(requirement, findings),
            None => self.field.text_list(requirement, findings),
        };
        if let (true, Some(node)) = (self.field.key == "atoms", self.field.node)
            && matches!(node.kind(), Kind::Seq | Kind::Null)
            && node.is_empty()
        {
            let hint = "a work graph has at least one atom; add one with `aot atom add`";
            findings.note(Severity::Incomplete, "empty", node.offset(), "`atoms` is empty".into(), hint);
        }
        if list.is_none() && !self.is_absent() || self.field.node.is_none() {
            self.reader.or_stand_in(None, ())?;
        }
        visitor.visit_seq(ListItems { items: list.map(|list| list.items()), index: 0, value: self })
    }

    fn deserialize_map<V: Visitor<'d>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        let map = self.field.mapping(self.requirement(), self.reader.findings());
        if map.is_none() && !self.is_absent() || self.field.node.is_none() {
            self.reader.or_stand_in(None, ())?;
        }
        visitor.visit_map(MapEntries { entries: map.map(|map| map.entries()), next: None, value: self })
    }

    fn deserialize_struct<V: Visitor<'d>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        let requirement = self.requirement();
        let given = self.field.value(requirement, self.reader.findings());
        let node = given.filter(|node| node.kind() == Kind::Map);
        if let (Some(given), None) = (given, node) {
            wrong_type(given, &self.name(), "a mapping", self.reader.findings());
        }
        self.reader.or_stand_in(node.map(drop), ())?;
        let was_quiet = self.reader.quiet;
        self.reader.quiet |= node.is_none();
        let record = StructFields::of(name, fields, node, self.name(), &mut *self.reader);
        let read = visitor.visit_map(record);
        self.reader.quiet = was_quiet;
        read
    }

    fn deserialize_ignored_any<V: Visitor<'d>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        visitor.visit_unit()
    }

    serde::forward_to_deserialize_any! {
        <V: Visitor<'d>> i8 i16 i32 i128 u8 u16 u128 f32 char bytes byte_buf unit unit_struct tuple tuple_struct identifier
    }
}

/// The mapping of a struct: its entries in the order of the text, then the fields that should be there and are not.
struct StructFields<'r, 'd> {
    reader: &'r mut DecodePass<'d>,
    owner: &'static str,
    fields: &'static [&'static str],
    node: Option<Node<'d>>,
    entries: Option<Entries<'d>>,
    /// How its keys are spoken of, and how its values are: an atom has a name once its id is known.
    name: Name<'r>,
    own_name: Name<'r>,
    /// The only field worth looking at: without it, it is not known what the mapping is.
    only: Option<&'static str>,
    /// A bit for each field.
    seen: u64,
    unknown: Vec<Node<'d>>,
    /// The next field that may be absent, once all entries are read.
    absent: usize,
    next: Option<(Option<Node<'d>>, &'static str)>,
}

impl<'r, 'd: 'r> StructFields<'r, 'd> {
    fn of(
        owner: &'static str,
        fields: &'static [&'static str],
        node: Option<Node<'d>>,
        name: Name<'r>,
        reader: &'r mut DecodePass<'d>,
    ) -> StructFields<'r, 'd> {
        assert!(fields.len() <= 64, "`seen` has a bit for each field");
        let id = node.filter(|_| owner == "Atom").and_then(|node| node.get("id"));
        let id = id.filter(|id| id.kind() == Kind::Str).and_then(|id| id.scalar_str());
        let only = match owner {
            "Atom" if id.is_none() => Some("id"),
            "TrailForm" if TrailType::of(node) == TrailType::Unknown => Some("type"),
            _ => None,
        };
        StructFields {
            reader,
            owner,
            fields,
            node,
            entries: node.map(|node| node.entries()),
            name,
            own_name: id.map_or(name, |id| Name::Named("atom", id)),
            only,
            seen: 0,
            unknown: Vec::new(),
            absent: 0,
            next: None,
        }
    }

    fn next_present(&mut self) -> Option<usize> {
        for (key, value) in self.entries.as_mut()? {
            let name = key.scalar_str().unwrap_or_default();
            let Some(index) = self.fields.iter().position(|field| *field == name) else {
                self.unknown.push(key);
                continue;
            };
            self.seen |= 1 << index;
            let field = self.fields[index];
            let takes_default = value.is_null()
                && self.reader.second.is_some()
                && !self.reader.is_required(self.owner, field)
                && requirement(self.owner, field, self.node).is_none();
            let is_ignored = self.owner == "TrailForm" && TrailType::of(self.node).ignores(field);
            if !takes_default && !is_ignored {
                self.next = Some((Some(value), field));
                return Some(index);
            }
        }
        if !self.unknown.is_empty() {
            let missing = self.fields.iter().enumerate().filter(|(index, _)| self.seen & 1 << index == 0);
            let missing: Vec<&str> = missing.map(|(_, field)| *field).collect();
            note_slips(&self.name, &self.unknown, &missing, self.reader.findings());
        }
        self.entries = None;
        None
    }

    fn next_absent(&mut self) -> Option<usize> {
        let has_special_fields = matches!(self.owner, "Objective" | "TrailForm");
        if !has_special_fields && self.reader.second.is_none() {
            return None;
        }
        while self.absent < self.fields.len() {
            let (index, field) = (self.absent, self.fields[self.absent]);
            self.absent += 1;
            let is_wanted = self.seen & 1 << index == 0
                && (requirement(self.owner, field, self.node).is_some()
                    || self.reader.is_required(self.owner, field));
            if is_wanted {
                self.next = Some((None, field));
                return Some(index);
            }
        }
        None
    }
}

impl<'r, 'd: 'r> MapAccess<'d> for StructFields<'r, 'd> {
    type Error = DecodeError;

    fn next_key_seed<K: DeserializeSeed<'d>>(&mut self, seed: K) -> Result<Option<K::Value>, DecodeError> {
        match self.next_present().or_else(|| self.next_absent()) {
            Some(index) => seed.deserialize(UsizeDeserializer::new(index)).map(Some),
            None => {
                if let Some(node) = self.node {
                    note_defaults(self.owner, node, &self.name, self.reader.findings());
                }
                Ok(None)
            }
        }
    }

    fn next_value_seed<T: DeserializeSeed<'d>>(&mut self, seed: T) -> Result<T::Value, DecodeError> {
        let (node, key) = self.next.take().expect("a value follows its key");
        let is_about_itself = (self.owner, key) == ("Atom", "id");
        let owner = if is_about_itself { &self.name } else { &self.own_name };
        let offset = self.node.map_or(0, |node| node.offset());
        let was_quiet = self.reader.quiet;
        self.reader.quiet |= self.only.is_some_and(|only| only != key);
        let value = FieldValue {
            reader: &mut *self.reader,
            field: Field { node, offset, key, owner },
            within: Within::Field,
            owner: self.owner,
            mapping: self.node,
            optional: false,
        };
        let read = match (self.owner, key) {
            ("Objective", "base_case") | ("Atom", "check") => value.checks(seed),
            _ => seed.deserialize(value),
        };
        // A type may refuse what nothing above has noted.
        let read = read.map_err(|error| {
            if let DecodeError::Refused(reason) = error {
                let message = format!("`{key}` of {owner} cannot be read: {reason}");
                let at = node.map_or(offset, |node| node.offset());
                self.reader.findings().note(Severity::Error, "bad_value", at, message, "correct it");
            }
            DecodeError::Noted
        });
        self.reader.quiet = was_quiet;
        read
    }
}

/// The items of a list.
struct ListItems<'r, 'd> {
    value: FieldValue<'r, 'd>,
    items: Option<Items<'d>>,
    index: usize,
}

impl<'d> SeqAccess<'d> for ListItems<'_, 'd> {
    type Error = DecodeError;

    fn next_element_seed<T: DeserializeSeed<'d>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, DecodeError> {
        let Some(items) = &mut self.items else { return Ok(None) };
        for node in items {
            let place = self.index;
            self.index += 1;
            if !self.value.is_wanted(|only, section| only.has_place(section, place)) {
                continue;
            }
            let within = Within::Item(place);
            if let Some(value) = self.value.element(node, within)? {
                return seed.deserialize(value).map(Some);
            }
        }
        Ok(None)
    }
}

/// The entries of a mapping with names of its own.
struct MapEntries<'r, 'd> {
    value: FieldValue<'r, 'd>,
    entries: Option<Entries<'d>>,
    next: Option<(&'d str, Node<'d>)>,
}

impl<'d> MapAccess<'d> for MapEntries<'_, 'd> {
    type Error = DecodeError;

    fn next_key_seed<K: DeserializeSeed<'d>>(&mut self, seed: K) -> Result<Option<K::Value>, DecodeError> {
        let Some(entries) = &mut self.entries else { return Ok(None) };
        for (key, node) in entries {
            let name = key.scalar_str().unwrap_or_default();
            if !self.value.is_wanted(|only, section| only.has_name(section, name)) {
                continue;
            }
            let noun = noun(self.value.field.key).unwrap_or(self.value.field.key);
            note_blank_name(noun, key, self.value.reader.findings());
            if self.value.element(node, Within::Entry(name))?.is_some() {
                self.next = Some((name, node));
                return seed.deserialize(BorrowedStrDeserializer::new(name)).map(Some);
            }
        }
        Ok(None)
    }

    fn next_value_seed<T: DeserializeSeed<'d>>(&mut self, seed: T) -> Result<T::Value, DecodeError> {
        let (name, node) = self.next.take().expect("a value follows its key");
        let value = self.value.element(node, Within::Entry(name))?.expect("looked at with its key");
        seed.deserialize(value)
    }
}

impl<'d> FieldValue<'_, 'd> {
    /// Whether an entry of this collection is to be read.
    fn is_wanted(&self, is_touched: impl Fn(&Touched, &str) -> bool) -> bool {
        let only = self.reader.only.filter(|_| self.owner == "State");
        only.is_none_or(|only| is_touched(only, self.field.key))
    }

    /// An element of this collection; none if it should be a mapping and is not.
    fn element(
        &mut self,
        node: Node<'d>,
        within: Within<'d>,
    ) -> Result<Option<FieldValue<'_, 'd>>, DecodeError> {
        let field = Field { node: Some(node), ..self.field };
        let (owner, mapping) = (self.owner, self.mapping);
        let holds_mappings = noun(field.key).is_some() && field.key != "attempts";
        let value = FieldValue { reader: &mut *self.reader, field, within, owner, mapping, optional: false };
        if holds_mappings && node.kind() != Kind::Map {
            wrong_type(node, &value.name(), "a mapping", value.reader.findings());
            return value.reader.or_stand_in(None, None);
        }
        Ok(Some(value))
    }
}

#[cfg(test)]
mod tests {
    use super::super::document::node::STEPS;
    use super::super::document::{Document, Limits};

    /// How many nodes are walked over to read a file with so many unknown keys in each of two mappings.
    fn steps(keys: usize) -> u64 {
        let unknown: String = (0..keys).map(|key| format!("  goa{key}: 1\n")).collect();
        let inner = unknown.replace("  goa", "    typ");
        let text = format!("---\nobjective:\n{unknown}  base_case:\n{inner}---\n");
        let document = Document::parse(text, &Limits::default()).expect("a document");
        STEPS.set(0);
        super::state(document.root());
        STEPS.get()
    }

    #[test]
    fn ten_times_as_many_unknown_keys_cost_ten_times_as_much() {
        let (few, many) = (steps(200), steps(2_000));
        assert!(many <= few * 11, "{few} steps for 200 keys, {many} for 2 000");
    }
}
