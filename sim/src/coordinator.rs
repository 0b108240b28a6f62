//! What the simulator uses of the coordinator's crate, under one name.

pub use stand_in::{CoordinatorConfig, run};

mod stand_in {
    use sillon_coordinator::observe::Observers;
    use sillon_runtime::Runtime;

    #[derive(Clone, Debug)]
    pub struct CoordinatorConfig;

    impl CoordinatorConfig {
        pub fn from_text(
            text: &str,
            _: &str,
            _: Option<&str>,
        ) -> Result<(CoordinatorConfig, Vec<String>), String> {
            let known = [
                "tickTime",
                "initLimit",
                "syncLimit",
                "snapCount",
                "dataDir",
                "clientPort",
                "maxClientCnxns",
            ];
            for line in text.lines() {
                let Some((key, value)) = line.split_once('=') else { return Err(format!("no = in {line}")) };
                if key == "tickTime" && value.parse::<u32>().is_err() {
                    return Err(format!("{key}: {value} is no number"));
                }
                if !known.contains(&key) && !key.starts_with("server.") {
                    return Ok((CoordinatorConfig, vec![format!("{key} is not supported")]));
                }
            }
            Ok((CoordinatorConfig, Vec::new()))
        }
    }

    pub async fn run(
        _: Runtime,
        _: CoordinatorConfig,
        _: Observers,
        stop: impl Future<Output = ()> + Send,
    ) -> Result<(), String> {
        stop.await;
        Ok(())
    }
}
