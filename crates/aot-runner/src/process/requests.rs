//! What we ask of the reaper and of guards, and how it goes over the line: a head with file descriptors, then a list of
//! byte strings. Knows nothing of what is started.

use std::ffi::{OsStr, OsString};
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};

/// The system itself takes no longer command lines than this.
const LONGEST: usize = 32 << 20;

/// A start comes with a line of its own and the three streams.
const MOST_FILES: usize = 4;

/// The kind, and the length of what follows.
const HEAD: usize = 5;

const START: u8 = b's';
const HOLD: u8 = b'h';
const JOB: u8 = b'j';

/// A program, all that it is given but its streams.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LaunchRequest {
    pub program: PathBuf,
    /// What it is told that it is called.
    pub name: OsString,
    pub arguments: Vec<OsString>,
    pub folder: PathBuf,
    /// All of its variables.
    pub environment: Vec<(OsString, OsString)>,
    pub ending: EarlyEnd,
}

/// What a guard is to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct GuardRequest {
    /// The order, as a guard reads it.
    pub words: Vec<OsString>,
    pub folder: PathBuf,
    /// All variables of the program.
    pub environment: Vec<(OsString, OsString)>,
}

/// How a program is ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EarlyEnd {
    /// It is asked first, so that it can remove what it has locked.
    Asked,
    Killed,
}

#[derive(Debug)]
pub(super) enum ReaperRequest {
    Start {
        launch: LaunchRequest,
        line: UnixStream,
        streams: [OwnedFd; 3],
    },
    /// A file that is kept open until everything is cleared.
    Hold(OwnedFd),
}

pub(super) fn send_start(
    control: &UnixStream,
    launch: &LaunchRequest,
    line: BorrowedFd<'_>,
    streams: &[OwnedFd; 3],
) -> io::Result<()> {
    let [input, output, errors] = streams;
    send(control, START, &[line, input.as_fd(), output.as_fd(), errors.as_fd()], &launch.encoded())
}

pub(super) fn send_hold(control: &UnixStream, file: BorrowedFd<'_>) -> io::Result<()> {
    send(control, HOLD, &[file], &[])
}

fn send(mut control: &UnixStream, kind: u8, files: &[BorrowedFd<'_>], body: &[u8]) -> io::Result<()> {
    let mut head = [kind; HEAD];
    head[1..].copy_from_slice(&u32::try_from(body.len()).map_err(io::Error::other)?.to_le_bytes());
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_FILES))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    assert!(ancillary.push(SendAncillaryMessage::ScmRights(files)), "there is room for all files");
    let sent = loop {
        match sendmsg(control, &[IoSlice::new(&head)], &mut ancillary, SendFlags::empty()) {
            Err(rustix::io::Errno::INTR) => {}
            sent => break sent?,
        }
    };
    control.write_all(&head[sent..])?;
    control.write_all(body)
}

pub(super) fn send_job(
    control: &UnixStream,
    job: &GuardRequest,
    line: BorrowedFd<'_>,
    streams: &[OwnedFd; 2],
) -> io::Result<()> {
    let [output, errors] = streams;
    send(control, JOB, &[line, output.as_fd(), errors.as_fd()], &job.encoded())
}

