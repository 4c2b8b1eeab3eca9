//! Hosts, the server and the driver die in the middle of a loop.

use std::time::Duration;

use aot_testkit::machines::campaign::{self, ATOMS, Kill, Machine, Moment};

use super::{aot, server};

/// Three hosts, forty atoms with dependencies and a group whose first choice fails; one host, the server and the driver are
/// killed -9 once each. Every atom lands once, the tree is that of a local run, and only what the killed host had begun is
/// run twice.
#[test]
fn a_loop_survives_the_death_of_a_host_of_the_server_and_of_the_driver() {
    let Some(server) = server() else { return };
    let local = campaign::local(aot());
    let kill =
        |landed, whom, away| Kill { at: Moment::Landed(landed), whom, away: Duration::from_millis(away) };
    let kills =
        [kill(6, Machine::Host(1), 3000), kill(16, Machine::Server, 500), kill(26, Machine::Driver, 200)];
    let done = campaign::round(aot(), &server, &kills, &local);
    let whom: Vec<Machine> = done.kills.iter().map(|kill| kill.whom).collect();
    eprintln!(
        "{} atoms landed once, {} commands run, {} of them again, in {:.1} s after {whom:?} were killed; here it takes {:.1} s",
        done.landed,
        done.runs,
        done.runs_again,
        done.took.as_secs_f64(),
        local.took.as_secs_f64()
    );
    assert_eq!(done.broken, None);
    assert_eq!(whom, [Machine::Host(1), Machine::Server, Machine::Driver]);
    assert_eq!(done.landed, ATOMS);
}
