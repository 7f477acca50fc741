//! A model of takeovers, all of whose states are visited. It decides with the functions of the product.
//!
//! An operator promotes the standby that counts for the newest primary, unless another one was started with
//! `--replace`, and uses `--replace` only at the newest primary. Then nothing is lost, and only one server acknowledges
//! writes. A careless operator promotes any standby. Even then, a standby follows only a log that begins with its own.

mod takeovers;

use super::Refusal;
use super::decisions::{PrimaryLog, admission};
use crate::disk::lineage::Role;
use stateright::{Checker, Expectation, HasDiscoveries, Model, Property};
use takeovers::{Bounds, Mistake, Server, State, Takeovers, is_primary, standby_id};

/// The variable that enlarges the model.
const LARGE: &str = "ROWHOUSE_LARGE_MODEL";

/// Whether a primary would serve the folder of another server.
fn would_serve(primary: &Server, other: &Server) -> Result<(), Refusal> {
    let (Some(lineage), Some(hello)) = (&primary.lineage, other.hello(true)) else { return Err(Refusal::NotPrimary) };
    // Whoever counts, as if writes waited for no standby.
    admission(lineage, &hello, PrimaryLog { acknowledged: None, ..primary.log_state() }).map(drop)
}

fn pairs(state: &State) -> impl Iterator<Item = (&Server, &Server)> {
    state.servers.iter().flat_map(|one| state.servers.iter().map(move |other| (one, other)))
}

fn newest(state: &State) -> &Server {
    &state.servers[state.newest]
}

fn nothing_is_lost(model: &Takeovers, state: &State) -> bool {
    let newest = newest(state);
    model.is_careless || !is_primary(newest) || newest.log[..newest.synced].starts_with(&state.acknowledged)
}

fn one_server_acknowledges(model: &Takeovers, state: &State) -> bool {
    model.is_careless || (!state.is_contradictory && state.acknowledged.iter().all(|write| !write.is_late))
}

fn logs_continue(_: &Takeovers, state: &State) -> bool {
    pairs(state).all(|(primary, other)| {
        would_serve(primary, other).is_err() || primary.log.starts_with(&other.log[..other.synced])
    })
}

fn fenced_servers_stay_fenced(_: &Takeovers, state: &State) -> bool {
    let is_fenced =
        |server: &Server| matches!(&server.lineage, Some(lineage) if matches!(lineage.role, Role::Fenced { .. }));
    state.servers.iter().all(|server| !server.was_fenced || is_fenced(server))
}

/// What must always hold, and what must be possible, because the model would show nothing otherwise.
fn properties() -> Vec<Property<Takeovers>> {
    vec![
        Property::always("nothing acknowledged is lost", nothing_is_lost),
        Property::always("one server acknowledges writes", one_server_acknowledges),
        Property::always("a primary serves only those whose log its own log begins with", logs_continue),
        Property::always("a fenced server stays fenced until it is promoted", fenced_servers_stay_fenced),
        Property::sometimes("a promoted server acknowledges a write", |_, state: &State| {
            state.newest != 0 && state.acknowledged.len() > 1
        }),
        Property::sometimes("a former primary returns as the standby that counts", |_, state: &State| {
            state.newest == 1 && standby_id(&state.servers[0]).is_some_and(|id| state.counts(id))
        }),
        Property::sometimes("another standby replaces the one that counts", |_, state: &State| {
            state.newest == 0 && standby_id(&state.servers[2]).is_some_and(|id| state.counts(id))
        }),
        Property::sometimes("a standby is refused because it has other transactions", |_, state: &State| {
            pairs(state)
                .any(|(one, other)| would_serve(one, other) == Err(Refusal::Diverged) && standby_id(other).is_some())
        }),
        Property::sometimes("a former primary has what the promoted server lacks", |_, state: &State| {
            state.servers.iter().any(|server| server.was_fenced && !newest(state).log.starts_with(&server.log))
        }),
        Property::sometimes("a promoted server has what was not acknowledged", |_, state: &State| {
            state.newest != 0 && newest(state).log.iter().any(|write| !state.acknowledged.contains(write))
        }),
        Property::sometimes("a request arrives after its sender was promoted", |_, state: &State| {
            let is_late = |request: &takeovers::Request| request.is_admitted && request.of == 0;
            state.newest == 1 && is_primary(&state.servers[0]) && state.stray.as_ref().is_some_and(is_late)
        }),
    ]
}

