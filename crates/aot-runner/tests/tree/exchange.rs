//! Work that goes to another host and comes back: what it brings lands, and nothing that was taken away can come in.

use aot_runner::tree::{
    Exchange, ExchangePlace, Ground, GroundError, Handed, Landing, OpenedFor, clone_for_work,
};

use crate::Test;
use crate::kit::{LOOP, Place, guard, land, landed, message, read, work, write};

pub const TESTS: &[Test] = &[
    ("work_comes_back_through_a_repository_of_our_own", work_comes_back_through_a_repository_of_our_own),
    ("work_comes_back_through_a_remote", work_comes_back_through_a_remote),
    ("what_was_taken_away_cannot_be_handed_over", what_was_taken_away_cannot_be_handed_over),
    ("only_one_commit_on_the_base_is_taken", only_one_commit_on_the_base_is_taken),
    ("what_belongs_to_the_loop_is_not_taken_in", what_belongs_to_the_loop_is_not_taken_in),
    ("an_address_runs_no_program", an_address_runs_no_program),
];

/// A clone on another host, in which a job finds its base.
fn host(of: &Place, name: &str) -> (Place, Ground) {
    let folder = of.top.with_file_name(name).join("p");
    clone_for_work(&of.top.to_string_lossy(), &folder, &guard()).unwrap_or_else(|error| panic!("{error}"));
    let place = Place::at(&folder);
    let ground = Ground::enter(&place.project(), place.wanted.clone(), &guard(), OpenedFor::Host);
    (place, ground.unwrap_or_else(|error| panic!("{error}")))
}

fn exchange(place: &Place, ground: &Ground, at: &ExchangePlace) -> Exchange {
    Exchange::open(ground, &place.project(), LOOP, at).unwrap_or_else(|error| panic!("{error}"))
}

const OWN: ExchangePlace = ExchangePlace::Own { reached_by: None };

/// A host does a job: what it writes becomes a commit on the job's base.
fn made_there(ground: &Ground, base: &str, files: &[(&str, &str)]) -> Option<String> {
    let mut lent = ground.lend_at(&work("A1", 1), Some(base)).expect("a tree");
    files.iter().for_each(|(path, text)| write(lent.root(), path, text));
    let _ = ground.seal(&mut lent).expect("sealed");
    let made = ground.as_commit(&mut lent, "made elsewhere\n").expect("a commit");
    ground.give_back(lent, aot_runner::tree::End::Landed).expect("given back");
    made
}

fn comes_back(place: &Place, at: &ExchangePlace) {
    let ground = place.ground();
    let exchange = exchange(place, &ground, at);
    let (_clone, there) = host(place, "host");
    // What the host has never seen.
    let base = landed(&ground, "A0", &[("first.txt", "first\n")]);
    let reference = exchange.reference("A1/1");
    exchange.claim(&reference, &base).expect("claimed");
    exchange.claim(&reference, &base).expect("whoever comes again finds it");
    there.bring(exchange.address(), &reference, &base).expect("the base is there");
    let commit = made_there(&there, &base, &[("a.txt", "2\n")]).expect("it changed something");
    assert!(there.hand_over(exchange.address(), &reference, &base, &commit).expect("handed over"));
    // What is there already may be said once more; something else comes too late.
    assert!(there.hand_over(exchange.address(), &reference, &base, &commit).expect("an answer"));
    let other = made_there(&there, &base, &[("a.txt", "3\n")]).expect("it changed something");
    assert!(!there.hand_over(exchange.address(), &reference, &base, &other).expect("an answer"));
    // Whoever was there when the first was handed over finds it, and goes on from there.
    let at = there.bring(exchange.address(), &reference, &base).expect("an answer");
    assert_eq!(at.as_deref(), Some(commit.as_str()));
    // Meanwhile something else landed.
    landed(&ground, "A2", &[("b.txt", "b\n")]);
    let handed = exchange.take(&reference, &base, Some(&commit)).expect("taken");
    assert_eq!(handed, Handed::Commit(commit.clone()));
    let (mut lent, sealed) = ground.take_in(&work("A1", 1), &base, &commit).expect("taken in");
    assert_eq!((sealed.changed, sealed.cannot_land), (vec!["a.txt".to_owned()], None));
    assert!(matches!(land(&ground, &mut lent), Landing::Landed { commit: Some(_), .. }));
    ground.give_back(lent, aot_runner::tree::End::Landed).expect("given back");
    exchange.release(&reference).expect("released");
    exchange.release(&reference).expect("what is gone is gone");
    assert_eq!(read(&place.root, "a.txt") + &read(&place.root, "b.txt"), "2\nb\n");
    assert_eq!(place.status(), "");
}

