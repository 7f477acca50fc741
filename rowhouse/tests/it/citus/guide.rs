//! The procedures of docs/from-one-machine-to-a-cluster.md, with the commands that the page prints.
//!
//! Writers write through all of it, except between the last run of the copy and the switch. They act like clients
//! behind a load balancer: each request goes to one of the servers in service, and is repeated after an error for which
//! client libraries retry. No other error is allowed, and no acknowledged write may be lost.

use super::{metrics, shards};
use crate::PROGRAM;
use crate::printed_commands::{self, Machine, adapt};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use test_support::cluster::CitusCluster;
use test_support::command::endpoint;
use test_support::content::{create_table, fill, fill_with_everything, snapshot};
use test_support::writers::{Tally, fault};
use test_support::{Client, EndOnDrop, ReservedPort, Response, Server, eventually, eventually_within};

const DATABASE: &str = "tables";
const TABLE: &str = "Written";
const WRITERS: usize = 8;
const ROWS: u64 = 40;
/// The time in which the servers move a shard to a new worker. A busy machine needs several steps of ten seconds.
const MOVE_TIME_MAX: Duration = Duration::from_mins(4);

fn blocks<const N: usize>(heading: &str) -> [String; N] {
    printed_commands::blocks("from-one-machine-to-a-cluster.md", heading, "sh")
}

/// A cluster whose nodes have the names of the page.
struct Nodes {
    machine: Machine,
    /// The port of each name.
    ports: BTreeMap<&'static str, String>,
}

impl Nodes {
    /// Prepares a node that the script of the tests started: the page creates the user `rowhouse`, and its
    /// administrator is `postgres`.
    fn add(&mut self, name: &'static str, port: String) {
        let psql =
            |user: &str, statement: &str| format!("command psql -h 127.0.0.1 -U {user} postgres -c '{statement}'");
        let roles = ["rowhouse", "postgres"]
            .into_iter()
            .zip(["CREATE ROLE postgres SUPERUSER LOGIN REPLICATION", "ALTER ROLE rowhouse RENAME TO tests"]);
        for (user, statement) in roles {
            self.machine.run(&port, &psql(user, statement));
        }
        self.ports.insert(name, port);
    }

    /// Replaces the names of nodes in SQL and URLs. The commands of PostgreSQL get the address of a name from a shell
    /// function.
    fn adapt(&self, block: &str) -> String {
        let mut text = block.to_owned();
        for (name, port) in &self.ports {
            text = text.replace(&format!("'{name}', 5432"), &format!("'127.0.0.1', {port}"));
            text = text.replace(&format!("nodename = '{name}'"), &format!("nodeport = {port}"));
            for (before, after) in [("@", ","), (",", ","), (",", "/"), ("@", "/")] {
                let (host, address) = (format!("{before}{name}{after}"), format!("{before}127.0.0.1:{port}{after}"));
                text = text.replace(&host, &address);
            }
        }
        text
    }

    /// Runs a block. Programs of PostgreSQL that start a server use the given port.
    fn run(&self, port: &str, block: &str) {
        let ports = self.ports.iter().map(|(name, port)| format!("[{name}]={port}")).collect::<Vec<_>>().join(" ");
        let functions = format!(
            r#"declare -A ports=({ports})
            to_port() {{
                local program=$1 previous= word words=()
                for word in "${{@:2}}"; do
                    if [ "$previous" = -h ]; then words+=(127.0.0.1 -p "${{ports[$word]}}"); else words+=("$word"); fi
                    previous=$word
                done
                command "$program" "${{words[@]}}"
            }}
            for program in psql createuser createdb pg_basebackup; do eval "$program() {{ to_port $program \"\$@\"; }}"; done
            "#
        );
        self.machine.run(port, &(functions + &self.adapt(block)));
    }

    /// Returns true if a condition holds on a node.
    fn holds(&self, name: &str, condition: &str) -> bool {
        let path = self.machine.at("answer");
        let statement = format!("psql -h {name} -U postgres postgres -Atc \"SELECT {condition}\" > {path}");
        self.run("", &statement);
        std::fs::read_to_string(path).unwrap().trim() == "t"
    }
}

/// Returns the arguments of the only command of a block, after its first words.
fn arguments(block: &str, command: &str) -> Vec<String> {
    let text = block.replace("\\\n", " ").replace('…', "");
    let text = text.trim().strip_prefix(command).unwrap_or_else(|| panic!("'{command}' expected: {block}"));
    text.split_whitespace().map(|word| word.trim_matches('\'').to_owned()).collect()
}

fn as_strs(arguments: &[String]) -> Vec<&str> {
    arguments.iter().map(String::as_str).collect()
}

/// The servers to which a load balancer sends requests.
#[derive(Debug, Default)]
struct LoadBalancer {
    addresses: Mutex<Vec<String>>,
}

impl LoadBalancer {
    fn set(&self, servers: &[&Server]) {
        *self.addresses.lock().unwrap() = servers.iter().map(|server| server.address.clone()).collect();
    }

