//! The accounts of a soak test, whose keys are replaced while their clients work.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::fmt::Write;
use std::fs;
use test_support::{Account, Client, Random, eventually};

const LOADS: usize = 2;

pub(super) struct Accounts {
    folder: tempfile::TempDir,
    loads: Vec<WithTwoKeys>,
    /// The attackers' account, whose key never changes.
    pub(super) hostile: Account,
}

struct WithTwoKeys {
    account: Account,
    keys: [String; 2],
    in_use: usize,
}

fn any_key(random: &mut Random) -> String {
    let bytes: Vec<u8> = (0..8).flat_map(|_| random.number().to_le_bytes()).collect();
    STANDARD.encode(bytes)
}

impl Accounts {
    pub(super) fn new(random: &mut Random) -> Self {
        let hostile = Account::new("hostile", &any_key(random));
        let mut load = |number| {
            let keys = [any_key(random), any_key(random)];
            WithTwoKeys { account: Account::new(&format!("load{number}"), &keys[0]), keys, in_use: 0 }
        };
        let loads = (0..LOADS).map(&mut load).collect();
        let accounts = Self { folder: tempfile::tempdir().unwrap(), loads, hostile };
        accounts.write();
        accounts
    }

    pub(super) fn file(&self) -> String {
        self.folder.path().join("accounts.toml").to_str().unwrap().to_owned()
    }

    pub(super) fn load_accounts(&self) -> impl Iterator<Item = Account> {
        self.loads.iter().map(|load| load.account.clone())
    }

    pub(super) fn any(&self) -> &Account {
        &self.loads[0].account
    }

    fn write(&self) {
        let mut text = String::new();
        for WithTwoKeys { account, keys: [key1, key2], .. } in &self.loads {
            writeln!(text, "[[account]]\nname = \"{}\"\nkey1 = \"{key1}\"\nkey2 = \"{key2}\"", account.name).unwrap();
        }
        writeln!(text, "[[account]]\nname = \"{}\"\nkey1 = \"{}\"", self.hostile.name, self.hostile.key()).unwrap();
        let new = self.folder.path().join("new");
        fs::write(&new, text).unwrap();
        fs::rename(new, self.file()).unwrap();
    }

    /// Replaces both keys of an account without a refused request: first the unused key, to which the clients then
    /// switch, and then the other key.
    pub(super) fn replace_key(&mut self, random: &mut Random, address: &str) {
        let number = random.index(self.loads.len());
        let unused = 1 - self.loads[number].in_use;
        let new = any_key(random);
        self.loads[number].keys[unused].clone_from(&new);
        self.write();
        self.loads[number].wait_until(&new, 200, address);
        let old = self.loads[number].account.key();
        self.loads[number].account.change_key(new);
        self.loads[number].in_use = unused;
        self.loads[number].keys[1 - unused] = any_key(random);
        self.write();
        self.loads[number].wait_until(&old, 403, address);
    }
}

impl WithTwoKeys {
    fn wait_until(&self, key: &str, status: u16, address: &str) {
        let account = Account::new(&self.account.name, key);
        // A new connection each time: during an attack, a connection without a successful request may be closed to
        // make room.
        eventually("a changed key", || {
            let mut client = Client::connect_as(address, &account).ok()?;
            let response = client.try_request("GET", "/Tables", &[], b"").ok()?;
            (response.status == status).then_some(())
        });
    }
}
