//! Simulated clients, whose requests interleave at random.

use super::table::{State, Store};
use crate::checker::StampOrder;
use crate::operation::{Action, Answer, Kind, Operation, Time};
use crate::planted::PlantedBug;
use crate::workload::{Choices, Mix, Request};
use fastrand::Rng;

/// What to simulate.
#[derive(Debug, Clone, Copy)]
pub struct Simulation {
    /// The seed, on which everything depends.
    pub seed: u64,
    /// The number of operations.
    pub operations: usize,
    /// The number of clients.
    pub clients: usize,
    /// The number of partitions.
    pub partitions: usize,
    /// The number of entities in each partition.
    pub rows: usize,
    /// How Timestamps relate to the serial order.
    pub order: StampOrder,
    /// Whether some pages have filters.
    pub has_filters: bool,
    /// The bug of the service.
    pub bug: Option<PlantedBug>,
}

#[derive(Debug, Clone)]
struct Flight {
    id: u64,
    client: usize,
    call: Time,
    partition: usize,
    request: Request,
    /// The state at the time of the call.
    seen: State,
    /// Set once the request has taken effect.
    result: Option<Action>,
    /// The number of the partition's commits right after that.
    commits: u64,
}

struct Clients {
    parameters: Simulation,
    random: Rng,
    store: Store,
    time: Time,
    next_id: u64,
    next_token: u64,
    flights: Vec<Option<Flight>>,
    /// Requests that may still take effect although their clients have given up, with the place of their record.
    lost: Vec<(Flight, Option<usize>)>,
    choices: Vec<Choices>,
    history: Vec<Operation>,
}

/// Returns the history of a simulation.
pub fn simulate(parameters: Simulation) -> Vec<Operation> {
    let Simulation { seed, clients, partitions, rows, order, has_filters, bug, .. } = parameters;
    let mix = Mix { partitions, rows, has_filters };
    let mut simulated = Clients {
        parameters,
        random: Rng::with_seed(seed),
        store: Store::new(partitions, order, bug, seed ^ 0x5EED),
        time: 0,
        next_id: 0,
        next_token: 0,
        flights: vec![None; clients],
        lost: Vec::new(),
        choices: (0..clients as u64).map(|client| Choices::new(seed ^ (client + 1) << 32, mix)).collect(),
        history: Vec::new(),
    };
    while simulated.next_id < parameters.operations as u64 {
        simulated.step();
    }
    simulated.finish();
    simulated.history
}

impl Clients {
    fn step(&mut self) {
        // Now and then, two things happen at the same time.
        self.time += self.random.u64(0..3);
        let partition = self.random.usize(0..self.parameters.partitions);
        self.store.background(partition);
        if !self.lost.is_empty() && self.random.u32(0..30) == 0 {
            let (mut flight, record) = self.lost.swap_remove(self.random.usize(0..self.lost.len()));
            if self.random.bool() || self.store.has(PlantedBug::UnknownTakesEffectTwice, 1) {
                self.execute(&mut flight);
                if record.is_some() && self.store.has(PlantedBug::UnknownTakesEffectTwice, 1) {
                    self.lost.push((flight, None));
                }
            }
        }
        if self.random.u32(0..200) == 0 || self.store.has(PlantedBug::VisibleBeforeSynced, 40) {
            self.crash();
        }
        let client = self.random.usize(0..self.parameters.clients);
        let flight = self.flights.get_mut(client).and_then(Option::take);
        let next = match flight {
            None => Some(self.call(client)),
            Some(flight) if flight.result.is_some() => {
                if self.random.u32(0..40) == 0 {
                    self.give_up(&flight, None);
                } else {
                    self.answer(&flight);
                }
                None
            }
            Some(flight) if self.random.u32(0..60) == 0 || self.store.has(PlantedBug::UnknownTakesEffectTwice, 8) => {
                let record = self.give_up(&flight, None);
                self.lost.push((flight, record));
                None
            }
            Some(mut flight) => {
                self.execute(&mut flight);
                Some(flight)
            }
        };
        if let Some(place) = self.flights.get_mut(client) {
            *place = next;
        }
    }

