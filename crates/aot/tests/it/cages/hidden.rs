//! What a job in a cage cannot read.

use std::fs;
use std::os::unix::fs::{FileTypeExt, symlink};

use aot_runner::process::How;
use aot_runner::process::cage::Cage;

use super::kit::{Yard, kinds};

/// What is hidden cannot be read by any way; what lies beside it can.
#[test]
fn what_is_hidden_cannot_be_read() {
    for &kind in kinds() {
        let yard = Yard::of(kind);
        for path in ["out/keys/deep", "cache/deep", "cache/way"] {
            fs::create_dir_all(yard.path(path)).expect("folders");
        }
        for path in [
            "out/keys/key",
            "out/keys/deep/key",
            "out/token.json",
            "cache/token",
            "cache/way/token",
            "out/beside",
        ] {
            fs::write(yard.path(path), "SECRET").expect("a file");
        }
        symlink(yard.path("out/keys/key"), yard.path("in/link")).expect("a link");
        let hidden = ["out/keys", "out/token.json", "cache/token", "cache/way/token"]
            .map(|path| yard.path(path))
            .to_vec();
        let run = |script: &str| {
            let mut job = yard.job(script);
            let writable = vec![yard.path("in"), yard.path("cache")];
            job.cage = Some(Cage { hidden: hidden.clone(), writable, ..yard.cage() });
            let ended = yard.run(job);
            (ended.how, String::from_utf8_lossy(&ended.output.whole().unwrap_or_default()).into_owned())
        };
        for script in [
            "cat $OUT/keys/key",
            "cat $OUT/keys/deep/key",
            "cat $OUT/token.json",
            "cat ../cache/token",
            "cat link",
            "cat /proc/self/root$OUT/keys/key",
            "cat ../out/keys/../keys/key",
            "cd $OUT/keys && cat key",
            "ln $OUT/token.json mine && cat mine",
            "mv $OUT/token.json mine && cat mine",
            "mv ../cache/token mine; cat mine",
            "ln ../cache/token mine; cat mine",
            "mv ../cache/token ../cache/deep; cat ../cache/deep/token",
            "mv ../cache/way ../cache/deep/way; cat ../cache/deep/way/token",
            "dd if=$OUT/keys/key",
            "umount $OUT/keys; cat $OUT/keys/key",
            "unshare -Urm sh -c 'umount -l $OUT/keys; cat $OUT/keys/key'",
            "grep -rs SECRET $OUT/keys $OUT/token.json ../cache mine",
            "echo x >> $OUT/keys/key && cat $OUT/keys/key",
        ] {
            let (how, said) = run(script);
            assert!(!said.contains("SECRET"), "{kind}: {script}: {how:?} {said}");
        }
        for (path, expected) in [("out/keys/key", "SECRET"), ("out/token.json", "SECRET")] {
            assert_eq!(fs::read_to_string(yard.path(path)).expect("it is there"), expected, "{kind}");
        }
        let works = "cat $OUT/beside $OUT/file && ls $OUT > /dev/null && ls / ~ > /dev/null && echo x > ../cache/deep/y";
        assert_eq!(run(works), (How::Exited(0), "SECRETas it was".to_owned()), "{kind}");
        let (how, said) = run("echo x > new && cat new");
        assert_eq!((how, said.as_str()), (How::Exited(0), "x\n"), "{kind}");
    }
}

/// A place within a hidden one may be given; what lies beside it stays hidden.
#[test]
fn what_is_writable_in_a_hidden_place_is_open() {
    for &kind in kinds() {
        let yard = Yard::of(kind);
        fs::create_dir_all(yard.path("out/keys/own")).expect("folders");
        fs::write(yard.path("out/keys/key"), "SECRET").expect("a file");
        let mut job = yard.job("echo x > $OUT/keys/own/x && cat $OUT/keys/own/x; cat $OUT/keys/key");
        let writable = vec![yard.path("in"), yard.path("out/keys/own")];
        job.cage = Some(Cage { writable, hidden: vec![yard.path("out/keys")], ..yard.cage() });
        let ended = yard.run(job);
        let said = String::from_utf8_lossy(&ended.output.whole().unwrap_or_default()).into_owned();
        assert!(said.starts_with("x\n") && !said.contains("SECRET"), "{kind}: {said}");
        assert!(yard.path("out/keys/own/x").exists(), "{kind}");
    }
}

/// The superuser could read whole disks.
#[test]
fn raw_devices_cannot_be_read() {
    let disk = fs::read_dir("/dev").expect("it is there").flatten().find(|entry| {
        let is_block = entry.file_type().is_ok_and(|kind| kind.is_block_device());
        is_block && fs::File::open(entry.path()).is_ok()
    });
    let Some(disk) = disk else { return };
    for &kind in kinds() {
        let (how, said) = Yard::of(kind).sh(&format!("head -c 1 {} > byte", disk.path().display()));
        assert_ne!(how, How::Exited(0), "{kind}: {said}");
    }
}
