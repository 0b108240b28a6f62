//! Several operations in one request: writes that happen together or not at all, and reads of one moment.
//!
//! Owns their form. Each operation's result comes in the place of its operation.

use super::{
    Client, ClientError,
    node::{Created, DataAndStat, NewNode},
    pending::{Pending, Reply},
    reads::owned,
    session::{Extra, RawReply},
    to_client, to_server,
    writes::ANY_VERSION,
};
use crate::types::Zxid;
use sillon_protocol::zookeeper::{
    Create2Response, ErrorCode, ErrorResponse, GetChildrenResponse, GetDataResponse, Jute, JuteError, OpCode,
    PathRecord, PathVersionRequest, PathWatchRequest, Reader, SetDataRequest, Stat, StatResponse,
    multi::{MultiHeader, next_header},
};

/// Writes that happen together or not at all.
#[derive(Clone, Debug, Default)]
pub struct Multi<'a>(Vec<Write<'a>>);

#[derive(Clone, Debug)]
enum Write<'a> {
    Create(NewNode<'a>),
    Delete(&'a str, i32),
    SetData(&'a str, Option<&'a [u8]>, i32),
    Check(&'a str, i32),
}

impl<'a> Multi<'a> {
    /// No writes.
    pub fn new() -> Multi<'a> {
        Multi::default()
    }

    /// Creates a node.
    pub fn create(mut self, node: NewNode<'a>) -> Multi<'a> {
        self.0.push(Write::Create(node));
        self
    }

    /// Deletes a node that has no children, where its version is the given one or none is given.
    pub fn delete(mut self, path: &'a str, version: Option<i32>) -> Multi<'a> {
        self.0.push(Write::Delete(path, version.unwrap_or(ANY_VERSION)));
        self
    }

    /// Writes a node's data, where its version is the given one or none is given.
    pub fn set_data(mut self, path: &'a str, data: Option<&'a [u8]>, version: Option<i32>) -> Multi<'a> {
        self.0.push(Write::SetData(path, data, version.unwrap_or(ANY_VERSION)));
        self
    }

    /// Checks that a node exists and has that version, where one is given.
    pub fn check(mut self, path: &'a str, version: Option<i32>) -> Multi<'a> {
        self.0.push(Write::Check(path, version.unwrap_or(ANY_VERSION)));
        self
    }

    /// How many writes there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none. An empty multi is legal.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn body(&self, chroot: &str) -> Result<Vec<u8>, ClientError> {
        let mut out = Vec::new();
        for write in &self.0 {
            let (operation, body) = match write {
                Write::Create(node) => node.request(&to_server(chroot, node.path())?, true),
                Write::Delete(path, version) => {
                    let request = PathVersionRequest { path: &to_server(chroot, path)?, version: *version };
                    (OpCode::Delete, request.to_bytes())
                }
                Write::SetData(path, data, version) => {
                    let path = &to_server(chroot, path)?;
                    (OpCode::SetData, SetDataRequest { path, data: *data, version: *version }.to_bytes())
                }
                Write::Check(path, version) => {
                    let request = PathVersionRequest { path: &to_server(chroot, path)?, version: *version };
                    (OpCode::Check, request.to_bytes())
                }
            };
            MultiHeader::of(operation.number()).write(&mut out);
            out.extend_from_slice(&body);
        }
        MultiHeader::END.write(&mut out);
        Ok(out)
    }
}

/// What one write of a multi did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MultiResult {
    /// It created a node.
    Created(Created),
    /// It deleted a node.
    Deleted,
    /// It wrote a node, which looks like this now.
    DataSet(Stat),
    /// The node has the version.
    Checked,
}

/// Reads of one moment.
#[derive(Clone, Debug, Default)]
pub struct MultiRead<'a>(Vec<(OpCode, &'a str)>);

impl<'a> MultiRead<'a> {
    /// No reads.
    pub fn new() -> MultiRead<'a> {
        MultiRead::default()
    }

    /// Reads a node.
    pub fn get_data(mut self, path: &'a str) -> MultiRead<'a> {
        self.0.push((OpCode::GetData, path));
        self
    }

    /// Lists a node's children.
    pub fn get_children(mut self, path: &'a str) -> MultiRead<'a> {
        self.0.push((OpCode::GetChildren, path));
        self
    }

    fn body(&self, chroot: &str) -> Result<Vec<u8>, ClientError> {
        let mut out = Vec::new();
        for (operation, path) in &self.0 {
            MultiHeader::of(operation.number()).write(&mut out);
            PathWatchRequest { path: &to_server(chroot, path)?, watch: false }.write(&mut out);
        }
        MultiHeader::END.write(&mut out);
        Ok(out)
    }
}

/// What one read found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadResult {
    /// A node's data.
    Data(DataAndStat),
    /// The names of a node's children, in no order.
    Children(Vec<String>),
}