    /// Lets every client receive its answer.
    fn finish(&mut self) {
        for client in 0..self.flights.len() {
            let Some(mut flight) = self.flights.get_mut(client).and_then(Option::take) else { continue };
            self.time += 1;
            if flight.result.is_none() {
                self.execute(&mut flight);
            }
            self.answer(&flight);
        }
    }

    fn crash(&mut self) {
        let flights: Vec<Flight> = self.flights.iter_mut().filter_map(Option::take).collect();
        let is_last = |flight: &&Flight| {
            let commits = self.store.partitions.get(flight.partition).map(|partition| partition.commits);
            commits == Some(flight.commits)
                && matches!(&flight.result, Some(Action::Write { answer: Answer::Done(_), .. }))
        };
        let unacknowledged: Vec<usize> = flights.iter().filter(is_last).map(|flight| flight.partition).collect();
        let mut survivors = Vec::new();
        for flight in flights {
            let record = self.give_up(&flight, Some(self.time));
            if flight.result.is_none() && self.store.has(PlantedBug::UnknownAfterBarrier, 1) {
                survivors.push((flight, record));
            }
        }
        for (flight, record) in std::mem::take(&mut self.lost) {
            let place = record.and_then(|record| self.history.get_mut(record));
            if let Some(operation) = place {
                operation.returned = Some(self.time);
            }
            if self.store.has(PlantedBug::UnknownAfterBarrier, 1) {
                survivors.push((flight, record));
            }
        }
        self.lost = survivors;
        self.store.crash(&unacknowledged);
        self.time += 1;
    }

    fn call(&mut self, client: usize) -> Flight {
        let Self { choices, next_token, .. } = self;
        let mut token = || {
            *next_token += 1;
            *next_token
        };
        let choices = choices.get_mut(client).expect("every client has its choices");
        let (partition, request) = choices.request(&mut token);
        let seen = self.store.partitions.get(partition).map(|partition| partition.state.clone()).unwrap_or_default();
        self.next_id += 1;
        Flight { id: self.next_id, client, call: self.time, partition, request, seen, result: None, commits: 0 }
    }

    fn execute(&mut self, flight: &mut Flight) {
        let at = flight.partition;
        let result = match &flight.request {
            Request::Get(row) => Action::Get { row: row.clone(), found: self.store.get(at, row) },
            Request::Page(query) => Action::Page(self.store.page(at, query)),
            Request::Write(mutations) => {
                let is_early = flight.result.is_none() && self.store.has(PlantedBug::AcknowledgedBeforeVisible, 6);
                let before = is_early.then(|| self.store.partitions.get(at).map(|partition| partition.state.clone()));
                let answer = self.store.write(at, mutations, &flight.seen);
                if let (Some(Some(before)), Some(partition)) = (before, self.store.partitions.get_mut(at)) {
                    // The write becomes visible when the lost request takes effect, with a later Timestamp.
                    partition.state = before;
                    self.lost.push((flight.clone(), None));
                }
                let is_upsert = mutations.iter().all(|mutation| mutation.kind == Kind::InsertOrReplace);
                if is_upsert && self.store.has(PlantedBug::UpsertRepeated, 2) {
                    self.lost.push((flight.clone(), None));
                }
                Action::Write { mutations: mutations.clone(), answer }
            }
        };
        flight.commits = self.store.partitions.get(at).map_or(0, |partition| partition.commits);
        flight.result = Some(result);
    }

    fn answer(&mut self, flight: &Flight) {
        let Some(action) = flight.result.clone() else { return };
        if let Some(choices) = self.choices.get_mut(flight.client) {
            choices.learn(flight.partition, &flight.request, &action);
        }
        self.record(flight, Some(self.time), action);
    }

    /// Records an operation without an answer. Reads without one are not recorded.
    fn give_up(&mut self, flight: &Flight, end: Option<Time>) -> Option<usize> {
        let Request::Write(mutations) = &flight.request else { return None };
        self.record(flight, end, Action::Write { mutations: mutations.clone(), answer: Answer::Unknown });
        Some(self.history.len() - 1)
    }

    fn record(&mut self, flight: &Flight, returned: Option<Time>, action: Action) {
        let client = u32::try_from(flight.client).unwrap_or(u32::MAX);
        let partition = format!("table/p{}", flight.partition);
        self.history.push(Operation { id: flight.id, client, call: flight.call, returned, partition, action });
    }
}
