//! Whole loops on the real Claude Code, by slash commands.

use scripted_model::{Rule, Script, Step};
use serde_json::{Value, json};

use super::kit::{
    Scene, atom, both_versions, call_coordinator, call_worker, claude_is_here, coordinator, enters, file,
    is_there, main_on, run, solved, solves, unsolved, worker,
};
use crate::repo::{Plan, Repo};

const WAYS: &str = "  way: {choices: [A3, A4], selected: A3, failed: []}";

fn two_ways() -> String {
    let choice = |id: &str| {
        format!(
            "  - {{id: {id}, description: \"Make {id}\", status: pending, depends_on: [], or_group: way}}\n"
        )
    };
    choice("A3") + &choice("A4")
}

fn resolve(id: &str) -> String {
    format!("aot atom resolve {id} --summary 'it is made'")
}

fn start(id: &str) -> String {
    format!("aot atom start {id}")
}

#[test]
fn a_loop_completes_with_parallel_workers_and_a_way_back() {
    if !claude_is_here() {
        return;
    }
    let atoms = [
        atom("A1", "", &file("a")),
        atom("A2", "", &file("b")),
        two_ways(),
        atom("A5", "A1, A3", &file("d")),
    ]
    .concat();
    let base = ["a", "b", "c", "d"].map(is_there).concat();
    let plan = Plan { atoms: &atoms, or_groups: WAYS, base_case: &base, ..Plan::default() };
    let scene = Scene::new(&plan, |repo| {
        let wrong = repo.tree("A3-1").join("wrong").display().to_string();
        Script::new()
            .rule(
                coordinator()
                    .together([run(&start("A1")), run(&start("A2")), run(&start("A3"))])
                    .together([
                        call_worker(repo, "A1", 1),
                        call_worker(repo, "A2", 1),
                        call_worker(repo, "A3", 1),
                    ])
                    .together([
                        run(&resolve("A1")),
                        run(&resolve("A2")),
                        run("aot atom fail A3 --reason 'this way leads nowhere'"),
                    ])
                    .say("The first turn is over.")
                    .run(&start("A4"))
                    .step(call_worker(repo, "A4", 2))
                    .run(&resolve("A4"))
                    .run(&start("A5"))
                    .step(call_worker(repo, "A5", 2))
                    .run(&resolve("A5"))
                    .say("All is made."),
            )
            // Each of the two waits until the other one is at work: they are there at the same time.
            .rule(meets(repo, "A1", "A2", "a"))
            .rule(meets(repo, "A2", "A1", "b"))
            .rule(worker("A3").write(&wrong, "x").say(&unsolved("this way leads nowhere")))
            .rule(solves(repo, "A4", 2, "c"))
            .rule(solves(repo, "A5", 2, "d"))
            .rule(enters())
    });
    let said = scene.say("/aot:enter-recursion");
    let control = scene.repo.state()["control"].clone();
    assert_eq!(control["status"], "completed", "{control}\n{}\n{}", said.out, scene.told());
    assert_eq!(scene.repo.atoms(), "A1:resolved A2:resolved A3:pending A4:resolved A5:resolved");
    assert!(!scene.repo.path("wrong").exists());
    let mut landed: Vec<String> = scene.repo.landed("main").split(' ').map(str::to_owned).collect();
    landed.sort();
    assert_eq!(landed, ["A1", "A2", "A4", "A5"]);
    assert!(scene.was_told("A4: Make A4"), "the next instruction came with the refusal to stop");
    assert!(scene.was_told("The loop is COMPLETED: the program ran the checks"), "{}", scene.told());
    assert_eq!(scene.repo.leftovers(), [""; 0]);
}

/// A worker that goes on when another one has begun.
fn meets(repo: &Repo, id: &str, other: &str, path: &str) -> Rule {
    let (own, others) = (repo.path(&format!("../{id}")), repo.path(&format!("../{other}")));
    let target = repo.tree(&format!("{id}-1")).join(path);
    let wait = format!("touch {}; until [ -e {} ]; do sleep 0.05; done", own.display(), others.display());
    worker(id).run(&wait).write(&target.display().to_string(), id).say(&solved("made"))
}

