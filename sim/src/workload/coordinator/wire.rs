//! Requests and replies of the oracle's words as bytes of ZooKeeper's protocol. Owns that translation; sends nothing.

use crate::oracle::coordinator::{Request, Response};
use sillon_protocol::zookeeper::{
    AddWatchMode, AddWatchRequest, Create2Response, CreateMode, CreateRequest, CreateTtlRequest, EventType,
    GetChildren2Response, GetDataResponse, Jute, JuteError, OpCode, PathRecord, PathVersionRequest,
    PathWatchRequest, Reader, RequestHeader, SetAclRequest, SetDataRequest, StatResponse, WatcherEvent,
    multi::{MultiHeader, next_header},
};

/// The operation that carries a request.
pub(super) fn operation(request: &Request) -> OpCode {
    match request {
        Request::Create { mode, .. } => match mode {
            CreateMode::Container => OpCode::CreateContainer,
            mode if mode.has_ttl() => OpCode::CreateTtl,
            _ => OpCode::Create2,
        },
        Request::Delete { .. } => OpCode::Delete,
        Request::SetData { .. } => OpCode::SetData,
        Request::SetAcl { .. } => OpCode::SetAcl,
        Request::Multi(_) => OpCode::Multi,
        Request::Check { .. } => OpCode::Check,
        Request::Exists { .. } => OpCode::Exists,
        Request::GetData { .. } => OpCode::GetData,
        Request::GetChildren { .. } => OpCode::GetChildren2,
        Request::Sync { .. } => OpCode::Sync,
        Request::AddWatch { .. } => OpCode::AddWatch,
        Request::CloseSession => OpCode::CloseSession,
    }
}

/// A request as it is sent, but for its length.
pub(super) fn encode(xid: i32, request: &Request) -> Vec<u8> {
    let mut out = RequestHeader { xid, operation: operation(request).number() }.to_bytes();
    body(request, &mut out);
    out
}

fn body(request: &Request, out: &mut Vec<u8>) {
    match request {
        Request::Create { path, data, acl, mode, ttl_ms } => {
            let (data, acl, flags) = (data.as_deref(), acl.clone(), mode.number());
            match ttl_ms {
                Some(ttl_ms) if mode.has_ttl() => {
                    CreateTtlRequest { path, data, acl, flags, ttl_ms: *ttl_ms }.write(out);
                }
                _ => CreateRequest { path, data, acl, flags }.write(out),
            }
        }
        Request::Delete { path, version } | Request::Check { path, version } => {
            PathVersionRequest { path, version: *version }.write(out);
        }
        Request::SetData { path, data, version } => {
            SetDataRequest { path, data: data.as_deref(), version: *version }.write(out);
        }
        Request::SetAcl { path, acl, version } => {
            SetAclRequest { path, acl: acl.clone(), version: *version }.write(out);
        }
        Request::Multi(requests) => {
            for request in requests {
                MultiHeader::of(operation(request).number()).write(out);
                body(request, out);
            }
            MultiHeader::END.write(out);
        }
        Request::Exists { path, watch }
        | Request::GetData { path, watch }
        | Request::GetChildren { path, watch } => PathWatchRequest { path, watch: *watch }.write(out),
        Request::Sync { path } => PathRecord { path }.write(out),
        Request::AddWatch { path, recursive } => {
            let mode = if *recursive { AddWatchMode::PersistentRecursive } else { AddWatchMode::Persistent };
            AddWatchRequest { path, mode: mode.number() }.write(out);
        }
        Request::CloseSession => {}
    }
}