const fn bounds(writes: usize, promotions: usize, crashes: u8, copies: u8) -> Bounds {
    Bounds { writes, promotions, crashes, copies }
}

/// Visits all states, and checks what must always hold. Returns the possibilities without an example.
fn visit(bounds: Bounds, is_careless: bool) -> Vec<&'static str> {
    let model = Takeovers { bounds, mistake: None, is_careless };
    let checker = model.checker().threads(2).spawn_dfs().join();
    println!("{} states with {bounds:?}", checker.unique_state_count());
    let (always, sometimes): (Vec<_>, Vec<_>) =
        properties().into_iter().partition(|property| property.expectation == Expectation::Always);
    for property in always {
        checker.assert_no_discovery(property.name);
    }
    sometimes.iter().map(|property| property.name).filter(|name| checker.discovery(name).is_none()).collect()
}

/// Returns whether something is violated that must always hold.
fn finds(mistake: Mistake, bounds: Bounds) -> bool {
    let is_careless = mistake == Mistake::EpochsHaveNoIdentity;
    let model = Takeovers { bounds, mistake: Some(mistake), is_careless };
    // The shortest histories come first.
    let checker = model.checker().finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    let violated: Vec<_> = properties()
        .iter()
        .filter(|property| property.expectation == Expectation::Always)
        .filter_map(|property| Some((property.name, checker.discovery(property.name)?.into_actions())))
        .collect();
    println!("{mistake:?}: {violated:?}, {} states", checker.unique_state_count());
    !violated.is_empty()
}

#[test]
fn no_promotion_loses_what_was_acknowledged() {
    assert_eq!(visit(bounds(2, 2, 0, 1), false), [""; 0], "these are impossible");
    if std::env::var_os(LARGE).is_some() {
        visit(bounds(2, 2, 1, 1), false);
        visit(bounds(3, 2, 0, 1), false);
    }
}

#[test]
fn logs_are_continued_only_by_logs_that_begin_with_them() {
    visit(bounds(1, 2, 0, 0), true);
    if std::env::var_os(LARGE).is_some() {
        visit(bounds(2, 2, 0, 0), true);
        visit(bounds(1, 2, 0, 1), true);
    }
}

#[test]
fn each_planted_mistake_is_found() {
    for (mistake, bounds) in [
        (Mistake::AcknowledgesUnconfirmed, bounds(1, 1, 0, 0)),
        (Mistake::ConfirmsUnsynced, bounds(1, 1, 0, 0)),
        (Mistake::SendsUnsynced, bounds(2, 0, 1, 0)),
        (Mistake::AnyStandbyConfirms, bounds(1, 1, 0, 1)),
        (Mistake::CountsEarly, bounds(1, 1, 0, 1)),
        (Mistake::ForgetsWhoCounts, bounds(1, 1, 1, 1)),
        (Mistake::FencesInMemory, bounds(0, 1, 1, 0)),
        (Mistake::PromotesInSameEpoch, bounds(2, 1, 0, 0)),
        (Mistake::EpochsHaveNoIdentity, bounds(2, 2, 0, 0)),
        (Mistake::ResumesBySequence, bounds(2, 1, 0, 1)),
        (Mistake::AdoptsWithFailedWrites, bounds(2, 1, 0, 1)),
        (Mistake::PromotesAnyStandby, bounds(1, 1, 0, 1)),
        (Mistake::PromotesReplaced, bounds(1, 1, 0, 1)),
        (Mistake::ReplacesAtFormer, bounds(1, 1, 0, 1)),
    ] {
        assert!(finds(mistake, bounds), "{mistake:?} is not found");
    }
}