#[test]
fn verbs_need_no_permission_and_nothing_else_is_allowed() {
    if !claude_is_here() {
        return;
    }
    let (atoms, base) = (atom("A1", "", ""), is_there("a"));
    let scene = Scene::new(&Plan { atoms: &atoms, base_case: &base, ..Plan::default() }, |_| {
        Script::new()
            .rule(
                coordinator()
                    .run("aot atom start A1")
                    .run("aot atom fail A1 --reason 'no'")
                    .run("aot stop enough")
                    .say("Over."),
            )
            .rule(
                main_on("The user asked for")
                    .run("aot run --session")
                    .run("touch forbidden")
                    .run("aot status; touch forbidden")
                    .run("aot atom add x --run 'touch forbidden'")
                    .run("aot atom add x --check 'touch forbidden'")
                    .step(call_coordinator())
                    .say("It runs.")
                    .say("Over.")
                    .say("Over."),
            )
    });
    let said = scene.say_with("/aot:enter-recursion", "default");
    assert!(!scene.repo.path("forbidden").exists(), "{}", said.out);
    let control = scene.repo.state()["control"].clone();
    assert_eq!(control["stop_reason"], "enough", "{control}\n{}", scene.told());
    assert_eq!(scene.repo.state()["trail"][0]["reason"], "no");
    assert_eq!(scene.repo.atoms(), "A1:pending", "no command came in with an atom");
}

#[test]
fn a_loop_is_stopped_in_the_middle() {
    if !claude_is_here() {
        return;
    }
    let (atoms, base) =
        (atom("A1", "", &file("a")) + &atom("A2", "", &file("b")), is_there("a") + &is_there("b"));
    let scene = Scene::new(&Plan { atoms: &atoms, base_case: &base, ..Plan::default() }, |repo| {
        let go = repo.path("../go");
        let target = repo.tree("A1-1").join("a").display().to_string();
        Script::new()
            .rule(
                coordinator()
                    .run(&start("A1"))
                    .step(call_worker(repo, "A1", 1))
                    .run(&resolve("A1"))
                    .run(&start("A2"))
                    .say("Nothing more may start."),
            )
            .rule(
                worker("A1")
                    .run(&format!("until [ -e {} ]; do sleep 0.05; done", go.display()))
                    .write(&target, "a")
                    .say(&solved("made")),
            )
            .rule(
                main_on("aot stop")
                    .from_turn(3)
                    .run("aot stop 'it is late'")
                    .say("Stopped.")
                    .say("Over.")
                    .say("Over."),
            )
            .rule(enters())
    });
    let mut chat = scene.open();
    chat.say("/aot:enter-recursion");
    scene.wait_until("A1 is at work", || scene.repo.atoms().starts_with("A1:in_progress"));
    chat.say("/aot:exit-recursion it is late");
    scene.wait_until("a stop is asked for", || scene.repo.state()["control"]["stop_requested"] == true);
    scene.repo.write("../go", "");
    chat.end();
    let control = scene.repo.state()["control"].clone();
    assert_eq!(control["status"], "stopped", "{control}\n{}", scene.told());
    assert_eq!(control["stop_reason"], "it is late");
    assert_eq!(scene.repo.atoms(), "A1:resolved A2:pending", "what ran was handed in, nothing new began");
    assert_eq!(scene.repo.leftovers(), [""; 0]);
}

#[test]
fn a_loop_is_redirected_in_the_middle() {
    if !claude_is_here() {
        return;
    }
    let (atoms, base) = (atom("A1", "", &file("a")), is_there("b"));
    let scene = Scene::new(&Plan { atoms: &atoms, base_case: &base, ..Plan::default() }, |repo| {
        let go = repo.path("../go");
        let target = repo.tree("A1-1").join("a").display().to_string();
        Script::new()
            .rule(
                coordinator()
                    .without("A2: Make b instead")
                    .run(&start("A1"))
                    .step(call_worker(repo, "A1", 1))
                    .run(&resolve("A1"))
                    .say("I was interrupted."),
            )
            .rule(
                worker("A1")
                    .run(&format!("until [ -e {} ]; do sleep 0.05; done", go.display()))
                    .write(&target, "a")
                    .say(&unsolved("interrupted")),
            )
            .rule(
                main_on("wants a change")
                    .from_turn(3)
                    .run("aot redirect --hold")
                    .run("touch ../go")
                    .run("aot redirect --remove A1 --add 'Make b instead'")
                    .run("aot run --session")
                    .call(
                        "Agent",
                        json!({"description": "loop", "subagent_type": "aot:aot-coordinator", "prompt": "A2: Make b instead"}),
                    )
                    .say("It goes on.")
                    .say("Over.")
                    .say("Over.")
                    .say("Over."),
            )
            .rule(
                coordinator()
                    .and("A2: Make b instead")
                    .run(&start("A2"))
                    .step(call_worker(repo, "A2", 2))
                    .run(&resolve("A2"))
                    .say("Made."),
            )
            .rule(solves(repo, "A2", 2, "b"))
            .rule(enters())
    });
    let mut chat = scene.open();
    chat.say("/aot:enter-recursion");
    scene.wait_until("A1 is at work", || scene.repo.atoms().starts_with("A1:in_progress"));
    chat.say("/aot:redirect make b instead");
    scene.wait_until("it is over", || scene.repo.state()["control"]["status"] == "completed");
    chat.end();
    assert_eq!(scene.repo.atoms(), "A2:resolved", "{}", scene.told());
    assert!(!scene.repo.path("a").exists(), "what was interrupted never lands");
    assert_eq!(scene.repo.state()["corrections"].as_array().map(Vec::len), Some(2));
}

