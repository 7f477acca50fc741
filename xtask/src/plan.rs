//! Selects the steps of a run, and decides which step starts next.

use crate::step::{BUILD, Share, Step, Tier};
use anyhow::{Result, bail};
use std::collections::BTreeSet;

/// The steps that the user wants.
#[derive(Debug, Clone)]
pub(crate) struct Selection {
    /// Names of steps, or the beginnings of several names, such as `python`. Empty for all steps of the tier.
    pub(crate) only: Vec<String>,
    pub(crate) tier: Tier,
    /// Whether the server is already built.
    pub(crate) has_program: bool,
}

/// Returns the selected steps, and those that provide something for them, in the order of the table.
pub(crate) fn select(all: Vec<Step>, selection: &Selection) -> Result<Vec<Step>> {
    let mut wanted: BTreeSet<&str> = BTreeSet::new();
    if selection.only.is_empty() {
        wanted.extend(all.iter().filter(|step| step.tier <= selection.tier).map(|step| step.name));
    }
    for name in &selection.only {
        wanted.extend(named(&all, name)?);
    }
    // A step stands below those that it uses, so one pass from the last to the first finds all.
    for step in all.iter().rev() {
        if wanted.contains(step.name) {
            wanted.extend(&step.after);
        }
    }
    let is_built = |step: &Step| selection.has_program && step.name == BUILD;
    let wanted: Vec<bool> = all.iter().map(|step| wanted.contains(step.name) && !is_built(step)).collect();
    Ok(all.into_iter().zip(wanted).filter_map(|(step, is_wanted)| is_wanted.then_some(step)).collect())
}

/// Returns the names of the step with a name, or else of the steps whose names begin with it and a hyphen.
fn named<'s>(all: &'s [Step], name: &str) -> Result<Vec<&'s str>> {
    let exact: Vec<_> = all.iter().map(|step| step.name).filter(|known| *known == name).collect();
    let begins = |known: &&str| known.strip_prefix(name).is_some_and(|rest| rest.starts_with('-'));
    let found = if exact.is_empty() { all.iter().map(|step| step.name).filter(begins).collect() } else { exact };
    if found.is_empty() {
        bail!("there is no step {name}; cargo xtask test --list shows the steps");
    }
    Ok(found)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Waiting,
    Running,
    Passed,
    Failed,
}

impl State {
    fn is_done(self) -> bool {
        matches!(self, Self::Passed | Self::Failed)
    }
}

