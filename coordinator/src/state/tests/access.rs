//! Access lists.

use super::*;

const NO_AUTH: i32 = -102;
const INVALID: i32 = -114;

fn with_acl(path: &str, list: Vec<Acl>) -> Request {
    create_with(OpCode::Create, path, Some(b""), 0, list)
}

fn user(name: &str) -> (String, String) {
    ("digest".to_owned(), name.to_owned())
}

#[test]
fn which_entries_are_valid() {
    let mut lab = Lab::new();
    let valid = [
        ("world", "anyone"),
        ("digest", ":b"),
        ("digest", "a:b"),
        ("digest", "a:b::"),
        ("ip", "1.2.3.4"),
        ("ip", "1.2.3.4/0"),
        ("ip", "1.2.3.4/32"),
        ("ip", "+1.-0.3.4/+8"),
    ];
    for (number, (scheme, id)) in valid.into_iter().enumerate() {
        assert_eq!(lab.error(with_acl(&format!("/{number}"), vec![acl(31, scheme, id)])), 0, "{scheme} {id}");
    }
    let invalid = [
        ("world", "x"),
        ("digest", "a"),
        ("digest", "a:"),
        ("digest", "a::b"),
        ("digest", "a:b:c"),
        ("digest", ""),
        ("ip", "1.2.3"),
        ("ip", "1.2.3.4.5"),
        ("ip", "256.1.1.1"),
        ("ip", "1.2.3.4/33"),
        ("ip", "1.2.3.4/-1"),
        ("ip", "1.2.3.4/"),
        ("ip", "::1"),
        ("auth", ""),
        ("x509", "CN=a"),
        ("sasl", "a"),
        ("super", "a"),
        ("", ""),
    ];
    for (scheme, id) in invalid {
        assert_eq!(lab.error(with_acl("/x", vec![acl(31, scheme, id)])), INVALID, "{scheme} {id}");
    }
    assert_eq!(lab.error(with_acl("/x", vec![])), INVALID);
}

#[test]
fn auth_becomes_the_callers_own_identities_and_duplicates_are_merged() {
    let mut lab = Lab::new();
    lab.identities.extend([user("ann:x1"), user("bob:x2")]);
    let (world, auth) = (acl(1, "world", "anyone"), acl(31, "auth", ""));
    let asked = vec![auth.clone(), world.clone(), auth, world.clone(), acl(2, "auth", "whatever")];
    lab.ok(with_acl("/a", asked));
    let both = |permissions| [acl(permissions, "digest", "ann:x1"), acl(permissions, "digest", "bob:x2")];
    let expected = [both(31).as_slice(), &[world], &both(2)].concat();
    assert_eq!(&**lab.machine.node("/a").unwrap().acl, expected);
}

#[test]
fn what_each_operation_needs() {
    let mut lab = Lab::new();
    let permissions =
        [permission::READ, permission::WRITE, permission::CREATE, permission::DELETE, permission::ADMIN];
    for permission in permissions {
        let path = format!("/p{permission}");
        lab.ok(with_acl(&path, vec![acl(31, "digest", "ann:x"), acl(permission, "world", "anyone")]));
        lab.identities.push(user("ann:x"));
        lab.ok(create(&format!("{path}/old"), b"", 0));
        lab.identities.pop();
        let expected = |needed: i32| if permission & needed != 0 { 0 } else { NO_AUTH };
        for code in [OpCode::Exists, OpCode::GetData, OpCode::GetChildren, OpCode::GetChildren2] {
            assert_eq!(lab.read(read(code, &path)).error, expected(permission::READ), "{code:?}");
        }
        assert_eq!(lab.read(read(OpCode::GetAllChildrenNumber, &path)).error, expected(permission::READ));
        let to_see_the_list = expected(permission::READ | permission::ADMIN);
        assert_eq!(lab.read(read(OpCode::GetAcl, &path)).error, to_see_the_list);
        assert_eq!(lab.results(&[check(&path, -1)]), [expected(permission::READ)]);
        assert_eq!(lab.error(set_data(&path, b"", -1)), expected(permission::WRITE));
        assert_eq!(lab.error(create(&format!("{path}/new"), b"", 0)), expected(permission::CREATE));
        assert_eq!(lab.error(delete(&format!("{path}/old"), -1)), expected(permission::DELETE));
        assert_eq!(lab.machine.may_read(&path, &[]), Some(permission == permission::READ));
        let unchanged = vec![acl(permission, "world", "anyone")];
        assert_eq!(lab.error(set_acl(&path, unchanged, -1)), expected(permission::ADMIN));
    }
    assert_eq!(lab.machine.may_read("/none", &[]), None);
}