#[test]
fn a_session_crashes_and_another_takes_over() {
    if !claude_is_here() {
        return;
    }
    let (atoms, base) = (atom("A1", "", &file("a")), is_there("a"));
    let scene = Scene::new(&Plan { atoms: &atoms, base_case: &base, ..Plan::default() }, |repo| {
        let half = repo.tree("A1-1").join("half").display().to_string();
        Script::new()
            .rule(
                coordinator()
                    .and("Take it up")
                    .run(&start("A1"))
                    .step(call_worker(repo, "A1", 2))
                    .run(&resolve("A1"))
                    .say("Made."),
            )
            .rule(coordinator().run(&start("A1")).step(call_worker(repo, "A1", 1)).say("Never said."))
            .rule(Rule::on("A1-1").system("You solve one atom").write(&half, "x").run("sleep 600"))
            .rule(solves(repo, "A1", 2, "a"))
            .rule(
                main_on("asked for: \"take over\"")
                    .run("aot run --session")
                    .run("aot run --session --take-over")
                    .call(
                        "Agent",
                        json!({"description": "loop", "subagent_type": "aot:aot-coordinator", "prompt": "Take it up."}),
                    )
                    .say("It runs.")
                    .say("Over.")
                    .say("Over."),
            )
            .rule(enters())
    });
    let mut chat = scene.open();
    chat.say("/aot:enter-recursion");
    scene.wait_until("it is in the middle", || scene.repo.tree("A1-1").join("half").exists());
    let first = scene.repo.state()["control"]["session"].clone();
    chat.crash();
    let said = scene.say("/aot:enter-recursion take over");
    let control = scene.repo.state()["control"].clone();
    assert_eq!(control["status"], "completed", "{control}\n{}\n{}", said.out, scene.told());
    assert_ne!(control["session"], first);
    assert!(scene.was_told("belongs to another session; leave it alone"), "the new session was told");
    assert!(scene.was_told("this loop belongs to the session"), "and held, until it said that it takes over");
    assert!(!scene.repo.path("half").exists());
    assert_eq!(scene.repo.landed("main"), "A1");
}

/// Nothing is asked of the user, who gave no permission beforehand.
#[test]
fn the_verifier_judges_what_no_command_can_see() {
    let good =
        "      - item: It is good\n        check: {type: quality, criteria: Short, pass_threshold: 4}\n";
    for program in both_versions() {
        let (atoms, base) = (atom("A1", "", ""), good.to_owned());
        let scene = Scene::new(&Plan { atoms: &atoms, base_case: &base, ..Plan::default() }, |_| {
            let one =
                json!({"criterion": "overall", "score": 5, "reason": "it is", "evidence": ["README:1 A"]});
            let hand_in = format!("aot judge \"It is good\" --scores '{}'", json!({"scores": [one]}));
            let prompt = "Judge: `aot judge \"It is good\"` is your brief; hand the scores in.";
            let seen = json!({"passed": true, "evidence": "the files", "failures": []}).to_string();
            Script::new()
                .rule(
                    coordinator()
                        .run(&start("A1"))
                        .run(&resolve("A1"))
                        .say("All is done.")
                        .run(&hand_in)
                        .call(
                            "Agent",
                            json!({
                                "description": "judge", "subagent_type": "aot:aot-verifier", "prompt": prompt,
                                "run_in_background": false,
                            }),
                        )
                        .say("It is judged."),
                )
                .rule(
                    Rule::always()
                        .system("You report whether all checks pass")
                        .run("aot judge \"It is good\"")
                        .run(&hand_in)
                        .say(&seen),
                )
                .rule(enters())
        })
        .on(program);
        let said = scene.say_with("/aot:enter-recursion", "default");
        let control = scene.repo.state()["control"].clone();
        assert_eq!(control["status"], "completed", "{program}: {control}\n{}\n{}", said.out, scene.told());
        assert!(scene.was_told("the coordinator does not judge: aot-verifier does"), "{}", scene.told());
        assert!(scene.was_told("It is good: scored 5.00, at least 4"), "{}", scene.told());
    }
}

