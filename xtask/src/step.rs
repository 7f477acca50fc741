//! What a step of the tests is: the tools that it needs, the server that it tests, its commands, and how to count
//! their results. The table of all steps is in [`crate::steps`].
//!
//! Words of a command, its environment and the options of a server may contain these placeholders:
//!
//! | placeholder | meaning |
//! |---|---|
//! | `{name}` | the name of the step |
//! | `{program}` | the server, as `cargo test` builds it |
//! | `{endpoint}` | the URL of the account on the step's server |
//! | `{store}` | the URL of the step's database |
//! | `{python}` | the interpreter of the step's virtual environment |
//! | `{port}` | a free port, for a server that cannot choose one itself |
//! | `{data}` | a folder of the step, initially empty |
//! | `{results}` | the folder for results that other steps read |
//! | `{target}` | Cargo's target folder |
//! | `{xtask}` | this program |

/// The name of the step that builds everything that other steps run.
pub(crate) const BUILD: &str = "build";

/// A step of the tests.
#[derive(Debug, Clone, Default)]
pub(crate) struct Step {
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    pub(crate) tier: Tier,
    pub(crate) tools: Vec<Tool>,
    /// Steps that provide something that this step uses.
    pub(crate) after: Vec<&'static str>,
    pub(crate) share: Share,
    /// Steps with the same lock never run at the same time.
    pub(crate) lock: Option<&'static str>,
    pub(crate) installs: Vec<Install>,
    pub(crate) database: Option<Database>,
    /// Variables of the commands.
    pub(crate) environment: Vec<(&'static str, &'static str)>,
    pub(crate) server: Option<Server>,
    pub(crate) commands: Vec<Line>,
    pub(crate) count: Count,
}

/// When a step runs. A run of a tier includes the tiers before it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Tier {
    /// Before every push: compiles nothing at length. All of these steps run, even if one fails.
    Quick,
    /// What every change must pass.
    #[default]
    Gate,
    /// Every night, and before a release.
    All,
}

/// The part of the machine that a step needs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Share {
    /// The step keeps about one processor busy.
    #[default]
    OneProcessor,
    /// The step uses all processors: nothing else runs at the same time.
    Whole,
}

/// Something that must be installed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tool {
    pub(crate) name: &'static str,
    /// How to get it.
    pub(crate) hint: &'static str,
    /// A shell command that succeeds if it is installed.
    pub(crate) probe: &'static str,
    /// Whether CI installs it. If it does not, a missing tool is no failure in CI.
    pub(crate) is_required: bool,
}

/// Packages that a step installs into the repository if their list has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Install {
    /// A virtual environment of Python. Clients of different ages need different versions of the same packages, so each
    /// has its own.
    Python { home: &'static str, requirements: &'static str },
    /// The packages of a folder with a `package-lock.json`.
    Npm(&'static str),
}

/// The database server that a step starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Database {
    Postgres,
    Citus,
}

/// The server that a step tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Server {
    pub(crate) line: &'static str,
    /// Text in the server's output before its URL or address, which ends at white space.
    pub(crate) announcement: &'static str,
    /// Whether the server must stop with exit code 0 and must not log errors.
    pub(crate) is_checked: bool,
}

/// A command line, its words separated by spaces, or a line for the shell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Line {
    /// Relative to the repository.
    pub(crate) folder: &'static str,
    pub(crate) text: &'static str,
    pub(crate) is_shell: bool,
}

/// How to count the results of a step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Count {
    /// Each command is a check.
    #[default]
    Commands,
    /// The commands only prepare something.
    Nothing,
    /// Closing lines such as that of this program.
    Closing,
    /// Lines of Rust's test runner.
    Rust,
    /// A report in the format of `JUnit`, or a folder of such reports, relative to the repository.
    Junit(&'static str),
    /// Verbose output of `go test`.
    Go,
}

/// The report that a step writes in the format of `JUnit`.
pub(crate) const JUNIT: Count = Count::Junit("{results}/{name}.xml");

impl Step {
    pub(crate) fn new(name: &'static str, title: &'static str) -> Self {
        Self { name, title, ..Self::default() }
    }

    /// Moves the step out of the gate.
    pub(crate) fn tier(mut self, tier: Tier) -> Self {
        self.tier = tier;
        self
    }

    pub(crate) fn needs(mut self, tools: &[Tool]) -> Self {
        self.tools.extend(tools);
        self
    }

    /// The step uses something that these steps provide.
    pub(crate) fn after(mut self, steps: &[&'static str]) -> Self {
        self.after.extend(steps);
        self.after.sort_unstable();
        self.after.dedup();
        self
    }

    pub(crate) fn on_whole_machine(mut self) -> Self {
        self.share = Share::Whole;
        self
    }

    pub(crate) fn lock(mut self, name: &'static str) -> Self {
        self.lock = Some(name);
        self
    }

    pub(crate) fn install(mut self, install: Install) -> Self {
        self.installs.push(install);
        self
    }

    pub(crate) fn database(mut self, database: Database, tool: Tool) -> Self {
        self.database = Some(database);
        self.needs(&[tool])
    }

    /// Starts Rowhouse with these options, and stops it after the commands.
    pub(crate) fn rowhouse(self, line: &'static str) -> Self {
        self.after(&[BUILD]).server(Server { line, announcement: "listening on ", is_checked: true })
    }

    pub(crate) fn server(mut self, server: Server) -> Self {
        self.server = Some(server);
        self
    }

    pub(crate) fn variable(mut self, name: &'static str, value: &'static str) -> Self {
        self.environment.push((name, value));
        self
    }

    pub(crate) fn run(self, text: &'static str) -> Self {
        self.run_in(".", text)
    }

    pub(crate) fn run_in(mut self, folder: &'static str, text: &'static str) -> Self {
        self.commands.push(Line { folder, text, is_shell: false });
        self
    }

    pub(crate) fn shell_in(mut self, folder: &'static str, text: &'static str) -> Self {
        self.commands.push(Line { folder, text, is_shell: true });
        self
    }

    pub(crate) fn count(mut self, count: Count) -> Self {
        self.count = count;
        self
    }
}