/// What a guard is to do next, with the line on which it is told to end and reports, and the streams of the program; `None`
/// when nobody will ask any more.
pub(super) fn receive_job(
    control: &UnixStream,
) -> io::Result<Option<(GuardRequest, UnixStream, [OwnedFd; 2])>> {
    let Some((kind, files, body)) = receive_parts(control)? else { return Ok(None) };
    let mut files = files.into_iter();
    let mut file = || files.next().ok_or(io::Error::from(io::ErrorKind::InvalidData));
    let (line, streams) = (UnixStream::from(file()?), [file()?, file()?]);
    match GuardRequest::decoded(&body) {
        Some(job) if kind == JOB => Ok(Some((job, line, streams))),
        Some(_) | None => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// The next request; `None` when the other side is gone.
pub(super) fn receive(control: &UnixStream) -> io::Result<Option<ReaperRequest>> {
    let Some((kind, files, body)) = receive_parts(control)? else { return Ok(None) };
    let mut files = files.into_iter();
    let mut file = || files.next().ok_or(io::Error::from(io::ErrorKind::InvalidData));
    match kind {
        START => {
            let line = UnixStream::from(file()?);
            let streams = [file()?, file()?, file()?];
            let launch = LaunchRequest::decoded(&body).ok_or(io::Error::from(io::ErrorKind::InvalidData))?;
            Ok(Some(ReaperRequest::Start { launch, line, streams }))
        }
        HOLD => Ok(Some(ReaperRequest::Hold(file()?))),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// The kind of a request, its files and what follows the head.
type RequestParts = (u8, Vec<OwnedFd>, Vec<u8>);

fn receive_parts(mut control: &UnixStream) -> io::Result<Option<RequestParts>> {
    let mut head = [0; HEAD];
    let mut files = Vec::new();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_FILES))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let count = loop {
        let into = &mut [IoSliceMut::new(&mut head)];
        match recvmsg(control, into, &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
            Err(rustix::io::Errno::INTR) => {}
            received => break received?.bytes,
        }
    };
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = message {
            files.extend(received);
        }
    }
    if count == 0 {
        return Ok(None);
    }
    control.read_exact(&mut head[count..])?;
    let length = u32::from_le_bytes([head[1], head[2], head[3], head[4]]) as usize;
    if length > LONGEST {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut body = vec![0; length];
    control.read_exact(&mut body)?;
    Ok(Some((head[0], files, body)))
}

impl LaunchRequest {
    fn encoded(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let ending = match self.ending {
            EarlyEnd::Asked => "asked",
            EarlyEnd::Killed => "killed",
        };
        for one in [OsStr::new(ending), self.program.as_os_str(), &self.name, self.folder.as_os_str()] {
            put(&mut bytes, one);
        }
        put_words(&mut bytes, &self.arguments, &self.environment);
        bytes
    }

    fn decoded(mut bytes: &[u8]) -> Option<LaunchRequest> {
        let bytes = &mut bytes;
        let ending = match take(bytes)?.to_str()? {
            "asked" => EarlyEnd::Asked,
            "killed" => EarlyEnd::Killed,
            _ => return None,
        };
        let (program, name, folder) = (take(bytes)?, take(bytes)?, take(bytes)?);
        let (arguments, environment) = take_words(bytes)?;
        let (program, folder) = (PathBuf::from(program), PathBuf::from(folder));
        Some(LaunchRequest { program, name, arguments, folder, environment, ending })
    }
}

impl GuardRequest {
    fn encoded(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        put(&mut bytes, self.folder.as_os_str());
        put_words(&mut bytes, &self.words, &self.environment);
        bytes
    }

    fn decoded(mut bytes: &[u8]) -> Option<GuardRequest> {
        let bytes = &mut bytes;
        let folder = PathBuf::from(take(bytes)?);
        let (words, environment) = take_words(bytes)?;
        Some(GuardRequest { words, folder, environment })
    }
}

/// What is longer than this the system refuses in any case.
fn number(number: usize) -> [u8; 4] {
    u32::try_from(number).unwrap_or(u32::MAX).to_le_bytes()
}

fn put(bytes: &mut Vec<u8>, text: &OsStr) {
    bytes.extend_from_slice(&number(text.len()));
    bytes.extend_from_slice(text.as_bytes());
}

fn put_words(bytes: &mut Vec<u8>, words: &[OsString], environment: &[(OsString, OsString)]) {
    bytes.extend_from_slice(&number(words.len()));
    words.iter().for_each(|word| put(bytes, word));
    for (name, value) in environment {
        put(bytes, name);
        put(bytes, value);
    }
}

fn take_number(bytes: &mut &[u8]) -> Option<usize> {
    let (number, rest) = bytes.split_first_chunk::<4>()?;
    *bytes = rest;
    usize::try_from(u32::from_le_bytes(*number)).ok()
}

fn take(bytes: &mut &[u8]) -> Option<OsString> {
    let length = take_number(bytes)?;
    let (text, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(OsString::from_vec(text.to_vec()))
}

type WordsAndVariables = (Vec<OsString>, Vec<(OsString, OsString)>);

fn take_words(bytes: &mut &[u8]) -> Option<WordsAndVariables> {
    let mut words = Vec::new();
    for _ in 0..take_number(bytes)? {
        words.push(take(bytes)?);
    }
    let mut environment = Vec::new();
    while !bytes.is_empty() {
        environment.push((take(bytes)?, take(bytes)?));
    }
    Some((words, environment))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_launch_is_read_as_it_was_written() {
        let odd = OsString::from_vec(b"\xff\n=\0".to_vec());
        let launch = LaunchRequest {
            program: "/bin/git".into(),
            name: "git".into(),
            arguments: vec!["a".into(), OsString::new(), odd.clone()],
            folder: PathBuf::from(&odd),
            environment: vec![("A".into(), "b=c".into()), (odd, OsString::new())],
            ending: EarlyEnd::Asked,
        };
        let bytes = launch.encoded();
        assert_eq!(LaunchRequest::decoded(&bytes), Some(launch));
        assert_eq!(LaunchRequest::decoded(&bytes[..bytes.len() - 1]), None);
    }

    #[test]
    fn a_job_comes_with_its_line_and_streams() {
        let (ours, theirs) = UnixStream::pair().expect("a line");
        let (line, mut far) = UnixStream::pair().expect("another");
        let (mut reader, writer) = io::pipe().expect("a pipe");
        let odd = OsString::from_vec(b"\xff\n=\0".to_vec());
        let job = GuardRequest {
            words: vec!["a".into(), OsString::new(), odd.clone()],
            folder: PathBuf::from(&odd),
            environment: vec![("A".into(), "b=c".into()), (odd, OsString::new())],
        };
        let streams = [writer.try_clone().expect("a copy").into(), writer.into()];
        send_job(&ours, &job, line.as_fd(), &streams).expect("sent");
        drop((line, streams));
        let Ok(Some((came, line, [output, errors]))) = receive_job(&theirs) else { panic!("it came") };
        assert_eq!(came, job);
        (&line).write_all(b"l").expect("it is open");
        std::fs::File::from(output).write_all(b"o").expect("it is open");
        std::fs::File::from(errors).write_all(b"e").expect("it is open");
        drop(line);
        let mut said = String::new();
        far.read_to_string(&mut said).expect("read");
        reader.read_to_string(&mut said).expect("read");
        assert_eq!(said, "loe");
        send_hold(&ours, reader.as_fd()).expect("sent");
        assert!(receive_job(&theirs).is_err());
        drop(ours);
        assert!(matches!(receive_job(&theirs), Ok(None)));
    }

    #[test]
    fn requests_come_with_their_files() {
        let (ours, theirs) = UnixStream::pair().expect("a line");
        let (mut reader, writer) = io::pipe().expect("a pipe");
        send_hold(&ours, writer.as_fd()).expect("sent");
        let Ok(Some(ReaperRequest::Hold(file))) = receive(&theirs) else { panic!("it came") };
        drop(writer);
        std::fs::File::from(file).write_all(b"here").expect("it is open");
        let mut said = String::new();
        reader.read_to_string(&mut said).expect("read");
        assert_eq!(said, "here");
        drop(ours);
        assert!(matches!(receive(&theirs), Ok(None)));
    }
}