#[test]
fn a_second_session_is_left_alone() {
    if !claude_is_here() {
        return;
    }
    let (atoms, base) = (atom("A1", "", ""), is_there("a"));
    let scene = Scene::new(&Plan { atoms: &atoms, base_case: &base, ..Plan::default() }, |_| {
        Script::new().rule(
            main_on("something else")
                .write("other.txt", "mine")
                .run("rm other.txt; touch done")
                .say("That was all."),
        )
    });
    scene.repo.step(&["run", "--session"]);
    scene.repo.step(&["atom", "start", "A1"]);
    let before = scene.repo.read(crate::repo::STATE);
    let said = scene.say("Do something else here");
    assert!(scene.repo.path("done").exists(), "{}", said.out);
    assert!(said.out.contains("That was all."), "it ended as it wanted: {}", said.out);
    let requests = scene.model.requests().iter().filter(|record| record.rule.is_some()).count();
    assert_eq!(requests, 3, "nobody sent it back to work:\n{}", scene.told());
    assert_eq!(scene.repo.read(crate::repo::STATE), before);
}

#[test]
fn a_goal_is_agreed_on_and_reached_by_slash_commands() {
    if !claude_is_here() {
        return;
    }
    let align = "aot align 'a file called a, please' --yes --force --goal 'Let a be there' --intent 'it is needed' --deliverable 'a file' --done 'a is \
                 there' --check 'test -f a' --atom '{\"description\": \"Make a\", \"check\": \"test -f a\"}'";
    let scene = Scene::new(&Plan::default(), |repo| {
        Script::new()
            .rule(
                coordinator()
                    .run(&start("A1"))
                    .step(call_worker(repo, "A1", 1))
                    .run(&resolve("A1"))
                    .say("Made."),
            )
            .rule(solves(repo, "A1", 1, "a"))
            .rule(enters())
            .rule(main_on("The user wants: a file").run(align).run("aot gate").say("Agreed."))
    });
    // The command that the user typed allows it; nothing else does.
    let said = scene.say_with("/aot:align-goal a file called a", "default");
    let goal = scene.repo.state()["objective"]["goal"].clone();
    assert_eq!(goal, "Let a be there", "{}\n{}", said.out, scene.told());
    assert_eq!(scene.repo.state()["atoms"][0]["check"]["value"], "test -f a");
    let body = scene.repo.state()["body"].as_str().unwrap_or_default().to_owned();
    assert!(body.contains("# Original Prompt") && body.contains("a file called a, please"), "{body}");
    let said = scene.say("/aot:enter-recursion");
    let control = scene.repo.state()["control"].clone();
    assert_eq!(control["status"], "completed", "{control}\n{}\n{}", said.out, scene.told());
    assert_eq!(scene.repo.read("a"), "A1");
}

#[test]
fn in_the_background_the_program_runs_it_with_this_hosts_agent() {
    if !claude_is_here() {
        return;
    }
    let (atoms, base) = (atom("A1", "", &file("a")), is_there("a"));
    let scene = Scene::new(&Plan { atoms: &atoms, base_case: &base, ..Plan::default() }, |_| {
        let answer: Value = serde_json::from_str(&solved("a is made")).expect("JSON");
        // The agent is new on this machine.
        let task =
            Rule::on("Try whether your tools work").run("echo works > tried.txt").answer(answer.clone());
        Script::new()
            .rule(task)
            .rule(Rule::on("Worker: solve A1").write("a", "by a caged one").answer(answer))
            .rule(
                main_on("asked for: \"background\"")
                    .call(
                        "Bash",
                        json!({
                            "command": "aot run --agent claude", "description": "the loop", "run_in_background": true,
                        }),
                    )
                    .say("It runs in the background.")
                    .run("aot status")
                    .say("It is over.")
                    .say("It is over."),
            )
    });
    let mut chat = scene.open();
    chat.say("/aot:enter-recursion background");
    scene.wait_until("it is over", || scene.repo.state()["control"]["status"] == "completed");
    scene.wait_until("the session saw it", || {
        scene.was_told("The loop has completed") || scene.was_told("completed")
    });
    chat.end();
    assert_eq!(scene.repo.read("a"), "by a caged one", "{}", scene.told());
    assert_eq!(scene.repo.landed("main"), "A1");
    let control = scene.repo.state()["control"].clone();
    assert!(control["session"].is_null(), "it is the program's, not the session's: {control}");
    assert!(control["spent"]["tokens"].as_u64().is_some_and(|tokens| tokens > 0), "{control}");
}

