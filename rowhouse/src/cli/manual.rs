//! `rowhouse completions` and `rowhouse man`: scripts for shells and manual pages, generated from the options of the
//! program.

use super::Cli;
use anyhow::{Context, ensure};
use clap::{Args, Command, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man;
use std::io::Write;
use std::path::{Path, PathBuf};

/// The examples at the end of the help.
pub const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  rowhouse completions bash > /usr/share/bash-completion/completions/rowhouse
  rowhouse completions zsh > /usr/local/share/zsh/site-functions/_rowhouse
  rowhouse completions fish > ~/.config/fish/completions/rowhouse.fish
  source <(rowhouse completions bash)
      for the current shell";

/// The examples at the end of the help.
pub const MAN_EXAMPLES: &str = "\
Examples:
  rowhouse man serve | man --local-file -
      read one page
  rowhouse man --dir /usr/local/share/man/man1
      write all of them";

/// The options of `completions`.
#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// Shell to write the script for
    #[arg(value_enum)]
    shell: Shell,
}

/// The options of `man`.
#[derive(Debug, Args)]
pub struct ManArgs {
    /// Command whose page to print, such as serve or sas table [default: the page of rowhouse itself]
    #[arg(value_name = "COMMAND")]
    command: Vec<String>,

    /// Write the pages of all commands into this folder; created if missing
    #[arg(long, value_name = "DIR", conflicts_with = "command")]
    dir: Option<PathBuf>,
}

/// Returns the completion script for a shell.
pub fn completions(args: &CompletionsArgs) -> String {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "rowhouse", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

/// Returns one page, or an empty string if all pages were written into a folder.
pub fn man(args: &ManArgs) -> anyhow::Result<String> {
    let mut root = Cli::command().disable_help_subcommand(true);
    // Only a built command has its full name.
    root.build();
    if let Some(folder) = &args.dir {
        std::fs::create_dir_all(folder).with_context(|| format!("creating the folder {}", folder.display()))?;
        write_pages(&root, folder)?;
        return Ok(String::new());
    }
    let mut command = &root;
    for name in &args.command {
        let found = command.find_subcommand(name);
        command = found.with_context(|| {
            format!("there is no command '{}'; see rowhouse --help for a list", args.command.join(" "))
        })?;
    }
    let page = page(command)?;
    String::from_utf8(page).context("writing a page")
}

fn write_pages(command: &Command, folder: &Path) -> anyhow::Result<()> {
    let path = folder.join(Man::new(command.clone()).get_filename());
    std::fs::write(&path, page(command)?).with_context(|| format!("writing {}", path.display()))?;
    command.get_subcommands().filter(|below| !below.is_hide_set()).try_for_each(|below| write_pages(below, folder))
}

/// Returns one page. The examples are formatted here because the library would join their lines.
fn page(command: &Command) -> anyhow::Result<Vec<u8>> {
    let man = Man::new(command.clone()).manual("Rowhouse").source(concat!("rowhouse ", env!("CARGO_PKG_VERSION")));
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    if command.get_arguments().any(|option| !option.is_hide_set()) {
        man.render_options_section(&mut page)?;
    }
    if command.has_subcommands() {
        man.render_subcommands_section(&mut page)?;
    }
    if let Some(examples) = command.get_after_long_help() {
        write!(page, ".SH EXAMPLES\n.nh\n.ad l\n{}", examples_in_troff(&examples.to_string()))?;
    }
    ensure!(!page.is_empty(), "a page is empty");
    Ok(page)
}

/// The indentation, in spaces, of a remark on an example in the help.
const REMARK_INDENT: usize = 6;

/// Formats examples and the text below them: commands literally, text wrapped to the width of the page.
fn examples_in_troff(text: &str) -> String {
    let text = text.strip_prefix("Examples:\n").unwrap_or(text);
    let mut page = String::new();
    for line in text.lines() {
        let words = line.trim_start();
        let block = match line.len() - words.len() {
            _ if words.is_empty() => ".PP\n".to_owned(),
            0 => format!("{}\n", literal(words)),
            REMARK_INDENT => format!(".RS {REMARK_INDENT}\n{}\n.RE\n", literal(words)),
            _ => format!(".nf\n{}\n.fi\n", literal(line)),
        };
        page.push_str(&block);
    }
    page
}

/// Escapes a line so that troff shows it unchanged.
fn literal(line: &str) -> String {
    // A dot or a quote at the start of a line would begin a troff request, and a hyphen would become a typographic
    // hyphen.
    let line = line.replace('\\', "\\e").replace('-', "\\-").replace('\'', "\\(aq");
    format!("\\&{line}")
}
