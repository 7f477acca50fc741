//! Selects the steps of a run, and decides which step starts next.

use crate::step::{PROGRAM, Share, Step};
use anyhow::{Result, bail};
use std::collections::BTreeSet;

/// The steps that the user wants.
#[derive(Debug, Clone, Default)]
pub(crate) struct Selection {
    /// Names of steps, or the beginnings of several names, such as `python`. Empty for all steps.
    pub(crate) only: Vec<String>,
    /// The first step; all later ones are selected too.
    pub(crate) from: Option<String>,
    pub(crate) with_citus: bool,
    /// Whether the server is already built.
    pub(crate) has_program: bool,
}

/// Returns the selected steps, and those that provide something for them, in the order of the table.
pub(crate) fn select(all: Vec<Step>, selection: &Selection) -> Result<Vec<Step>> {
    let mut wanted: BTreeSet<&str> = BTreeSet::new();
    if !selection.only.is_empty() {
        for name in &selection.only {
            wanted.extend(named(&all, name)?);
        }
    } else if let Some(name) = &selection.from {
        let first = named(&all, name)?;
        let later = all.iter().skip_while(|step| !first.contains(&step.name));
        wanted.extend(later.map(|step| step.name));
    } else {
        wanted.extend(all.iter().map(|step| step.name));
    }
    let is_explicit = |step: &Step| selection.only.iter().any(|name| name == step.name);
    for step in all.iter().filter(|step| step.is_for_citus && !selection.with_citus && !is_explicit(step)) {
        wanted.remove(step.name);
    }
    // A step stands below those that it uses, so one pass from the last to the first finds all.
    for step in all.iter().rev() {
        if wanted.contains(step.name) {
            wanted.extend(&step.after);
        }
    }
    let is_built = |step: &Step| selection.has_program && step.name == PROGRAM;
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
    Done,
}