#[test]
fn where_edits_are_accepted_workers_write_in_their_trees() {
    if !claude_is_here() {
        return;
    }
    let (atoms, base) = (atom("A1", "", &file("a")), is_there("a"));
    let scene = Scene::new(&Plan { atoms: &atoms, base_case: &base, ..Plan::default() }, |repo| {
        let beside = repo.path(".claude/settings.json").display().to_string();
        let target = repo.tree("A1-1").join("a").display().to_string();
        Script::new()
            .rule(
                coordinator()
                    .run(&start("A1"))
                    .step(call_worker(repo, "A1", 1))
                    .run(&resolve("A1"))
                    .say("Made."),
            )
            .rule(
                worker("A1")
                    .run("aot atom brief A1")
                    .write(&beside, "{}")
                    .run("touch ../forbidden")
                    .write(&target, "A1")
                    .say(&solved("made")),
            )
            .rule(enters())
    });
    let said = scene.say_with("/aot:enter-recursion", "acceptEdits");
    let control = scene.repo.state()["control"].clone();
    assert_eq!(control["status"], "completed", "{control}\n{}\n{}", said.out, scene.told());
    assert!(!scene.repo.path(".claude/settings.json").exists() && !scene.repo.path("../forbidden").exists());
}

#[test]
fn what_workers_did_in_the_background_is_handed_in() {
    if !claude_is_here() {
        return;
    }
    let atoms = atom("A1", "", &file("a")) + &atom("A2", "", &file("b"));
    let base = is_there("a") + &is_there("b");
    let scene = Scene::new(&Plan { atoms: &atoms, base_case: &base, ..Plan::default() }, |repo| {
        let behind = |id: &str| match call_worker(repo, id, 1) {
            Step::Call { tool, mut input } => {
                input["run_in_background"] = json!(true);
                Step::Call { tool, input }
            }
            other => other,
        };
        let late = repo.tree("A2-1").join("b").display().to_string();
        Script::new()
            // Without a terminal the host does not wake the one that started them.
            .rule(
                coordinator()
                    .without("Hand in")
                    .together([run(&start("A1")), run(&start("A2"))])
                    .together([behind("A1"), behind("A2")])
                    .say("I wait for them.")
                    .say("I wait for them."),
            )
            .rule(
                coordinator()
                    .and("Hand in")
                    .together([run(&resolve("A1")), run(&resolve("A2"))])
                    .say("Handed in."),
            )
            .rule(solves(repo, "A1", 1, "a"))
            .rule(worker("A2").run("touch begun; sleep 3").write(&late, "A2").say(&solved("made")))
            .rule(
                main_on("Start a fresh coordinator").from_turn(6).call(
                    "Agent",
                    json!({"description": "loop", "subagent_type": "aot:aot-coordinator", "prompt": "Hand in what is there."}),
                )
                .say("Over.")
                .say("Over."),
            )
            .rule(enters())
    });
    let said = scene.say("/aot:enter-recursion");
    let control = scene.repo.state()["control"].clone();
    assert_eq!(control["status"], "completed", "{control}\n{}\n{}", said.out, scene.told());
    assert_eq!(control["iteration"], 1, "nothing was thrown away: {}", scene.told());
}

#[test]
fn the_users_commands_need_no_prompt_and_speak_for_nobody() {
    for program in both_versions() {
        let (atoms, base) = (atom("A1", "", &file("a")), is_there("a"));
        let scene = Scene::new(&Plan { atoms: &atoms, base_case: &base, ..Plan::default() }, |_| {
            Script::new()
                .rule(
                    main_on("wants a change")
                        .run("aot redirect --hold")
                        .run("aot redirect --hold --accept")
                        .run("aot redirect --add 'One more'")
                        .run("aot confirm x")
                        .run("aot stop enough")
                        .say("Changed.")
                        .say("Changed."),
                )
                .rule(main_on("The user asked for").run("aot run --session").say("It is begun."))
        })
        .on(program);
        let said = scene.say_with("/aot:redirect one more", "default");
        assert_eq!(scene.repo.atoms(), "A1:pending A2:pending", "{program}: {}\n{}", said.out, scene.told());
        assert!(
            scene.was_told("speaks for a person") || scene.was_told("requires approval"),
            "{}",
            scene.told()
        );
    }
}
