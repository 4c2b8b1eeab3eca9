//! What the agents of the proving ground do wrong, and the plan that a seed makes of it. Knows neither projects nor processes.

use crate::random::Random;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Misdeed {
    /// A small fault, until the check's output was seen.
    Wrong,
    /// "Success", and nothing done.
    Lie,
    /// The right work, and an easier test.
    EditTests,
    /// Dies with half a file written.
    Crash,
    /// The right work, and an answer that is none.
    Babble,
    /// Says nothing any more, with half a file written.
    Hang,
}

pub const MISDEEDS: [Misdeed; 6] =
    [Misdeed::Wrong, Misdeed::Lie, Misdeed::EditTests, Misdeed::Crash, Misdeed::Babble, Misdeed::Hang];

impl Misdeed {
    pub fn name(self) -> &'static str {
        match self {
            Misdeed::Wrong => "wrong at first",
            Misdeed::Lie => "lies",
            Misdeed::EditTests => "edits a test",
            Misdeed::Crash => "crashes",
            Misdeed::Babble => "babbles",
            Misdeed::Hang => "hangs",
        }
    }

    pub fn named(name: &str) -> Option<Misdeed> {
        MISDEEDS.into_iter().find(|misdeed| misdeed.name() == name)
    }
}

/// What goes wrong with each of so many atoms, one turn after the other. Most is one of each; being wrong is the commonest,
/// a few are right at once, and a quarter of the others is wrong when it comes to work in earnest.
pub fn misdeeds(seed: u64, atoms: usize) -> Vec<Vec<Misdeed>> {
    let mut random = Random::new(seed);
    let mut deck: Vec<Option<Misdeed>> = Vec::new();
    while deck.len() < atoms {
        let mut round: Vec<Option<Misdeed>> =
            MISDEEDS.into_iter().chain([Misdeed::Wrong, Misdeed::Wrong]).map(Some).chain([None]).collect();
        while !round.is_empty() {
            deck.push(round.swap_remove(random.below(round.len())));
        }
    }
    let dealt = deck.into_iter().take(atoms).map(|first| match first {
        None => Vec::new(),
        Some(Misdeed::Wrong) => vec![Misdeed::Wrong],
        Some(first) if random.percent(25) => vec![first, Misdeed::Wrong],
        Some(first) => vec![first],
    });
    dealt.collect()
}
