//! A controller takes over what lies there, whoever wrote it.

use super::*;

#[test]
fn damaged_nodes_are_left_alone_and_named() {
    let mut world = World::new(1);
    for name in ["t", "u", "v"] {
        world.create_on(name, &[&[1]], &[]);
    }
    world.tree.put("/brokers/topics/t", b"{".to_vec());
    world.tree.put("/brokers/topics/u/partitions/0/state", b"[]".to_vec());
    world.tree.put("/brokers/ids/7", b"?".to_vec());
    let loaded = world.tree.load(2);
    let paths: Vec<&str> = loaded.damaged.iter().map(|error| error.path.as_str()).collect();
    assert_eq!(paths, ["/brokers/ids/7", "/brokers/topics/t", "/brokers/topics/u/partitions/0/state"]);
    world.take_over();
    assert_eq!(world.controller.chores(), []);
    assert_eq!(world.controller.image().topics.len(), 1);
    let again = world.create_command("t", 1, 1);
    world.run(again).expect_err("its name is taken");
    world.tree.put("/admin/delete_topics/t", Vec::new());
    world.tree.put("/admin/delete_topics/u", Vec::new());
    world.run(Command::DeletionsFound(vec!["t".into(), "u".into()])).unwrap();
    assert!(!world.tree.has("/brokers/topics/t") && !world.tree.has("/brokers/topics/u"));
}

#[test]
fn states_that_cannot_be_are_not_believed() {
    let mut world = World::new(2);
    world.create_on("t", &[&[1, 2]], &[]);
    let state = br#"{"controller_epoch":1,"leader":9,"version":1,"leader_epoch":7,"isr":[9,2,2]}"#;
    world.tree.put("/brokers/topics/t/partitions/0/state", state.to_vec());
    world.take_over();
    world.do_chores();
    assert_eq!(world.brief("t", 0), (2, vec![2], vec![]));
    assert_eq!(world.state("t", 0).leader_epoch.0, 8);
}

#[test]
fn deletion_that_is_switched_off_takes_only_the_mark_away() {
    let mut world = World::with_file("delete.topic.enable=false");
    world.register(1, false);
    world.create_on("t", &[&[1]], &[]);
    world.tree.put("/admin/delete_topics/t", Vec::new());
    world.epoch += 1;
    world.controller = Controller::new(world.tree.load(2), world.settings.clone());
    assert!(world.controller.image().topic("t").is_some());
    world.do_chores();
    assert!(!world.tree.has("/admin/delete_topics/t"));
    assert!(world.controller.image().topic("t").is_some());
}

#[test]
fn what_is_missing_in_the_middle_of_a_topic_is_made_again() {
    let mut world = World::new(1);
    world.create_on("t", &[&[1], &[1], &[1]], &[]);
    world.tree.nodes.remove("/brokers/topics/t/partitions/1/state");
    world.take_over();
    world.do_chores();
    assert_eq!(world.controller.image().topic("t").unwrap().partitions.len(), 3);
}

#[test]
fn values_that_may_not_be_are_not_taken() {
    let mut world = World::new(1);
    world.create_on("t", &[&[1]], &[("retention.ms", "5")]);
    let configs = |min: &str| {
        let values = [("min.insync.replicas", min), ("retention.ms", "6"), ("not.known.here", "7")];
        layout::encode_configs(&values.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect())
    };
    world.tree.put("/config/topics/t", configs("many"));
    world.tree.put("/config/brokers/<default>", configs("0"));
    world.tree.put("/config/brokers/1", b"{".to_vec());
    world.tree.put("/sillon/processed/1", b"x".to_vec());
    world.take_over();
    world.do_chores();
    assert_eq!(world.brief("t", 0), (1, vec![1], vec![]));
    let image = world.controller.image();
    assert_eq!(image.topic("t").unwrap().configs.len(), 2);
    assert!(!image.broker_config(crate::metadata::image::ALL_BROKERS).contains_key("min.insync.replicas"));
}
