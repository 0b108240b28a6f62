//! Files as people write them, and what comes of them.

use super::*;

fn read(text: &str) -> (CoordinatorConfig, Vec<String>) {
    let (config, warnings) = CoordinatorConfig::from_text(text, "zoo.cfg", None).unwrap();
    (config, warnings.iter().map(Warning::to_string).collect())
}

fn refused(text: &str, myid: Option<&str>) -> String {
    CoordinatorConfig::from_text(text, "zoo.cfg", myid).unwrap_err().to_string()
}

const THREE: &str = "server.1=n1:2888:3888\nserver.2=n2:2888:3888\nserver.3=n3:2888:3888\n";

#[test]
fn the_defaults_are_a_standalone_server() {
    let config = CoordinatorConfig::default();
    assert!(config.is_standalone());
    assert_eq!(config.member, STANDALONE_MEMBER);
    assert_eq!(config.client_addresses, [HostPort { host: String::new(), port: 2181 }]);
    assert_eq!((config.min_session_timeout_ms, config.max_session_timeout_ms), (4000, 40_000));
    assert_eq!((config.election_timeout_ms, config.heartbeat_interval_ms), (500, 50));
    assert_eq!(config.request_max_bytes, 0xf_ffff);
    assert_eq!(config.connections_per_address, Some(60));
    assert_eq!(config.log_directory, config.data_directory);
    assert_eq!(
        (config.metrics_address, config.super_digest, config.purge_interval_hours),
        (None, None, None)
    );
    assert!(config.command_whitelist.allows("srvr") && !config.command_whitelist.allows("ruok"));
}

#[test]
fn an_ensemble_as_zookeepers_guide_shows_it() {
    let text = "tickTime=3000\ndataDir=/var/zk/\nclientPort=2182\ninitLimit=5\nsyncLimit=2\nautopurge.purgeInterval=1\n\
                4lw.commands.whitelist=*\nadmin.enableServer=false\nstandaloneEnabled=true\nmaxClientCnxns=0\n";
    let text = format!("{text}{THREE}");
    let (config, warnings) = CoordinatorConfig::from_text(&text, "zoo.cfg", Some(" 2\n")).unwrap();
    assert_eq!(warnings, []);
    assert_eq!(config.member, MemberId(2));
    assert_eq!(config.peer_address().unwrap().to_string(), "n2:2888");
    assert_eq!(config.members[&MemberId(3)].election_port, Some(3888));
    assert_eq!((config.min_session_timeout_ms, config.max_session_timeout_ms), (6000, 60_000));
    assert_eq!((config.init_limit_ticks, config.sync_limit_ticks), (5, 2));
    assert_eq!((config.connections_per_address, config.purge_interval_hours), (None, Some(1)));
    assert!(config.command_whitelist.allows("ruok"));
    assert_eq!(CoordinatorConfig::data_directory_of(&text), PathBuf::from("/var/zk/"));
}

#[test]
fn a_bad_value_names_file_line_key_and_what_is_allowed() {
    assert_eq!(
        refused("dataDir=/a\ntickTime=fast\n", None),
        "zoo.cfg:2: invalid value \"fast\" for tickTime: a whole number from 1 to 107374182 is expected"
    );
    assert_eq!(
        refused("zookeeper.extendedTypesEnabled=maybe", None),
        "zoo.cfg:1: invalid value \"maybe\" for zookeeper.extendedTypesEnabled: true or false is expected"
    );
    assert!(refused("minSessionTimeout=9000\nmaxSessionTimeout=8000", None).contains("may not be above"));
    assert!(
        refused("maxSessionTimeout=3000", None)
            .starts_with("zoo.cfg:1: invalid value \"3000\" for maxSessionTimeout")
    );
    assert!(refused("sillon.electionTimeoutMs=100", None).contains("150"));
    assert!(refused("server.0=n1:2888:3888", None).contains("server.N with N from 1 to 255"));
    assert!(refused("server.1=n1:2888:3888:observer", None).contains("observers are not available"));
    assert!(refused("server.1=n1:1\nserver.2=n1:1", None).contains("server.1 has the same"));
}

#[test]
fn what_would_be_unsafe_to_ignore_is_refused() {
    for text in [
        "sslQuorum=true",
        "peerType=observer",
        "dynamicConfigFile=/etc/zoo.dynamic",
        "group.1=1:2:3",
        "weight.1=0",
        "authProvider.1=com.example.Provider",
        "sessionRequireClientSASLAuth=true",
    ] {
        assert!(refused(text, None).starts_with("zoo.cfg:1: invalid value"), "{text}");
    }
    assert_eq!(read("sslQuorum=false\npeerType=participant\nweight.1=1").1, Vec::<String>::new());
}

#[test]
fn a_key_that_is_not_honoured_is_a_warning_with_the_nearest_name() {
    let (_, warnings) = read(
        "ticktime=5\nskipACL=yes\nzookeeper.admin.serverPort=8080\nreconfigEnabled=false\nbananas=1\nsnapCount=5\nsnapCount=6",
    );
    assert_eq!(
        warnings,
        [
            "zoo.cfg:1: ticktime is not supported and is ignored; did you mean tickTime?",
            "zoo.cfg:2: skipACL is ignored: access lists always count",
            "zoo.cfg:3: zookeeper.admin.serverPort is ignored: there is no admin server",
            "zoo.cfg:5: bananas is not supported and is ignored",
            "zoo.cfg:7: snapCount was set before at zoo.cfg:6; the later value counts",
        ]
    );
}