/// The body of the reply to a request that succeeded.
pub(super) fn decode(request: &Request, reader: &mut Reader<'_>) -> Result<Response, JuteError> {
    Ok(match request {
        Request::Create { .. } => {
            let Create2Response { path, stat } = Create2Response::read(reader)?;
            Response::PathStat(path.to_string(), stat)
        }
        Request::SetData { .. } | Request::SetAcl { .. } | Request::Exists { .. } => {
            Response::Stat(StatResponse::read(reader)?.stat)
        }
        Request::GetData { .. } => {
            let GetDataResponse { data, stat } = GetDataResponse::read(reader)?;
            Response::Data(data.map(<[u8]>::to_vec), stat)
        }
        Request::GetChildren { .. } => {
            let GetChildren2Response { children, stat } = GetChildren2Response::read(reader)?;
            Response::Children(children.into_iter().map(str::to_string).collect(), stat)
        }
        Request::Sync { .. } => Response::Path(PathRecord::read(reader)?.path.to_string()),
        Request::Multi(requests) => Response::Multi(results(requests, reader)?),
        Request::Delete { .. } | Request::Check { .. } | Request::CloseSession => Response::Nothing,
        Request::AddWatch { .. } => {
            reader.take(4)?;
            Response::Nothing
        }
    })
}

fn results(requests: &[Request], reader: &mut Reader<'_>) -> Result<Vec<Result<Response, i32>>, JuteError> {
    let mut results = Vec::with_capacity(requests.len());
    let mut asked = requests.iter();
    while let Some(header) = next_header(reader)? {
        let request =
            asked.next().expect("a multi's reply has no more results than the multi had operations");
        if header.operation == OpCode::Error.number() {
            results.push(Err(i32::read(reader)?));
        } else {
            assert_eq!(
                header.operation,
                operation(request).number(),
                "results come in the order of operations"
            );
            results.push(Ok(decode(request, reader)?));
        }
    }
    Ok(results)
}

/// A watch's event. Those about the session's state alone are none.
pub(super) fn event(reader: &mut Reader<'_>) -> Result<Option<(EventType, String)>, JuteError> {
    let WatcherEvent { event_type, path, .. } = WatcherEvent::read(reader)?;
    Ok(EventType::from_number(event_type).map(|kind| (kind, path.to_string())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sillon_protocol::zookeeper::{Stat, records::open_acl};

    #[test]
    fn a_multi_says_each_operation_and_then_that_it_is_over() {
        let delete = Request::Delete { path: "/a".into(), version: 3 };
        let bytes = encode(7, &Request::Multi(vec![delete.clone()]));
        let mut reader = Reader::new(&bytes);
        let header = RequestHeader::read(&mut reader).expect("it is there");
        assert_eq!((header.xid, header.operation), (7, OpCode::Multi.number()));
        let of_delete = next_header(&mut reader).expect("it is there").expect("one operation");
        assert_eq!(of_delete.operation, OpCode::Delete.number());
        let body = PathVersionRequest::read(&mut reader).expect("it is there");
        assert_eq!((body.path, body.version), ("/a", 3));
        assert_eq!(next_header(&mut reader), Ok(None));
        assert!(reader.is_empty());
    }

    #[test]
    fn a_failed_multi_names_an_error_for_each_operation() {
        let mut bytes = Vec::new();
        for error in [0, -101] {
            MultiHeader::failed(error).write(&mut bytes);
            error.write(&mut bytes);
        }
        MultiHeader::END.write(&mut bytes);
        let check = |path: &str| Request::Check { path: path.into(), version: 1 };
        let request = Request::Multi(vec![check("/a"), check("/b")]);
        let response = decode(&request, &mut Reader::new(&bytes));
        assert_eq!(response, Ok(Response::Multi(vec![Err(0), Err(-101)])));
    }

    #[test]
    fn kinds_of_nodes_have_operations_of_their_own() {
        let create = |mode, ttl_ms| {
            let request = Request::Create { path: "/a".into(), data: None, acl: open_acl(), mode, ttl_ms };
            operation(&request)
        };
        assert_eq!(create(CreateMode::Ephemeral, None), OpCode::Create2);
        assert_eq!(create(CreateMode::Container, None), OpCode::CreateContainer);
        assert_eq!(create(CreateMode::PersistentWithTtl, Some(5)), OpCode::CreateTtl);
        let stat = StatResponse { stat: Stat::default() }.to_bytes();
        let exists = Request::Exists { path: "/a".into(), watch: true };
        assert_eq!(decode(&exists, &mut Reader::new(&stat)), Ok(Response::Stat(Stat::default())));
    }
}
