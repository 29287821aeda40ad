//! Makes a case that differs short: leaves out ever smaller runs of its steps as long as it still differs.

use crate::case::{self, Server};
use crate::ops::Step;
use std::fmt::Write;

/// Cases run at most.
const TRIES_MAX: usize = 150;

/// The shortest story found, and the difference it ends on.
pub(crate) async fn shortest(server: &Server, mut steps: Vec<Step>) -> String {
    let Some(mut difference) = case::run(server, &steps).await.difference else {
        return "differed once, and not when run again".to_string();
    };
    let (mut tries, mut size) = (0, steps.len());
    while size > 0 && tries < TRIES_MAX {
        let mut at = 0;
        while at < steps.len() && tries < TRIES_MAX {
            let mut fewer = steps.clone();
            fewer.drain(at..(at + size).min(steps.len()));
            tries += 1;
            match case::run(server, &fewer).await.difference {
                Some(found) => (steps, difference) = (fewer, found),
                None => at += size,
            }
        }
        size /= 2;
    }
    let mut story = String::new();
    for step in &steps {
        let _ = writeln!(story, "  {step:?}");
    }
    let _ = writeln!(story, "  differs at {difference:?}");
    story
}