#[test]
fn permission_comes_before_versions_and_after_existence() {
    let mut lab = Lab::new();
    lab.ok(with_acl("/a", vec![acl(0, "world", "anyone")]));
    assert_eq!(lab.error(set_data("/a", b"", 9)), NO_AUTH);
    assert_eq!(lab.error(set_acl("/a", open_acl(), 9)), NO_AUTH);
    assert_eq!(lab.error(set_acl("/a", vec![], 9)), INVALID);
    assert_eq!(lab.error(delete("/a/none", 9)), NO_AUTH);
    assert_eq!(lab.error(create("/a/..", b"", 0)), NO_AUTH);
    // The right to delete is the parent's to give.
    assert_eq!(lab.error(delete("/a", 0)), 0);
}

#[test]
fn addresses_match_by_their_first_bits() {
    let mut lab = Lab::new();
    let ranges = [
        ("127.0.0.1", 0),
        ("127.9.9.9/8", 0),
        ("127.9.9.9/9", 0),
        ("127.9.9.9/16", NO_AUTH),
        ("128.9.9.9/0", 0),
        ("127.0.0.2", NO_AUTH),
    ];
    for (range, error) in ranges {
        let path = format!("/{}", range.replace('/', "-"));
        lab.ok(with_acl(&path, vec![acl(1, "ip", range)]));
        assert_eq!(lab.read(read(OpCode::Exists, &path)).error, error, "{range}");
    }
}

#[test]
fn super_may_do_everything() {
    let mut lab = Lab::new();
    lab.ok(with_acl("/a", vec![acl(0, "digest", "ann:x")]));
    assert_eq!(lab.read(read(OpCode::GetData, "/a")).error, NO_AUTH);
    lab.identities.push(("super".to_owned(), String::new()));
    assert_eq!(lab.read(read(OpCode::GetData, "/a")).error, 0);
    assert_eq!(lab.error(set_data("/zookeeper/config", b"x", 0)), 0);
    assert_eq!(
        lab.error(with_acl("/b", vec![acl(31, "auth", "")])),
        INVALID,
        "super is no identity for a list"
    );
}

#[test]
fn who_may_not_change_a_list_does_not_see_what_proves_identities() {
    let mut lab = Lab::new();
    lab.ok(with_acl("/a", vec![acl(31, "digest", "ann:secret:"), acl(1, "world", "anyone")]));
    let shown = |lab: &Lab| {
        let body = lab.read(read(OpCode::GetAcl, "/a")).body;
        Vec::<Acl>::read(&mut Reader::new(&body)).unwrap()[0].identity.id.clone()
    };
    assert_eq!(shown(&lab), "ann:x");
    lab.identities.push(user("ann:secret:"));
    assert_eq!(shown(&lab), "ann:secret:");
}

#[test]
fn an_event_is_told_to_those_who_may_read_the_node() {
    let mut lab = Lab::new();
    lab.identities.push(user("ann:x"));
    let ann = [Identity::new("digest", "ann:x")];
    let applied = lab.ok(with_acl("/a", vec![acl(31, "auth", "")]));
    let [created, children] = applied.events.as_slice() else { panic!("{applied:?}") };
    assert!(created.is_told_to(&ann) && !created.is_told_to(&[]));
    assert!(children.is_told_to(&[]), "the parent is open");
    let applied = lab.ok(delete("/a", 0));
    assert!(!applied.events[0].is_told_to(&[]), "the list as it was");
}
