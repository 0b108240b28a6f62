//! Requests that a fresh ZooKeeper 3.8.4 was sent, with its answers: the state machine must give the same ones, but for
//! the order of lists that have none, and for wall clock times.

use super::*;
use sillon_protocol::zookeeper::multi::next_header;

const RECORDED: &str = include_str!("recorded.txt");

fn bytes(hex: &str) -> Vec<u8> {
    let digits = if hex == "-" { "" } else { hex };
    (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap()).collect()
}

/// A stat without times.
fn stat(reader: &mut Reader<'_>) -> String {
    let stat = Stat { ctime: 0, mtime: 0, ..Stat::read(reader).unwrap() };
    format!("{stat:?}")
}

fn text(reader: &mut Reader<'_>) -> String {
    <&str>::read(reader).unwrap().to_owned()
}

fn names(reader: &mut Reader<'_>) -> String {
    let mut names = Vec::<String>::read(reader).unwrap();
    names.sort();
    format!("{names:?}")
}

fn data(reader: &mut Reader<'_>) -> String {
    format!("{:?}", Option::<&[u8]>::read(reader).unwrap().map(String::from_utf8_lossy))
}

/// A reply's body in words, which are the same where clients would see the same.
fn words(code: OpCode, reader: &mut Reader<'_>) -> String {
    match code {
        OpCode::Create => text(reader),
        OpCode::Create2 | OpCode::CreateContainer | OpCode::CreateTtl => text(reader) + &stat(reader),
        OpCode::SetData | OpCode::SetAcl | OpCode::Exists => stat(reader),
        OpCode::GetData => data(reader) + &stat(reader),
        OpCode::GetAcl => format!("{:?}", Vec::<Acl>::read(reader).unwrap()) + &stat(reader),
        OpCode::GetChildren | OpCode::GetEphemerals => names(reader),
        OpCode::GetChildren2 => names(reader) + &stat(reader),
        OpCode::GetAllChildrenNumber => i32::read(reader).unwrap().to_string(),
        OpCode::Error => i32::read(reader).unwrap().to_string(),
        OpCode::Multi | OpCode::MultiRead => {
            let mut all = String::new();
            while let Some(header) = next_header(reader).unwrap() {
                let code = OpCode::from_number(header.operation).unwrap();
                all += &format!("[{code:?} {}: {}]", header.error, words(code, reader));
            }
            all
        }
        _ => String::new(),
    }
}

fn shown(code: OpCode, error: i32, body: &[u8]) -> String {
    let reader = &mut Reader::new(body);
    let words = if body.is_empty() { String::new() } else { words(code, reader) };
    assert!(reader.is_empty(), "{code:?} {error} {body:?}");
    format!("{error} {words}")
}

fn replay(recorded: &str) -> usize {
    let mut lines = recorded.lines();
    let sessions: Vec<SessionId> =
        lines.next().unwrap().split(' ').skip(1).map(|id| SessionId(id.parse().unwrap())).collect();
    let mut who = std::collections::BTreeMap::new();
    let mut lab = Lab { machine: StateMachine::new(), now_ms: 0, identities: vec![] };
    let mut compared = 0;
    for (number, line) in lines.enumerate() {
        let words: Vec<&str> = line.splitn(6, ' ').collect();
        match words[0] {
            "open" => {
                lab.open(sessions[words[1].parse::<usize>().unwrap()]);
            }
            "who" => {
                let identities = line.splitn(3, ' ').nth(2).unwrap().split(',');
                let identities = identities.map(|one| one.split_once(' ').unwrap());
                let identities = identities.map(|(scheme, id)| (scheme.to_owned(), id.to_owned()));
                who.insert(words[1].to_owned(), identities.collect::<Vec<_>>());
            }
            "close" => {
                let applied = lab.close(sessions[words[1].parse::<usize>().unwrap()]);
                assert_eq!((applied.zxid.0.to_string(), applied.error), (words[2].to_owned(), 0));
            }
            session => {
                let [_, number_of_code, body, zxid, error, reply] = words[..] else { panic!("{line}") };
                let code = OpCode::from_number(number_of_code.parse().unwrap()).unwrap();
                let request = (code, bytes(body));
                lab.identities = who[session].clone();
                let session = sessions[session.parse::<usize>().unwrap()];
                let is_write = matches!(code.number(), 1 | 2 | 5 | 7 | 13 | 14 | 15 | 19 | 21);
                let ours = if is_write {
                    let applied = lab.write_as(session, &request);
                    shown(code, applied.error, &applied.body.unwrap_or_default())
                } else {
                    let outcome = lab.read_as(session, &request);
                    shown(code, outcome.error, &outcome.body)
                };
                let theirs = shown(code, error.parse().unwrap(), &bytes(reply));
                let request = String::from_utf8_lossy(&request.1).into_owned();
                assert_eq!(ours, theirs, "line {}: {code:?} {request:?}", number + 2);
                assert_eq!(lab.machine.applied().0.to_string(), zxid, "line {}", number + 2);
                compared += 1;
            }
        }
    }
    let copy = restored(&snapshot_of(&mut lab.machine));
    assert_eq!(copy.digest(), lab.machine.digest());
    compared
}

#[test]
fn zookeeper_answered_the_same() {
    assert!(replay(RECORDED) > 500);
}

/// Replays another recording: `SILLON_RECORDED=FILE cargo test recorded -- --ignored`.
#[test]
#[ignore = "needs a file"]
fn zookeeper_answered_the_same_in_a_file() {
    #[expect(
        clippy::disallowed_methods,
        reason = "a tool for whoever has a ZooKeeper at hand, not a test of its own"
    )]
    let recorded = std::fs::read_to_string(std::env::var("SILLON_RECORDED").unwrap()).unwrap();
    println!("{} replies compared", replay(&recorded));
}