#[test]
fn who_this_is_comes_from_myid() {
    let member = |text: &str, myid| CoordinatorConfig::from_text(text, "zoo.cfg", myid).unwrap().0.member;
    assert_eq!(member(THREE, Some("3")), MemberId(3));
    assert_eq!(member(&format!("{THREE}myid=2"), None), MemberId(2));
    assert_eq!(member(&format!("{THREE}myid=2"), Some("1")), MemberId(1), "the file goes before the key");
    assert_eq!(member("server.7=n1:2888:3888", None), MemberId(7), "there is only one");
    assert_eq!(
        refused(THREE, None),
        "zoo.cfg: invalid value \"\" for myid: the number of this member's server.N line is expected, one of 1, 2, 3"
    );
    assert_eq!(
        refused(THREE, Some("4")),
        "myid: invalid value \"4\" for myid: the number of a server.N line is expected, one of 1, 2, 3"
    );
    assert!(refused(THREE, Some("two")).contains("a number from 1 to 255"));
    let (_, warnings) = CoordinatorConfig::from_text("", "zoo.cfg", Some("4")).unwrap();
    assert!(warnings[0].to_string().contains("standalone"));
}

#[test]
fn clients_connect_where_the_keys_or_the_members_line_say() {
    let address = |text: &str| read(text).0.client_addresses[0].to_string();
    assert_eq!(address("clientPort=1\nclientPortAddress=0.0.0.0"), ":1");
    assert_eq!(address("clientPort=1\nclientPortAddress=::1"), "[::1]:1");
    assert_eq!(address("server.1=n1:2888:3888;10.0.0.1:5"), "10.0.0.1:5");
    assert_eq!(address("clientPort=5\nserver.1=n1:2888:3888;5"), ":5");
    assert!(refused("clientPort=6\nserver.1=n1:2888:3888;5", None).contains("5 is expected"));
    assert!(refused("clientPortAddress=n2\nserver.1=n1:2888:3888;n1:5", None).contains("n1:5"));
}

#[test]
fn metrics_are_served_with_the_provider_or_with_a_port() {
    let address = |text: &str| read(text).0.metrics_address.map(|address| address.to_string());
    let class = "metricsProvider.className=org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider";
    assert_eq!(address(class), Some(":7000".to_owned()));
    assert_eq!(
        address("metricsProvider.httpPort=9\nmetricsProvider.httpHost=::1"),
        Some("[::1]:9".to_owned())
    );
    assert_eq!(
        address("metricsProvider.className=org.apache.zookeeper.metrics.impl.DefaultMetricsProvider"),
        None
    );
    assert!(read("metricsProvider.className=com.example.Other").1[0].contains("is not available"));
}

#[test]
fn the_super_digest_has_three_names_and_is_never_shown() {
    for name in [
        "superDigest",
        "zookeeper.DigestAuthenticationProvider.superDigest",
        "DigestAuthenticationProvider.superDigest",
    ] {
        let (config, warnings) = read(&format!("{name}=super:abc="));
        assert_eq!(config.super_digest.as_deref(), Some("super:abc="));
        assert_eq!(config.effective()["DigestAuthenticationProvider.superDigest"], "(hidden)");
        assert_eq!(warnings, Vec::<String>::new());
    }
    assert!(!refused("superDigest=hunter2", None).contains("hunter2"));
}

#[test]
fn the_values_in_force_are_printed_under_their_names() {
    let (config, warnings) = read(
        "tickTime=1000\nautopurge.snapRetainCount=1\nserver.1=n1:2888:3888;5\n4lw.commands.whitelist=ruok,srvx",
    );
    let effective = config.effective();
    for (key, value) in [
        ("tickTime", "1000"),
        ("maxSessionTimeout", "20000"),
        ("autopurge.snapRetainCount", "3"),
        ("server.1", "n1:2888:3888"),
        ("myid", "1"),
        ("dataLogDir", "data/coordinator"),
        ("jute.maxbuffer", "0xfffff"),
    ] {
        assert_eq!(effective[key], value, "{key}");
    }
    assert!(warnings[0].contains("raised to 3") && warnings[1].contains("srvx is none of"));
}

#[test]
fn an_even_ensemble_is_a_warning() {
    let (_, warnings) =
        CoordinatorConfig::from_text("server.1=a:1\nserver.2=b:1", "zoo.cfg", Some("1")).unwrap();
    assert_eq!(warnings[0].text, "2 members endure the loss of no more of them than 1 do");
}

proptest::proptest! {
    #[test]
    fn random_text_never_panics(text in "([a-z0-9.=:;\\\\\n \\[\\]|#-]|server\\.|myid|clientPort){0,60}", myid in ".{0,4}") {
        let _ = CoordinatorConfig::from_text(&text, "zoo.cfg", Some(&myid));
    }
}