    fn address(&self, number: usize) -> String {
        let addresses = self.addresses.lock().unwrap();
        addresses[number % addresses.len()].clone()
    }
}

/// The last number that was written to each row, or `None` if the row was deleted.
type Written = BTreeMap<u64, Option<u64>>;

/// Writes rows of a partition until told to stop. Each write is repeated until it is acknowledged.
fn write(number: usize, balancer: &LoadBalancer, written: &mut Written, is_over: &AtomicBool, tally: &Tally) {
    let mut client: Option<(String, Client)> = None;
    let mut next = 1 + written.values().flatten().max().copied().unwrap_or_default();
    while !is_over.load(Ordering::SeqCst) {
        let (row, is_deletion) = (next % ROWS, next % 7 == 0);
        let path = format!("/{TABLE}(PartitionKey='writer{number}',RowKey='{row}')");
        let began = Instant::now();
        eventually("the acknowledgement of a write", || {
            let address = balancer.address(number);
            if client.as_ref().is_none_or(|(current, _)| *current != address) {
                client = Some((address.clone(), Client::connect(&address).unwrap()));
            }
            let (_, client) = client.as_mut().unwrap();
            let answer = if is_deletion {
                client.request("DELETE", &path, &[("If-Match", "*")], b"")
            } else {
                client.request("PUT", &path, &[], json!({ "Number": next }).to_string().as_bytes())
            };
            match fault(&answer) {
                None => assert!(answer.status == 204 || (is_deletion && answer.status == 404), "{answer:?}"),
                Some("ServerBusy") => _ = tally.busy.fetch_add(1, Ordering::SeqCst),
                Some(_) => _ = tally.unknown.fetch_add(1, Ordering::SeqCst),
            }
            fault(&answer).is_none().then_some(())
        });
        tally.longest_ms.fetch_max(u64::try_from(began.elapsed().as_millis()).unwrap(), Ordering::SeqCst);
        tally.acknowledged.fetch_add(1, Ordering::SeqCst);
        written.insert(row, (!is_deletion).then_some(next));
        next += 1;
    }
}

/// Runs the writers while `work` runs.
fn write_during(balancer: &LoadBalancer, all: &mut [Written], work: impl FnOnce(&Tally, &dyn Fn(&str) -> u64)) {
    let (tally, is_over) = (Tally::default(), AtomicBool::new(false));
    thread::scope(|scope| {
        let (tally, is_over) = (&tally, &is_over);
        for (number, written) in all.iter_mut().enumerate() {
            scope.spawn(move || write(number, balancer, written, is_over, tally));
        }
        let _end = EndOnDrop(is_over);
        // Waits for the next writes, and returns how many requests have been repeated so far.
        let progress = |after: &str| {
            let before = tally.acknowledged.load(Ordering::SeqCst);
            eventually("progress", || (tally.acknowledged.load(Ordering::SeqCst) > before + 300).then_some(()));
            println!("after {after}: {tally:?}");
            tally.faults()
        };
        progress("the beginning");
        work(tally, &progress);
    });
}

