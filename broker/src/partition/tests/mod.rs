//! Scenarios of replicas: the pure states one by one, and several of them together against a model.

mod follower;
mod leader;
mod model;
