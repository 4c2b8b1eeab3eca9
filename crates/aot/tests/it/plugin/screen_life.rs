//! The life of a loop as a person sees it at a terminal: agreed on, run by three workers at once, redirected in the middle,
//! orphaned by a crash and taken over by a second session. On the real client, in both versions.

use scripted_model::{Rule, Script, Step};
use serde_json::json;

use super::kit::{
    Scene, both_versions, call_coordinator, call_worker, coordinator, main_on, run, solved, unsolved, worker,
};
use super::screen::{Screen, tmux_is_here};
use crate::repo::{Plan, Repo, STATE};

/// So many answers may come before one that is given once.
const TURNS: usize = 60;

/// An answer that is given once, whenever its turn comes: a client that runs agents behind others wakes them as often as it
/// likes.
fn once(rule: Rule, step: Step) -> Rule {
    (0..TURNS).fold(rule, |rule, _| rule.step(step.clone())).times(1)
}

/// The same answer whenever nothing else is to be said.
fn otherwise(rule: Rule, text: &str) -> Rule {
    (0..TURNS).fold(rule, |rule, _| rule.say(text))
}

/// A coordinator that was started with this prompt.
fn coordinator_of(prompt: &str) -> Rule {
    coordinator().and(prompt)
}

fn calls_coordinator(prompt: &str) -> Step {
    match call_coordinator() {
        Step::Call { tool, mut input } => {
            input["prompt"] = json!(prompt);
            Step::Call { tool, input }
        }
        other => other,
    }
}

/// A worker that makes its file, and answers when all of these files are there.
fn makes(repo: &Repo, (id, attempt): (&str, u32), path: &str, others: &[&str], answer: &str) -> Rule {
    let folder = repo.tree(&format!("{id}-{attempt}"));
    let flag = |name: &str| repo.path(&format!("../{name}")).display().to_string();
    let wait = others.iter().map(|other| format!("until [ -e {} ]; do sleep 0.05; done", flag(other)));
    let wait = wait.collect::<Vec<_>>().join("; ");
    Rule::on(&format!("{id}-{attempt}"))
        .system("You solve one atom")
        .run(&format!("aot atom brief {id}"))
        .write(&folder.join(path).display().to_string(), id)
        .run(&format!("touch {}; {wait}", flag(&format!("{id}-made"))))
        .say(answer)
}

const ALIGN: &str = "aot align 'three files, please' --yes --force --goal 'Let three files be there' --file a --file b --file c \
                     --atom '{\"id\": \"A1\", \"description\": \"Make a\"}' --atom '{\"id\": \"A2\", \"description\": \"Make b\"}' \
                     --atom '{\"id\": \"A3\", \"description\": \"One way to c\", \"or_group\": \"way\"}' \
                     --atom '{\"id\": \"A4\", \"description\": \"Another way to c\", \"or_group\": \"way\"}'";

fn starts(ids: &[&str]) -> Step {
    Step::Together(ids.iter().map(|id| run(&format!("aot atom start {id}"))).collect())
}

fn resolve(id: &str) -> Step {
    run(&format!("aot atom resolve {id} --summary 'it is made'"))
}

