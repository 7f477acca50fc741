//! A model of takeovers, all of whose states are visited. It decides with the functions of the product.
//!
//! An operator promotes the standby that counts for the newest primary, unless another one was started with
//! `--replace`, and uses `--replace` only at the newest primary. Then nothing is lost, and only one server acknowledges
//! writes. A careless operator promotes any standby. Even then, a standby follows only a log that begins with its own.
//!
//! There are three servers, which begin as a primary, a standby and an empty folder.
//!
//! A standby has one request in flight, and an abandoned one may arrive later. Requests and answers are lost, or arrive
//! after any other steps. What a server has appended and not synced is synced at any later time, or lost in a crash. If
//! a standby asks before its sync, the sync has failed. Servers that are paused or cut off take no steps.

use crate::decisions::{
    LogState, Refusal, StandbyHello, StandbyPosition, admission, adoption, counts, fencing, promotion,
};
use engine_embedded::{Awaited, Identity, Lineage, Role};
use stateright::{Checker, Expectation, HasDiscoveries, Model, Property};

const SERVERS: usize = 3;

/// A mistake that the search must find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mistake {
    AcknowledgesUnconfirmed,
    ConfirmsUnsynced,
    SendsUnsynced,
    AnyStandbyConfirms,
    /// A standby counts that lacks what was acknowledged.
    CountsEarly,
    /// The standby that counts is not remembered over a restart.
    ForgetsWhoCounts,
    /// A restart ends the refusal of writes.
    FencesInMemory,
    PromotesInSameEpoch,
    /// Epochs are the same if their numbers and first transactions are.
    EpochsHaveNoIdentity,
    /// A standby continues after its last transaction, whatever its epoch.
    ResumesBySequence,
    /// A standby adopts an epoch while a failed write may appear again.
    AdoptsWithFailedWrites,
    /// The operator promotes a standby that does not count.
    PromotesAnyStandby,
    /// The operator promotes a standby after another one was started with `--replace`.
    PromotesReplaced,
    /// The operator starts a standby of a former primary with `--replace`.
    ReplacesAtFormer,
}

#[derive(Debug, Clone, Copy)]
struct Bounds {
    writes: usize,
    promotions: usize,
    crashes: u8,
    copies: u8,
}

#[derive(Debug, Clone, Copy)]
struct Takeovers {
    bounds: Bounds,
    mistake: Option<Mistake>,
    /// Whether standbys are promoted that do not count, and replaced in spite of a promotion. Then writes may be lost,
    /// but the logs of standbys must still be correct.
    is_careless: bool,
}

