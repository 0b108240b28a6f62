//! Scenarios of the controller, by topic.
