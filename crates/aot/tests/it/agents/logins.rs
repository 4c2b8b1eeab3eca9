//! An agent's login: it is given a copy, nothing else of the user's is within its reach, and a refreshed one comes back.

use crate::repo::{Plan, Repo};
use crate::scene::{atom, file, is_there, solved};

/// What the agent does to the copy of its login, and what the user has afterwards.
fn check(cage: &str, change: &str, expected: &str) {
    let atoms = atom("A1", "", &file("a.txt"));
    let repo = Repo::with(&Plan { atoms: &atoms, base_case: &is_there("a.txt"), ..Plan::default() });
    let answer = solved("made", &["a.txt"]);
    let script = format!(
        "set -e\n\
         echo made > a.txt\n\
         grep -q old $MINE_HOME/login.json\n\
         ! grep -q old ~/.mine/login.json\n\
         ! echo x > ~/.mine/settings.json\n\
         cd $MINE_HOME\n\
         {change}\n\
         echo '{answer}'\n"
    );
    repo.write("../agent.sh", &script);
    repo.write("../.mine/login.json", "{\"token\": \"old\", \"expires\": 1}");
    let program = repo.path("../agent.sh").display().to_string();
    let settings = format!(
        "[cage]\nkind = \"{cage}\"\nhide = [\"~/.mine\"]\n\
         [agent.mine]\nprogram = \"/bin/sh\"\narguments = [{program:?}]\nanswer = \"output\"\n\
         [agent.mine.logins]\n\"home/login.json\" = [\"$MINE_ELSEWHERE/login.json\", \"~/.mine/login.json\"]\n\
         [agent.mine.cage_environment]\nMINE_HOME = \"{{scratch}}/home\"\n"
    );
    repo.write("../config/aot/aot.toml", &settings);
    let said = repo.aot(&["run", "--json", "--agent", "mine"]);
    assert_eq!(said.exit, 0, "{cage}: {change}: {}{}", said.out, said.err);
    assert_eq!(repo.read("../.mine/login.json"), expected, "{cage}: {change}");
    assert!(!repo.path("../.mine/settings.json").exists(), "{cage}: {change}");
    assert_eq!(repo.leftovers(), [""; 0]);
}

#[test]
fn only_a_refreshed_login_comes_back() {
    const OLD: &str = "{\"token\": \"old\", \"expires\": 1}";
    for cage in ["auto", "landlock"] {
        check(cage, "true", OLD);
        check(cage, "printf '{\"token\": \"new\"}' > login.json", "{\"token\": \"new\"}");
        check(cage, "printf '{\"token\": \"new\", \"hooks\": {}}' > login.json", OLD);
        check(cage, "echo evil > login.json", OLD);
        check(cage, "rm login.json", OLD);
        check(cage, "ln -sf /etc/passwd login.json", OLD);
    }
}