/// Returns whether all servers use a node, which is not in their URL.
fn are_connected(servers: &[Server], port: &str) -> bool {
    let name = format!(r#"rowhouse_store_node_up{{node="127.0.0.1:{port}"}}"#);
    servers.iter().all(|server| metrics(server).0.get(&name) == Some(&1.0))
}

fn check(server: &Server, all: &[Written]) {
    let mut client = server.client();
    for (number, written) in all.iter().enumerate() {
        for (row, expected) in written {
            let path = format!("/{TABLE}(PartitionKey='writer{number}',RowKey='{row}')");
            let answer: Response = client.request("GET", &path, &[], b"");
            let found = (answer.status == 200).then(|| answer.json()["Number"].as_u64().unwrap());
            assert_eq!(found, *expected, "{path}: {answer:?}");
        }
    }
}

fn stop(server: Server) {
    let (status, log) = server.stop();
    let is_defect = |line: &&String| line.contains("panicked") || line.contains("InternalError");
    let defects: Vec<_> = log.iter().filter(is_defect).collect();
    assert!(status.success() && defects.is_empty(), "{status}: {defects:?}");
}

/// Replaces the servers one after the other, and takes each out of service before it stops.
fn restart(servers: &mut [Server], balancer: &LoadBalancer, arguments: &[String], progress: &dyn Fn(&str) -> u64) {
    for index in 0..servers.len() {
        let others: Vec<_> = servers.iter().enumerate().filter(|(other, _)| *other != index).collect();
        balancer.set(&others.iter().map(|(_, server)| *server).collect::<Vec<_>>());
        progress("taking a server out of service");
        stop(std::mem::replace(&mut servers[index], PROGRAM.start(&as_strs(arguments))));
        balancer.set(&servers.iter().collect::<Vec<_>>());
        progress("the restart of a server");
    }
}

#[test]
fn a_server_moves_to_a_cluster_that_is_then_changed_while_clients_write() {
    let Some(cluster) = CitusCluster::start(2) else { return };
    let machine = Machine::new(cluster.folder(), cluster.programs());
    let mut nodes = Nodes { machine, ports: BTreeMap::new() };
    let reserved = ReservedPort::new();
    for (number, name) in ["coordinator", "worker1", "worker2"].into_iter().enumerate() {
        nodes.add(name, cluster.port(number));
    }

    for block in blocks::<2>("Start the nodes") {
        nodes.run("", &block);
    }
    let [serve] = blocks("Start the servers");
    let mut serve = arguments(&nodes.adapt(&serve), "rowhouse serve");
    serve.extend(["--admin", "127.0.0.1:0"].map(str::to_owned));
    let mut servers = [(); 2].map(|()| PROGRAM.start(&as_strs(&serve)));

    let folder = PROGRAM.folder();
    let old = PROGRAM.start(&["--data", &folder.path("data"), "--keep-log", "24h"]);
    fill_with_everything(&old);
    fill(&old, "deep", 20, 300);
    create_table(&mut old.client(), TABLE);
    let [first_copy, analyze, last_copy] = blocks("Move the tables");
    let copy = |block: &str| {
        let place = [("http://old:10002/orchard --from-key-file orchard.key", endpoint(&old.address))];
        let block = adapt(&nodes.adapt(block), &place.each_ref().map(|(word, other)| (*word, other.as_str())));
        let ran = folder.copy(&as_strs(&arguments(&block, "rowhouse copy")));
        assert_eq!(ran.code, Some(0), "{ran:?}");
        ran
    };
    let mut written = vec![Written::new(); WRITERS];
    let balancer = LoadBalancer::default();
    balancer.set(&[&old]);
    write_during(&balancer, &mut written, |_, progress| {
        for _ in 0..2 {
            copy(&first_copy);
            progress("a run of the copy");
        }
        nodes.run("", &analyze);
    });
    let ran = copy(&last_copy);
    assert!(ran.stdout.contains("both sides are equal"), "{ran:?}");
    assert_eq!(snapshot(&servers[0]), snapshot(&old));
    check(&servers[1], &written);
    stop(old);

    balancer.set(&servers.iter().collect::<Vec<_>>());
    write_during(&balancer, &mut written, |tally, progress| {
        let before = progress("the switch");
        let third = cluster.add_node();
        nodes.add("worker3", cluster.port(third));
        let [add] = blocks("Add a worker");
        nodes.run("", &add);
        let began = Instant::now();
        let has_shards = || (shards(&cluster, DATABASE, third) > 0).then_some(());
        eventually_within(MOVE_TIME_MAX, "a shard on the new worker", has_shards);
        println!("a shard was moved after {:?}", began.elapsed());
        eventually("connections to the new worker", || are_connected(&servers, &cluster.port(third)).then_some(()));
        assert_eq!(progress("a move to the new worker"), before, "no request was repeated");

        let standby = reserved.number().to_string();
        // The script of the tests passes these settings on the command line instead.
        let local = "listen_addresses = '127.0.0.1'\nunix_socket_directories = ''";
        nodes.machine.run("", &format!("cat >> node1/postgresql.conf <<'END'\n{local}\nEND"));
        let data = [("/var/lib/postgresql/15/worker1b", nodes.machine.at("worker1b"))];
        let data = data.each_ref().map(|(word, other)| (*word, other.as_str()));
        let [set_up] = blocks("Give each node a standby");
        nodes.run(&standby, &adapt(&set_up, &data));
        let is_synchronous = "EXISTS (SELECT FROM pg_stat_replication WHERE sync_state = 'sync')";
        eventually("a synchronous standby", || nodes.holds("worker1", is_synchronous).then_some(()));
        assert_eq!(progress("the synchronous standby"), before, "no request was repeated");

        nodes.ports.insert("worker1b", standby.clone());
        let [fail_over] = blocks("Fail over");
        cluster.kill(1);
        thread::sleep(Duration::from_secs(1));
        nodes.run(&standby, &adapt(&fail_over, &data));
        eventually("connections to the promoted standby", || are_connected(&servers, &standby).then_some(()));
        let retried = progress("the failover");

        let with_standby = serve.iter().map(|word| word.replace(&nodes.ports["worker1"], &standby));
        let with_standby: Vec<_> = with_standby.collect();
        restart(&mut servers, &balancer, &with_standby, progress);
        assert_eq!(tally.faults(), retried, "no request was repeated while the servers were restarted");

        let [remove] = blocks("Remove a worker");
        nodes.run("", &remove);
        assert_eq!(progress("the removal of the worker"), retried, "no request was repeated");
        assert_eq!(shards(&cluster, DATABASE, third), 0);
    });
    for server in servers {
        check(&server, &written);
        stop(server);
    }
}