impl Client {
    /// Sends several writes that happen together or not at all. Gives one result for each.
    ///
    /// A failure of one is [`ClientError::MultiFailed`].
    pub fn multi(&self, multi: &Multi<'_>) -> Pending<Vec<MultiResult>> {
        let body = match multi.body(&self.0.chroot) {
            Ok(body) => body,
            Err(error) => return Pending::refused(error),
        };
        let chroot = self.0.chroot.clone();
        let receiver = self.submit(OpCode::Multi, body, Extra::Nothing, None);
        Pending::deciding(receiver, move |outcome| {
            let RawReply { zxid, body } = outcome?;
            let results =
                read_results(OpCode::Multi, &body, |header, reader| read_write(header, reader, &chroot))?;
            Ok(Reply { zxid, value: all_or_none(results, zxid)? })
        })
    }

    /// Sends several reads of one moment. Gives one result for each, whatever became of the others.
    pub fn multi_read(&self, reads: &MultiRead<'_>) -> Pending<Vec<Result<ReadResult, ErrorCode>>> {
        let body = match reads.body(&self.0.chroot) {
            Ok(body) => body,
            Err(error) => return Pending::refused(error),
        };
        self.ask(OpCode::MultiRead, body, |body| {
            let results = read_results(OpCode::MultiRead, body, read_read)?;
            let as_error = |number| ErrorCode::from_number(number).unwrap_or(ErrorCode::Other(0));
            Ok(results.into_iter().map(|result| result.map_err(as_error)).collect())
        })
    }
}

/// Reads results up to the end: a result, or an error's number, for each operation. `read` gives `None` for an
/// operation that the request cannot have had.
fn read_results<T>(
    operation: OpCode,
    body: &[u8],
    mut read: impl FnMut(OpCode, &mut Reader<'_>) -> Result<Option<T>, JuteError>,
) -> Result<Vec<Result<T, i32>>, ClientError> {
    let malformed = |source| ClientError::Malformed { operation, source };
    let mut reader = Reader::new(body);
    let mut results = Vec::new();
    while let Some(header) = next_header(&mut reader).map_err(malformed)? {
        let wrong = ClientError::WrongResult { operation, found: header.operation };
        results.push(match OpCode::from_number(header.operation) {
            Some(OpCode::Error) => Err(ErrorResponse::read(&mut reader).map_err(malformed)?.error),
            Some(found) => Ok(read(found, &mut reader).map_err(malformed)?.ok_or(wrong)?),
            None => return Err(wrong),
        });
    }
    Ok(results)
}

fn read_write(
    found: OpCode,
    reader: &mut Reader<'_>,
    chroot: &str,
) -> Result<Option<MultiResult>, JuteError> {
    Ok(Some(match found {
        OpCode::Create => {
            let PathRecord { path } = PathRecord::read(reader)?;
            MultiResult::Created(Created { path: to_client(chroot, path), stat: Stat::default() })
        }
        OpCode::Create2 | OpCode::CreateContainer | OpCode::CreateTtl => {
            let Create2Response { path, stat } = Create2Response::read(reader)?;
            MultiResult::Created(Created { path: to_client(chroot, path), stat })
        }
        OpCode::Delete => MultiResult::Deleted,
        OpCode::SetData => MultiResult::DataSet(StatResponse::read(reader)?.stat),
        OpCode::Check => MultiResult::Checked,
        _ => return Ok(None),
    }))
}

fn read_read(found: OpCode, reader: &mut Reader<'_>) -> Result<Option<ReadResult>, JuteError> {
    Ok(Some(match found {
        OpCode::GetData => {
            let GetDataResponse { data, stat } = GetDataResponse::read(reader)?;
            ReadResult::Data(DataAndStat { data: data.map(<[u8]>::to_vec), stat })
        }
        OpCode::GetChildren => {
            let GetChildrenResponse { children } = GetChildrenResponse::read(reader)?;
            ReadResult::Children(owned(&children))
        }
        _ => return Ok(None),
    }))
}

/// All results, or the failure: the first operation whose number is not 0.
fn all_or_none(results: Vec<Result<MultiResult, i32>>, zxid: Zxid) -> Result<Vec<MultiResult>, ClientError> {
    if results.iter().all(Result::is_ok) {
        return Ok(results.into_iter().filter_map(Result::ok).collect());
    }
    let codes: Vec<i32> = results.iter().map(|result| result.as_ref().err().copied().unwrap_or(0)).collect();
    let index = codes.iter().position(|code| *code != 0).unwrap_or(0);
    let code = ErrorCode::from_number(codes[index]).unwrap_or(ErrorCode::Other(0));
    Err(ClientError::MultiFailed { index, code, codes, zxid })
}