/// A transaction. Different ones at a position of the log differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Write {
    writer: usize,
    epoch: u64,
    /// The number of crashes before it.
    crashes: u8,
    /// Whether a standby of the writer had been promoted.
    is_late: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Request {
    of: usize,
    hello: StandbyHello,
    /// Whether the primary has admitted the standby. It confirms as a separate step.
    is_admitted: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Exchange {
    Idle,
    Copying { standby: Identity, primary: Lineage, log: Vec<Write> },
    Asking(Request),
    Answered { primary: Lineage, first: usize, records: Vec<Write> },
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Server {
    /// `None` for an empty folder.
    lineage: Option<Lineage>,
    log: Vec<Write>,
    synced: usize,
    /// The number of transactions that are visible, if it is a primary.
    published: usize,
    confirmed: usize,
    exchange: Exchange,
    was_fenced: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct State {
    servers: [Server; SERVERS],
    /// An abandoned request.
    stray: Option<Request>,
    acknowledged: Vec<Write>,
    /// Whether different transactions were acknowledged at a position.
    is_contradictory: bool,
    /// The server that was promoted last.
    newest: usize,
    promotions: usize,
    /// Standbys that were given up when another one was started with `--replace`.
    replaced: Vec<Identity>,
    writes: usize,
    crashes: u8,
    copies: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Write(usize),
    Sync(usize),
    Acknowledge(usize),
    Crash {
        server: usize,
        keeps_unsynced: bool,
    },
    Promote(usize),
    BeginCopy {
        of: usize,
        into: usize,
        replaces: bool,
    },
    EndCopy(usize),
    Ask {
        of: usize,
        server: usize,
        replaces: bool,
    },
    /// The primary admits a standby; `None` for the abandoned request.
    Admit(Option<usize>),
    /// The primary confirms and answers.
    Answer(Option<usize>),
    Adopt(usize),
    Append(usize),
    Abandon(usize),
    Tell {
        promoted: usize,
        former: usize,
    },
}

fn identity(number: usize) -> Identity {
    Identity::parse(&format!("{number:032x}")).unwrap()
}

fn sequence(count: usize) -> u64 {
    count as u64
}

fn role(server: &Server) -> Option<Role> {
    server.lineage.as_ref().map(|lineage| lineage.role)
}

fn is_primary(server: &Server) -> bool {
    matches!(role(server), Some(Role::Primary { .. }))
}

/// Returns the identity of a standby.
fn standby_id(server: &Server) -> Option<Identity> {
    match role(server) {
        Some(Role::Standby { id, .. }) => Some(id),
        _ => None,
    }
}

impl Server {
    fn new(lineage: Option<Lineage>) -> Self {
        let (log, exchange) = (Vec::new(), Exchange::Idle);
        Self { lineage, log, synced: 0, published: 0, confirmed: 0, exchange, was_fenced: false }
    }

    /// Introduces the server to a primary; `None` if it has nothing.
    fn hello(&self, replaces: bool) -> Option<StandbyHello> {
        let lineage = self.lineage.as_ref()?;
        let has = StandbyPosition { log: lineage.log, epoch: lineage.newest(), last: self.synced as u64 };
        // A former primary would not introduce itself.
        let standby = standby_id(self).unwrap_or_else(|| identity(0));
        Some(StandbyHello { standby, has: Some(has), replaces })
    }

    fn log_state(&self) -> LogState {
        let acknowledged = Some(sequence(self.published.max(self.confirmed)));
        LogState { first: sequence(1), synced: sequence(self.synced), acknowledged }
    }

    fn fence(&mut self, lineage: Lineage) {
        self.lineage = Some(lineage);
        self.was_fenced = true;
    }
}

impl State {
    fn new(standbys: usize) -> Self {
        let lineage = Lineage::new(identity(1), identity(2));
        let standby =
            |id| Lineage { role: Role::Standby { id: identity(id), awaited: Awaited::None }, ..lineage.clone() };
        let third = (standbys > 1).then(|| standby(4));
        let servers = [Some(lineage.clone()), Some(standby(3)), third].map(Server::new);
        Self {
            servers,
            stray: None,
            acknowledged: Vec::new(),
            is_contradictory: false,
            newest: 0,
            promotions: 0,
            replaced: Vec::new(),
            writes: 0,
            crashes: 0,
            copies: 0,
        }
    }

    /// Whether the newest primary waits for a standby.
    fn counts(&self, standby: Identity) -> bool {
        let newest = &self.servers[self.newest];
        newest.lineage.as_ref().is_some_and(|newest| counts(newest, standby))
    }

    fn request(&mut self, of: Option<usize>) -> Option<&mut Request> {
        match of.map(|server| &mut self.servers[server].exchange) {
            None => self.stray.as_mut(),
            Some(Exchange::Asking(request)) => Some(request),
            Some(_) => None,
        }
    }

    fn end_request(&mut self, of: Option<usize>) {
        match of {
            None => self.stray = None,
            Some(server) => self.servers[server].exchange = Exchange::Idle,
        }
    }

    /// Ends the wait of a standby. Its request may still arrive.
    fn abandon(&mut self, server: usize) {
        if let Exchange::Asking(request) = std::mem::replace(&mut self.servers[server].exchange, Exchange::Idle) {
            self.stray.get_or_insert(request);
        }
    }

    /// Gives up the standby that counts, because another one is started with `--replace`.
    fn replace(&mut self, of: usize) {
        if let Some(Role::Primary { confirming: Some(replaced) }) = role(&self.servers[of])
            && !self.replaced.contains(&replaced)
        {
            self.replaced.push(replaced);
        }
    }

    fn acknowledge(&mut self, server: usize) {
        let Server { log, .. } = &self.servers[server];
        let known = self.acknowledged.len().min(log.len());
        if log[..known] == self.acknowledged[..known] {
            self.acknowledged.extend_from_slice(&log[known..]);
        } else {
            self.is_contradictory = true;
        }
        self.servers[server].published = self.servers[server].log.len();
    }

    fn crash(&mut self, here: usize, keeps_unsynced: bool, mistake: Option<Mistake>) {
        self.crashes += 1;
        self.abandon(here);
        let server = &mut self.servers[here];
        server.exchange = Exchange::Idle;
        if !keeps_unsynced {
            server.log.truncate(server.synced);
        }
        server.synced = server.log.len();
        server.confirmed = 0;
        if let Some(lineage) = &mut server.lineage {
            match &mut lineage.role {
                Role::Primary { confirming } if mistake == Some(Mistake::ForgetsWhoCounts) => *confirming = None,
                role @ Role::Fenced { .. } if mistake == Some(Mistake::FencesInMemory) => {
                    *role = Role::Primary { confirming: None };
                }
                _ => {}
            }
        }
        server.published = if is_primary(server) { server.log.len() } else { 0 };
        self.end_process(here);
    }

    /// Forgets the requests that a server had admitted.
    fn end_process(&mut self, here: usize) {
        for of in [None, Some(0), Some(1), Some(2)] {
            if self.request(of).is_some_and(|request| request.of == here && request.is_admitted) {
                self.end_request(of);
            }
        }
    }

    fn promote(&mut self, here: usize, mistake: Option<Mistake>) {
        self.abandon(here);
        self.promotions += 1;
        let server = &mut self.servers[here];
        let lineage = server.lineage.as_ref().unwrap();
        let (next, number) = (sequence(server.log.len() + 1), self.promotions);
        let mut promoted = match mistake {
            Some(Mistake::EpochsHaveNoIdentity) => promotion(lineage, next, identity(2)),
            _ => promotion(lineage, next, identity(100 + number)),
        };
        if mistake == Some(Mistake::PromotesInSameEpoch) {
            promoted.epochs.pop();
        }
        server.lineage = Some(promoted);
        server.was_fenced = false;
        server.synced = server.log.len();
        (server.published, server.confirmed, server.exchange) = (server.log.len(), 0, Exchange::Idle);
        self.newest = here;
    }

    fn admit(&mut self, of: Option<usize>, mistake: Option<Mistake>) {
        let Some(request) = self.request(of) else { return };
        request.is_admitted = true;
        let (there, mut hello) = (request.of, request.hello);
        let primary = &mut self.servers[there];
        let Some(lineage) = &primary.lineage else { return self.end_request(of) };
        if let Some(has) = &mut hello.has {
            if mistake == Some(Mistake::ResumesBySequence) {
                has.epoch = lineage.newest();
            } else if let Some(fenced) = fencing(lineage, &has.epoch, false) {
                primary.fence(fenced);
                return self.end_request(of);
            }
        }
        let mut log = primary.log_state();
        if mistake == Some(Mistake::CountsEarly) {
            log.acknowledged = Some(0);
        }
        match admission(lineage, &hello, log) {
            Ok(None) => {}
            Ok(Some(changed)) => primary.lineage = Some(changed),
            Err(_) => self.end_request(of),
        }
    }

    fn answer(&mut self, of: Option<usize>, mistake: Option<Mistake>) {
        let Some(Request { of: there, hello, .. }) = self.request(of).cloned() else { return };
        self.end_request(of);
        let primary = &mut self.servers[there];
        let lineage = primary.lineage.clone().unwrap();
        let first = usize::try_from(hello.has.unwrap().last).unwrap();
        let may_confirm = is_primary(primary) && mistake == Some(Mistake::AnyStandbyConfirms);
        if may_confirm || counts(&lineage, hello.standby) {
            primary.confirmed = primary.confirmed.max(first);
        }
        let sent = if mistake == Some(Mistake::SendsUnsynced) { primary.log.len() } else { primary.synced };
        let records = primary.log.get(first..sent).unwrap_or_default().to_vec();
        if let Some(standby) = of {
            self.servers[standby].exchange = Exchange::Answered { primary: lineage, first, records };
        }
    }

    /// Continues in the epochs of the primary, and returns what the answer contains.
    fn adopt(&mut self, here: usize, mistake: Option<Mistake>) -> Option<(usize, Vec<Write>)> {
        let server = &mut self.servers[here];
        let exchange = std::mem::replace(&mut server.exchange, Exchange::Idle);
        let Exchange::Answered { primary, first, records } = exchange else { return None };
        if mistake != Some(Mistake::AdoptsWithFailedWrites) {
            server.log.truncate(server.synced);
        }
        let standby = server.lineage.as_ref().unwrap();
        match adoption(standby, &primary, sequence(server.synced)) {
            Ok(None) => {}
            Ok(adopted) => server.lineage = adopted,
            Err(_) if mistake == Some(Mistake::ResumesBySequence) => {
                server.lineage = Some(Lineage { role: standby.role, ..primary });
            }
            Err(_) => return None,
        }
        Some((first, records))
    }

    fn append(&mut self, here: usize, mistake: Option<Mistake>) {
        let Some((first, records)) = self.adopt(here, mistake) else { return };
        let server = &mut self.servers[here];
        server.log.truncate(server.synced);
        if first == server.log.len() {
            server.log.extend(records);
        }
    }

    fn begin_copy(&mut self, of: usize, into: usize, replaces: bool) {
        self.copies += 1;
        let standby = identity(200 + usize::from(self.copies));
        let hello = StandbyHello { standby, has: None, replaces };
        if replaces {
            self.replace(of);
        }
        // The folder is emptied first.
        self.end_process(into);
        self.servers[into] = Server::new(None);
        let Server { lineage, log, published, .. } = &self.servers[of];
        let primary = lineage.clone().unwrap();
        if admission(&primary, &hello, self.servers[of].log_state()).is_ok() {
            let log = log[..*published].to_vec();
            self.servers[into].exchange = Exchange::Copying { standby, primary, log };
        }
    }

    fn end_copy(&mut self, into: usize) {
        let server = &mut self.servers[into];
        let exchange = std::mem::replace(&mut server.exchange, Exchange::Idle);
        let Exchange::Copying { standby, primary, log } = exchange else { return };
        server.lineage = Some(Lineage { role: Role::Standby { id: standby, awaited: Awaited::None }, ..primary });
        (server.synced, server.log) = (log.len(), log);
    }
}

impl Takeovers {
    fn server_steps(&self, state: &State, here: usize, steps: &mut Vec<Step>) {
        let Bounds { writes, promotions, crashes, copies } = self.bounds;
        let server = &state.servers[here];
        let (end, is_primary) = (server.log.len(), is_primary(server));
        if server.synced < end {
            steps.push(Step::Sync(here));
        }
        if is_primary && server.published == end && state.writes < writes {
            steps.push(Step::Write(here));
        }
        let is_confirmed = server.confirmed >= end || self.mistake == Some(Mistake::AcknowledgesUnconfirmed);
        if is_primary && server.published < end && server.synced == end && is_confirmed {
            steps.push(Step::Acknowledge(here));
        }
        if state.crashes < crashes && server.lineage.is_some() {
            steps.push(Step::Crash { server: here, keeps_unsynced: false });
            if server.synced < end {
                steps.push(Step::Crash { server: here, keeps_unsynced: true });
            }
        }
        match &server.exchange {
            Exchange::Idle => {}
            Exchange::Copying { .. } => steps.push(Step::EndCopy(here)),
            Exchange::Asking(request) => {
                steps.push(if request.is_admitted { Step::Answer(Some(here)) } else { Step::Admit(Some(here)) });
                steps.push(Step::Abandon(here));
            }
            Exchange::Answered { primary, .. } => {
                steps.extend([Step::Append(here), Step::Abandon(here)]);
                if server.lineage.as_ref().is_some_and(|lineage| lineage.epochs != primary.epochs) {
                    steps.push(Step::Adopt(here));
                }
            }
        }
        let id = standby_id(server);
        // A careless operator also ends a fence.
        let may_be_promoted = match role(server) {
            Some(Role::Standby { id, .. }) => self.may_promote(state, id),
            Some(Role::Fenced { .. }) => self.is_careless,
            Some(Role::Primary { .. }) | None => false,
        };
        if may_be_promoted && state.promotions < promotions {
            steps.push(Step::Promote(here));
        }
        let is_given_up = match role(server) {
            None => server.exchange == Exchange::Idle,
            Some(Role::Fenced { .. }) => true,
            Some(Role::Standby { id, .. }) => server.exchange == Exchange::Idle && !state.counts(id),
            Some(Role::Primary { .. }) => false,
        };
        for there in (0..SERVERS).filter(|there| *there != here) {
            let other = &state.servers[there];
            let is_of_primary = other.lineage.is_some() && standby_id(other).is_none();
            for replaces in [false, true] {
                if !is_of_primary || (replaces && !self.may_replace(state, there, id)) {
                    continue;
                }
                if id.is_some() && server.exchange == Exchange::Idle {
                    steps.push(Step::Ask { of: there, server: here, replaces });
                }
                if is_given_up && state.copies < copies {
                    steps.push(Step::BeginCopy { of: there, into: here, replaces });
                }
            }
            if is_primary && state.promotions > 0 && is_of_primary && here == state.newest {
                steps.push(Step::Tell { promoted: here, former: there });
            }
        }
    }

    fn may_promote(&self, state: &State, standby: Identity) -> bool {
        let counts = state.counts(standby) || self.mistake == Some(Mistake::PromotesAnyStandby);
        let is_replaced = state.replaced.contains(&standby) && self.mistake != Some(Mistake::PromotesReplaced);
        self.is_careless || (counts && !is_replaced)
    }

    fn may_replace(&self, state: &State, of: usize, standby: Option<Identity>) -> bool {
        let Some(Role::Primary { confirming: Some(confirming) }) = role(&state.servers[of]) else { return false };
        let is_newest = of == state.newest || self.is_careless || self.mistake == Some(Mistake::ReplacesAtFormer);
        is_newest && standby != Some(confirming)
    }
}

impl Model for Takeovers {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        vec![State::new(if self.is_careless { 2 } else { 1 })]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        for here in 0..SERVERS {
            self.server_steps(state, here, steps);
        }
        if let Some(request) = &state.stray {
            steps.push(if request.is_admitted { Step::Answer(None) } else { Step::Admit(None) });
        }
    }

    fn next_state(&self, last: &State, step: Step) -> Option<State> {
        let (mut state, mistake) = (last.clone(), self.mistake);
        match step {
            Step::Write(here) => {
                state.writes += 1;
                let (crashes, is_late) = (state.crashes, here != state.newest);
                let server = &mut state.servers[here];
                let epoch = server.lineage.as_ref().unwrap().epoch();
                server.log.push(Write { writer: here, epoch, crashes, is_late });
            }
            Step::Sync(here) => state.servers[here].synced = state.servers[here].log.len(),
            Step::Acknowledge(here) => state.acknowledge(here),
            Step::Crash { server, keeps_unsynced } => state.crash(server, keeps_unsynced, mistake),
            Step::Promote(here) => state.promote(here, mistake),
            Step::BeginCopy { of, into, replaces } => state.begin_copy(of, into, replaces),
            Step::EndCopy(into) => state.end_copy(into),
            Step::Ask { of, server: here, replaces } => {
                if replaces {
                    state.replace(of);
                }
                let server = &mut state.servers[here];
                let mut hello = server.hello(replaces)?;
                if mistake == Some(Mistake::ConfirmsUnsynced) {
                    hello.has.as_mut()?.last = server.log.len() as u64;
                }
                server.exchange = Exchange::Asking(Request { of, hello, is_admitted: false });
            }
            Step::Admit(of) => state.admit(of, mistake),
            Step::Answer(of) => state.answer(of, mistake),
            Step::Adopt(here) => drop(state.adopt(here, mistake)),
            Step::Append(here) => state.append(here, mistake),
            Step::Abandon(here) => {
                state.abandon(here);
                state.servers[here].exchange = Exchange::Idle;
            }
            Step::Tell { promoted, former } => {
                let epoch = state.servers[promoted].lineage.as_ref()?.newest();
                let server = &mut state.servers[former];
                let fenced = fencing(server.lineage.as_ref()?, &epoch, true)?;
                server.fence(fenced);
            }
        }
        (state != *last).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        properties()
    }
}

/// The variable that enlarges the model.
const LARGE: &str = "ROWHOUSE_LARGE_MODEL";

/// Whether a primary would serve the folder of another server.
fn would_serve(primary: &Server, other: &Server) -> Result<(), Refusal> {
    let (Some(lineage), Some(hello)) = (&primary.lineage, other.hello(true)) else { return Err(Refusal::NotPrimary) };
    // Whoever counts, as if writes waited for no standby.
    admission(lineage, &hello, LogState { acknowledged: None, ..primary.log_state() }).map(drop)
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
            let is_late = |request: &Request| request.is_admitted && request.of == 0;
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