/// What the three coordinators do: the first is interrupted, the second has three workers of which one fails, the third ends
/// it. Where workers run behind them, they wait with a word.
fn script(repo: &Repo, program: &str) -> Script {
    let waits = program == "claude";
    let (first, second, third) = ("Go on with the loop.", "Go on after the change.", "Go on, taken over.");
    let script = Script::new();
    // The session: an agreement, an entry, a change.
    let say = |on: &str| main_on(on);
    let script = script
        .rule(once(say("The user wants: three files"), run(ALIGN)))
        .rule(once(say("The user wants: three files"), Step::Say("Agreed on three files.".into())))
        .rule(once(say("The user asked for: \"\""), run("aot run --session")))
        .rule(once(say("The user asked for: \"\""), calls_coordinator(first)))
        .rule(once(say("The user asked for: \"\""), Step::Say("It runs.".into())))
        .rule(once(say("wants a change"), run("aot redirect --hold")))
        .rule(once(say("wants a change"), run("touch ../go")))
        .rule(once(say("wants a change"), run("aot redirect --done 'All three are there, and small'")))
        .rule(once(say("wants a change"), run("aot run --session")))
        .rule(once(say("wants a change"), calls_coordinator(second)))
        .rule(once(say("asked for: \"take over\""), run("aot run --session --take-over")))
        .rule(once(say("asked for: \"take over\""), calls_coordinator(third)))
        .rule(otherwise(main_on(""), "The session says something."));
    // The first coordinator has one worker at work when the change comes.
    let script = script
        .rule(once(coordinator_of(first), starts(&["A1"])))
        .rule(once(coordinator_of(first), call_worker(repo, "A1", 1)))
        .rule(makes(repo, ("A1", 1), "a", &["go"], &unsolved("interrupted")));
    // The second has three at once, and the way of one of them leads nowhere.
    let all = ["A1-made", "A2-made", "A3-made"];
    let mut script = script
        .rule(once(coordinator_of(second), starts(&["A1", "A2", "A3"])))
        .rule(once(
            coordinator_of(second),
            Step::Together(["A1", "A2", "A3"].map(|id| call_worker(repo, id, 2)).into()),
        ))
        .rule(makes(repo, ("A1", 2), "a", &all, &solved("a is made")))
        .rule(makes(repo, ("A2", 2), "b", &all, &solved("b is made")))
        .rule(makes(repo, ("A3", 2), "wrong", &all, &unsolved("it leads nowhere")));
    if waits {
        script = script.rule(once(coordinator_of(second), Step::Say("I wait for them.".into())));
    }
    let ended = [resolve("A1"), resolve("A2"), run("aot atom fail A3 --reason 'it leads nowhere'")];
    let next = || coordinator_of(second).and("A4: Another way to c");
    let script = script
        .rule(once(coordinator_of(second), Step::Together(ended.into())))
        .rule(once(next(), starts(&["A4"])))
        .rule(once(next(), call_worker(repo, "A4", 3)))
        // It is at work when the session crashes.
        .rule(makes(repo, ("A4", 3), "half", &["never"], &solved("never said")));
    // The third takes over.
    let mut script = script
        .rule(once(coordinator_of(third), starts(&["A4"])))
        .rule(once(coordinator_of(third), call_worker(repo, "A4", 4)))
        .rule(makes(repo, ("A4", 4), "c", &[], &solved("c is made")));
    if waits {
        script = script.rule(once(coordinator_of(third), Step::Say("I wait for it.".into())));
    }
    script
        .rule(once(coordinator_of(third), resolve("A4")))
        .rule(otherwise(coordinator(), "My turn is over."))
        .rule(otherwise(worker("A1"), &unsolved("interrupted")))
}

#[test]
fn a_person_agrees_redirects_and_takes_over_after_a_crash() {
    if !tmux_is_here() {
        return;
    }
    for program in both_versions() {
        let scene = Scene::new(&Plan::default(), |repo| script(repo, program)).on(program);
        let repo = &scene.repo;
        std::fs::remove_file(repo.path(STATE)).expect("nothing is agreed on yet");
        let screen = Screen::open(&scene);
        screen.say("/aot:align-goal three files");
        screen.see("Agreed on three files.");
        screen.see("aot: agreed, not begun · 0/3 resolved");
        screen.say("/aot:enter-recursion");
        screen.see("says: aot: at most");
        screen.see("red now: a exists, b exists, c exists");
        scene.wait_until("A1 is at work", || repo.path("../A1-made").exists());
        // A change in the middle: what was at work is discarded, and the loop goes on.
        std::fs::remove_file(repo.path("../A1-made")).expect("it was there");
        screen.say("/aot:redirect let them be small");
        scene.wait_until("three are at work", || {
            ["A1", "A2", "A3"].iter().all(|id| repo.path(&format!("../{id}-made")).exists())
        });
        scene.wait_until("A4 is at work", || repo.path("../A4-made").exists());
        screen.see("A4 at work");
        // While agents work, no hook of the session fires; the next prompt brings what happened.
        screen.say("How does it go?");
        screen.see("A1, A2 resolved; A3 failed; way switches to A4; 1 left");
        let before = repo.state();
        assert_eq!(before["objective"]["definition_of_done"], "All three are there, and small", "{program}");
        let text = screen.text();
        assert!(!text.contains("hook error") && !text.contains("no check is red"), "{program}:\n{text}");
        // The session is gone from one moment to the next, and its loop is left alone until somebody takes it over.
        screen.crash();
        let screen = Screen::open(&scene);
        screen.see("A4 at work");
        screen.say("/aot:enter-recursion take over");
        screen.see("A4 resolved; 0 left");
        screen.see("aot: The loop is COMPLETED: the program ran the checks, and all pass.");
        screen.see("aot: completed · 3/3 resolved");
        assert!(scene.was_told("belongs to another session; leave it alone"), "{program}: {}", scene.told());
        assert_ne!(repo.state()["control"]["session"], before["control"]["session"], "{program}");
        assert_eq!(repo.atoms(), "A1:resolved A2:resolved A3:pending A4:resolved", "{program}");
        assert!(!repo.path("half").exists() && !repo.path("wrong").exists(), "{program}");
        let landed = repo.landed("main");
        assert_eq!(landed.split(' ').count(), 3, "{program}: {landed}");
    }
}