fn work_comes_back_through_a_repository_of_our_own() {
    let place = Place::with(&[("a.txt", "1\n")]);
    comes_back(&place, &OWN);
}

fn work_comes_back_through_a_remote() {
    let place = Place::with(&[("a.txt", "1\n")]);
    let bare = place.top.with_file_name("bare.git");
    place.git(&["init", "-q", "--bare", &bare.to_string_lossy()]);
    place.git(&["remote", "add", "there", &bare.to_string_lossy()]);
    comes_back(&place, &ExchangePlace::Named("there".into()));
    assert_eq!(place.git(&["ls-remote", "there"]), "", "no reference is left");
}

fn what_was_taken_away_cannot_be_handed_over() {
    let place = Place::with(&[("a.txt", "1\n")]);
    let ground = place.ground();
    let exchange = exchange(&place, &ground, &OWN);
    let (_clone, there) = host(&place, "host");
    let base = place.tip("main");
    let reference = exchange.reference("A1/1");
    exchange.claim(&reference, &base).expect("claimed");
    let commit = made_there(&there, &base, &[("a.txt", "2\n")]).expect("it changed something");
    exchange.release_besides(&[exchange.reference("A2/1")]).expect("released");
    assert!(!there.hand_over(exchange.address(), &reference, &base, &commit).expect("an answer"));
    assert_eq!(exchange.take(&reference, &base, Some(&commit)).expect("an answer"), Handed::NotThere);
    assert_eq!(exchange.take(&reference, &base, None).expect("an answer"), Handed::NotThere);
    exchange.clear().expect("cleared");
}

fn only_one_commit_on_the_base_is_taken() {
    let place = Place::with(&[("a.txt", "1\n")]);
    let ground = place.ground();
    let exchange = exchange(&place, &ground, &OWN);
    let (clone, there) = host(&place, "host");
    let base = place.tip("main");
    let reference = exchange.reference("A1/1");
    exchange.claim(&reference, &base).expect("claimed");
    assert_eq!(made_there(&there, &base, &[]), None);
    assert_eq!(exchange.take(&reference, &base, None).expect("an answer"), Handed::Nothing);
    let first = made_there(&there, &base, &[("a.txt", "2\n")]).expect("it changed something");
    let second = made_there(&there, &first, &[("a.txt", "3\n")]).expect("it changed something");
    // A host that is not ours pushes what it likes.
    let pair = format!("{second}:{reference}");
    clone.git(&["push", "-q", exchange.address(), &pair]);
    assert_eq!(exchange.take(&reference, &base, Some(&second)).expect("an answer"), Handed::NotThere);
    assert_eq!(exchange.take(&reference, &base, Some(&first)).expect("an answer"), Handed::NotThere);
    assert_eq!(
        exchange.take(&reference, &base, Some("--upload-pack=x")).expect("an answer"),
        Handed::NotThere
    );
}

fn what_belongs_to_the_loop_is_not_taken_in() {
    let place = Place::with(&[("a.txt", "1\n")]);
    let ground = place.ground();
    let base = place.tip("main");
    // Made without our program, which would leave it out.
    place.git(&["checkout", "-q", "-b", "other"]);
    place.write(".claude/aot-loop-state.md", "another state\n");
    place.git(&["add", "-fA"]);
    place.git(&["commit", "-qm", "other"]);
    let commit = place.tip("other");
    place.git(&["checkout", "-q", "main"]);
    let (mut lent, sealed) = ground.take_in(&work("A1", 1), &base, &commit).expect("taken in");
    assert!(sealed.cannot_land.expect("it is refused").contains(".claude/aot-loop-state.md"));
    let landing = ground
        .land(&mut lent, &message("A1", 1), &mut |_, _| Ok(()), &mut |_| std::ops::ControlFlow::Break(()));
    assert!(!matches!(landing, Ok(Landing::Landed { .. })), "{landing:?}");
}

fn an_address_runs_no_program() {
    let place = Place::with(&[("a.txt", "1\n")]);
    let ground = place.ground();
    let base = place.tip("main");
    let touched = place.top.with_file_name("touched");
    for address in
        [format!("ext::touch {}", touched.display()), format!("--upload-pack=touch {}", touched.display())]
    {
        let opened = Exchange::open(&ground, &place.project(), LOOP, &ExchangePlace::Named(address.clone()));
        assert!(matches!(opened, Err(GroundError::BadAddress { .. })), "{address}");
        let missing = "0123456789012345678901234567890123456789";
        assert!(ground.bring(&address, "refs/aot/x", missing).is_err());
        assert!(ground.hand_over(&address, "refs/aot/x", &base, &base).is_err());
        assert!(clone_for_work(&address, &place.top.with_file_name("c"), &guard()).is_err());
    }
    assert!(!touched.exists());
}