/// Returns the index of the step that starts next, or `None` if none can start before another one ends.
///
/// Steps start in the order of the plan, except that a step that needs the whole machine waits until no other step can
/// start. Otherwise, processors would be idle while it waits for the steps that run.
pub(crate) fn next(plan: &[Step], states: &[State], processors: usize) -> Option<usize> {
    let state_of = |name: &str| plan.iter().position(|step| step.name == name).and_then(|at| states.get(at));
    let is_ready = |step: &Step| step.after.iter().all(|name| state_of(name).is_none_or(|state| *state == State::Done));
    let running: Vec<_> = plan.iter().zip(states).filter(|(_, state)| **state == State::Running).collect();
    if running.len() >= processors.max(1) || running.iter().any(|(step, _)| step.share == Share::Whole) {
        return None;
    }
    let is_locked = |step: &Step| step.lock.is_some() && running.iter().any(|(other, _)| other.lock == step.lock);
    for (index, (step, state)) in plan.iter().zip(states).enumerate() {
        if *state != State::Waiting || !is_ready(step) || is_locked(step) {
            continue;
        }
        if step.share == Share::OneProcessor || running.is_empty() {
            return Some(index);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::step::Database;
    use crate::steps;

    fn plan() -> Vec<Step> {
        let citus = Step { is_for_citus: true, ..Step::new("suite-citus", "").after(&[PROGRAM]).on_one_processor() };
        vec![
            Step::new("format", "").on_one_processor(),
            Step::new("lints", ""),
            Step::new(PROGRAM, ""),
            Step::new("suite-memory", "").after(&[PROGRAM]).on_one_processor(),
            citus,
            Step::new("table", "").after(&["suite-memory"]).on_one_processor(),
            Step::new("java-one", "").lock("maven").on_one_processor(),
            Step::new("java-two", "").lock("maven").on_one_processor(),
            Step::new("fuzz", "").on_one_processor(),
        ]
    }

    #[track_caller]
    fn check(selection: &Selection, expected: &[&str]) {
        let selected = select(plan(), selection).unwrap();
        assert_eq!(selected.iter().map(|step| step.name).collect::<Vec<_>>(), expected, "{selection:?}");
    }

    fn only(names: &[&str]) -> Selection {
        Selection { only: names.iter().map(|name| (*name).to_owned()).collect(), ..Selection::default() }
    }

    #[test]
    fn a_selection_includes_what_its_steps_use() {
        check(&only(&["fuzz", "format"]), &["format", "fuzz"]);
        check(&only(&["table"]), &[PROGRAM, "suite-memory", "table"]);
        check(&only(&["java"]), &["java-one", "java-two"]);
        check(&only(&["suite"]), &[PROGRAM, "suite-memory"]);
        check(&only(&["suite-citus"]), &[PROGRAM, "suite-citus"]);
        check(&Selection { with_citus: true, ..only(&["suite"]) }, &[PROGRAM, "suite-memory", "suite-citus"]);
        check(&Selection { has_program: true, ..only(&["table"]) }, &["suite-memory", "table"]);
        let from = |name: &str| Selection { from: Some(name.to_owned()), ..Selection::default() };
        check(&from("java"), &["java-one", "java-two", "fuzz"]);
        check(&from("table"), &[PROGRAM, "suite-memory", "table", "java-one", "java-two", "fuzz"]);
        assert_eq!(select(plan(), &Selection::default()).unwrap().len(), 8);
        assert_eq!(select(plan(), &Selection { with_citus: true, ..Selection::default() }).unwrap().len(), 9);
        let error = select(plan(), &only(&["fuz"])).unwrap_err().to_string();
        assert!(error.contains("no step fuz") && error.contains("--list"), "{error}");
    }

    /// Returns the order in which steps start if the one that has run longest ends first.
    fn starts(processors: usize) -> Vec<&'static str> {
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
                assert!(states.iter().all(|state| *state == State::Done));
                return order;
            }
            states[running.remove(0)] = State::Done;
        }
    }

    #[test]
    fn steps_start_in_order_and_as_soon_as_they_can() {
        let in_order: Vec<_> = plan().iter().map(|step| step.name).collect();
        assert_eq!(starts(1), in_order);
        // While `format` runs, steps for one processor overtake `lints`.
        let expected =
            ["format", "java-one", "fuzz", "java-two", "lints", PROGRAM, "suite-memory", "suite-citus", "table"];
        assert_eq!(starts(3), expected);
    }

    #[test]
    fn steps_that_share_a_lock_do_not_run_together() {
        let plan = plan();
        let mut states = vec![State::Done; plan.len()];
        let at = |name: &str| plan.iter().position(|step| step.name == name).unwrap();
        states[at("java-one")] = State::Running;
        states[at("java-two")] = State::Waiting;
        assert_eq!(next(&plan, &states, 2), None);
        states[at("fuzz")] = State::Waiting;
        assert_eq!(next(&plan, &states, 2), Some(at("fuzz")));
        states[at("java-one")] = State::Done;
        assert_eq!(next(&plan, &states, 2), Some(at("java-two")));
    }

    #[test]
    fn the_table_is_in_order() {
        let all = steps::all();
        for (index, step) in all.iter().enumerate() {
            let earlier: Vec<_> = all.iter().take(index).map(|step| step.name).collect();
            assert!(!earlier.contains(&step.name), "two steps are called {}", step.name);
            for used in &step.after {
                assert!(earlier.contains(used), "{} must stand below {used}", step.name);
            }
            assert!(!step.commands.is_empty(), "{} does nothing", step.name);
            assert_eq!(step.is_for_citus, step.database == Some(Database::Citus), "{}", step.name);
            let words = step.server.iter().map(|server| server.line).chain(step.commands.iter().map(|line| line.text));
            let uses_program = words.into_iter().any(|text| text.contains("{program}"));
            assert!(!uses_program || step.after.contains(&PROGRAM), "{} needs the program", step.name);
        }
    }
}