/// Returns the index of the step that starts next, or `None` if none can start, or none before another one ends.
///
/// The quick steps all run, even if one fails. The other steps follow if all quick steps passed, until one fails. They
/// start in the order of the plan, except that a step that needs the whole machine waits until no other step can start.
/// Otherwise, processors would be idle while it waits for the steps that run.
pub(crate) fn next(plan: &[Step], states: &[State], processors: usize) -> Option<usize> {
    let steps = || plan.iter().zip(states.iter().copied());
    let has_failed = steps().any(|(_, state)| state == State::Failed);
    let is_quick_done = steps().all(|(step, state)| step.tier != Tier::Quick || state.is_done());
    let is_due = |step: &Step| step.tier == Tier::Quick || (is_quick_done && !has_failed);
    let is_ready = |step: &Step| steps().all(|(other, state)| state.is_done() || !step.after.contains(&other.name));
    let running: Vec<_> = steps().filter(|(_, state)| *state == State::Running).map(|(step, _)| step).collect();
    if running.len() >= processors.max(1) || running.iter().any(|step| step.share == Share::Whole) {
        return None;
    }
    let is_locked = |step: &Step| step.lock.is_some() && running.iter().any(|other| other.lock == step.lock);
    let can_start = |step: &Step| is_due(step) && is_ready(step) && !is_locked(step);
    let has_place = |step: &Step| step.share == Share::OneProcessor || running.is_empty();
    steps().position(|(step, state)| state == State::Waiting && can_start(step) && has_place(step))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steps;

    fn plan() -> Vec<Step> {
        vec![
            Step::new("format", "").tier(Tier::Quick),
            Step::new("links", "").tier(Tier::Quick),
            Step::new(BUILD, "").on_whole_machine(),
            Step::new("lints", "").on_whole_machine(),
            Step::new("suite-memory", "").after(&[BUILD]),
            Step::new("suite-citus", "").tier(Tier::All).after(&[BUILD]),
            Step::new("table", "").after(&["suite-memory"]),
            Step::new("java-one", "").lock("maven"),
            Step::new("java-two", "").lock("maven"),
            Step::new("fuzz", "").tier(Tier::All),
        ]
    }

    #[track_caller]
    fn check(selection: &Selection, expected: &[&str]) {
        let selected = select(plan(), selection).unwrap();
        assert_eq!(selected.iter().map(|step| step.name).collect::<Vec<_>>(), expected, "{selection:?}");
    }

    fn tier(tier: Tier) -> Selection {
        Selection { only: Vec::new(), tier, has_program: false }
    }

    fn only(names: &[&str]) -> Selection {
        Selection { only: names.iter().map(|name| (*name).to_owned()).collect(), ..tier(Tier::Gate) }
    }

    #[test]
    fn a_selection_includes_what_its_steps_use() {
        check(&only(&["fuzz", "format"]), &["format", "fuzz"]);
        check(&only(&["table"]), &[BUILD, "suite-memory", "table"]);
        check(&only(&["java"]), &["java-one", "java-two"]);
        check(&only(&["suite"]), &[BUILD, "suite-memory", "suite-citus"]);
        check(&Selection { has_program: true, ..only(&["table"]) }, &["suite-memory", "table"]);
        check(&tier(Tier::Quick), &["format", "links"]);
        assert_eq!(select(plan(), &tier(Tier::Gate)).unwrap().len(), 8);
        assert_eq!(select(plan(), &tier(Tier::All)).unwrap().len(), 10);
        let error = select(plan(), &only(&["fuz"])).unwrap_err().to_string();
        assert!(error.contains("no step fuz") && error.contains("--list"), "{error}");
    }

    /// Returns the order in which steps start if the one that has run longest ends first, and one of them fails.
    fn starts(processors: usize, failing: &str) -> Vec<&'static str> {
        let plan = plan();
        let mut states = vec![State::Waiting; plan.len()];
        let (mut running, mut order) = (Vec::new(), Vec::new());
        loop {
            while let Some(at) = next(&plan, &states, processors) {
                states[at] = State::Running;
                running.push(at);
                order.push(plan[at].name);
                let is_alone = running.len() == 1;
                assert!(
                    running.len() <= processors
                        && (is_alone || running.iter().all(|at| plan[*at].share != Share::Whole))
                );
            }
            if running.is_empty() {
                return order;
            }
            let ended = running.remove(0);
            states[ended] = if plan[ended].name == failing { State::Failed } else { State::Passed };
        }
    }

    #[test]
    fn steps_start_in_order_and_as_soon_as_they_can() {
        let in_order: Vec<_> = plan().iter().map(|step| step.name).collect();
        assert_eq!(starts(1, ""), in_order);
        // `lints` needs the whole machine, and would wait, while the suites can start. `java-two` waits for its lock.
        let expected =
            ["format", "links", BUILD, "lints", "suite-memory", "suite-citus", "java-one", "table", "fuzz", "java-two"];
        assert_eq!(starts(3, ""), expected);
    }

    #[test]
    fn all_quick_steps_run_before_a_failure_ends_the_run() {
        assert_eq!(starts(1, "format"), ["format", "links"]);
        assert_eq!(starts(1, "lints"), ["format", "links", BUILD, "lints"]);
    }

    #[test]
    fn the_table_is_in_order() {
        let all = steps::all();
        for (index, step) in all.iter().enumerate() {
            let earlier: Vec<_> = all.iter().take(index).collect();
            assert!(earlier.iter().all(|other| other.name != step.name), "two steps are called {}", step.name);
            for used in &step.after {
                let used = earlier.iter().find(|other| other.name == *used);
                let used = used.unwrap_or_else(|| panic!("{} must stand below the steps that it uses", step.name));
                assert!(used.tier <= step.tier, "{} uses {}, which runs less often", step.name, used.name);
            }
            assert!(!step.commands.is_empty(), "{} does nothing", step.name);
            let words = step.server.iter().map(|server| server.line).chain(step.commands.iter().map(|line| line.text));
            let uses_build = words.into_iter().any(|text| text.contains("{program}") || text.contains("{target}"));
            let has_build = step.after.contains(&BUILD) || step.name == BUILD;
            assert!(!uses_build || has_build, "{} needs the step {BUILD}", step.name);
        }
    }
}
