//! Processes, sockets, the network, and what never ends.

use super::super::Door::{BaseCase, Check, Setup, Work, WorkOffline};
use super::Attack;
use super::Bare::{Prevented, Skipped, Succeeds};

pub(super) const ATTACKS: &[Attack] = &[
    Attack::new(Work, "kill a process of the user", "kill -9 @PID@", Succeeds),
    Attack::new(Work, "stop a process of the user", "kill -STOP @PID@", Succeeds),
    Attack::new(Work, "end a process by its limits", "prlimit --pid @PID@ --cpu=0:0; prlimit --pid @PID@ --nofile=0:0", Succeeds),
    Attack::new(Work, "slow a process down", "renice -n 19 -p @PID@; taskset -pc 0 @PID@", Succeeds),
    Attack::new(Work, "offer a process to the killer", "echo 1000 > /proc/@PID@/oom_score_adj", Succeeds),
    Attack::new(Work, "read a process's environment", "cat /proc/@PID@/environ > stolen-@N@; cat /proc/@PID@/environ", Succeeds),
    Attack::new(Work, "write a process's memory", ": >> /proc/@PID@/mem && touch @PROOF@; dd if=/dev/zero of=/proc/@PID@/mem bs=1 count=1 seek=4096 && touch @PROOF@", Succeeds),
    Attack::new(Work, "trace a process", "timeout 5 strace -qq -o trace-@N@ -p @PID@ & sleep 0.5; grep -q TracerPid:.[1-9] /proc/@PID@/status && touch @PROOF@; kill %1; rm -f trace-@N@", Succeeds),
    Attack::new(Work, "enter a process's namespaces and folders", "ls /proc/@PID@/root/ > /dev/null && cat /proc/@PID@/cwd/victim-@N@ && touch @PROOF@; nsenter -t @PID@ -a touch @PROOF@", Skipped),
    Attack::new(Work, "kill the guard and the driver", "d=$(awk '/PPid/{print $2}' /proc/$PPID/status); [ $d -gt 1 ] && kill -9 $d; kill -9 $PPID", Skipped).alone(),
    Attack::new(Work, "end the driver by its limits", "d=$(awk '/PPid/{print $2}' /proc/$PPID/status); for p in $PPID $d; do [ $p -gt 1 ] && prlimit --pid $p --cpu=0:0 && prlimit --pid $p --nofile=3:3; done", Skipped).alone(),
    Attack::new(Work, "freeze the driver", "d=$(awk '/PPid/{print $2}' /proc/$PPID/status); for p in $d $PPID; do [ $p -gt 1 ] && kill -STOP $p; done", Skipped).alone(),
    Attack::new(Work, "speak for the guard", "for f in 0 1 2 3 4 5 6; do echo 'exit 0 0' > /proc/$PPID/fd/$f; done; for f in 3 4 5 6 7 8 9; do eval \"echo 'exit 0 0' >&$f\"; done; exit 1", Prevented),
    Attack::new(Check, "kill a process from the check", "kill -9 @PID@; prlimit --pid @PID@ --cpu=0:0", Succeeds),
    Attack::new(BaseCase, "kill a process from the base case", "kill -9 @PID@; prlimit --pid @PID@ --cpu=0:0", Succeeds),
    Attack::new(Setup, "kill a process from setup", "kill -9 @PID@", Succeeds),
    Attack::new(Work, "an abstract socket", "python3 -c \"import socket; s=socket.socket(socket.AF_UNIX); s.connect('\\0@ABSTRACT@')\"", Succeeds),
    Attack::new(Check, "an abstract socket from the check", "python3 -c \"import socket; s=socket.socket(socket.AF_UNIX); s.connect('\\0@ABSTRACT@')\"", Succeeds),
    Attack::new(WorkOffline, "TCP with the network off", "bash -c 'exec 3<>/dev/tcp/127.0.0.1/@TCP@'", Succeeds),
    Attack::new(WorkOffline, "UDP with the network off", "bash -c 'echo x > /dev/udp/127.0.0.1/@UDP@'", Succeeds),
    Attack::new(WorkOffline, "an abstract socket with the network off", "python3 -c \"import socket; s=socket.socket(socket.AF_UNIX); s.connect('\\0@ABSTRACT@')\"", Succeeds),
    // What is left behind.
    Attack::new(Work, "leave a daemon", "setsid sh -c 'sleep 300' > /dev/null 2>&1 & (setsid nohup sleep 300 > /dev/null 2>&1 &)", Prevented),
    Attack::new(Work, "leave a process that starts itself again", "setsid sh -c 'trap \"\" TERM INT HUP; while :; do setsid sleep 1 & sleep 0.05; done' > /dev/null 2>&1 &", Prevented),
    Attack::new(Work, "leave a crowd", "for i in $(seq 150); do setsid sleep 300 > /dev/null 2>&1 & done", Prevented),
    Attack::new(Work, "leave a daemon that forgets its home", "env -i setsid sh -c 'cd /; sleep 299' > /dev/null 2>&1 &", Prevented),
    Attack::new(Check, "leave a daemon from the check", "setsid sh -c 'trap \"\" TERM; sleep 300' > /dev/null 2>&1 &", Prevented),
    Attack::new(BaseCase, "leave a daemon from the base case", "setsid sh -c 'trap \"\" TERM; sleep 300' > /dev/null 2>&1 &", Prevented),
    Attack::new(Setup, "leave a daemon from setup", "setsid sh -c 'trap \"\" TERM; sleep 300' > /dev/null 2>&1 &", Prevented),
    // What never ends.
    Attack::new(Work, "work for ever", "trap '' TERM INT HUP; while :; do sleep 1; done", Prevented).alone(),
    Attack::new(Work, "stop itself", "kill -STOP $$; sleep 300", Prevented).alone(),
    Attack::new(Work, "print for ever", "yes 0123456789012345678901234567890123456789", Prevented).alone(),
    Attack::new(Work, "print a line without end", "head -c 50000000 /dev/zero | tr '\\0' x", Prevented).alone(),
    Attack::new(Work, "keep the output open", "sleep 300 & exit 0", Prevented),
    Attack::new(Check, "check for ever", "while :; do :; done", Prevented).alone(),
    Attack::new(Check, "print for ever from the check", "yes", Prevented).alone(),
    Attack::new(Setup, "set up for ever", "sleep 300", Prevented).alone(),
    Attack::new(BaseCase, "evaluate for ever", "sleep 300", Prevented).alone(),
    Attack::new(Work, "a FIFO in the tree", "mkfifo fifo-@N@; mkfifo README-@N@; rm README; mkfifo README", Prevented).alone(),
    Attack::new(Work, "a path that is never free", "rm -rf .claude; ln -s /nowhere .claude; echo x > file-@N@", Prevented).alone(),
    Attack::new(Work, "a file without end", "truncate -s 400G huge-@N@", Prevented).alone(),
    Attack::new(Work, "a name that is no text", "touch \"$(printf 'odd-@N@-\\377\\n\\033[2J')\"", Prevented).alone(),
    Attack::new(Work, "a deep folder", "p=d-@N@; for i in $(seq 120); do p=$p/ddddddddddddddddddddddddd; done; mkdir -p $p && touch $p/f", Prevented),
    Attack::new(Work, "folders that cannot be read", "mkdir locked-@N@; touch locked-@N@/f; chmod 0 locked-@N@", Prevented).alone(),
];
