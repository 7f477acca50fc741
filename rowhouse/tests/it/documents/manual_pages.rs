//! Checks completions and manual pages with the programs that read them.

use super::{commands, has};
use crate::PROGRAM;
use std::io::Write;
use std::process::{Command, Stdio};

/// Returns the program's standard output or, if it fails, its standard error.
fn printed(arguments: &[&str]) -> Result<String, String> {
    let output = PROGRAM.command(arguments).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
}

fn script(shell: &str) -> String {
    printed(&["completions", shell]).unwrap()
}

fn page(words: &[&str]) -> Result<String, String> {
    printed(&[&["man"], words].concat())
}

/// Runs a program with the given input. Returns whether it succeeded, its standard output and its standard error.
fn fed(program: &str, args: &[&str], input: &str) -> (bool, String, String) {
    let mut command = Command::new(program);
    command.args(args).env("LC_ALL", "C.UTF-8").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.success(), text(output.stdout), text(output.stderr))
}

fn offered(words: &[&str]) -> Vec<String> {
    let line = words.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" ");
    let position = words.len() - 1;
    // The variables that bash sets for a completion function, and the call that it makes.
    let ask = format!(
        "COMP_WORDS=({line}); COMP_CWORD={position}; cur='{}'; prev='{}'\n_rowhouse rowhouse \"$cur\" \"$prev\"\nprintf '%s\\n' \"${{COMPREPLY[@]}}\"\n",
        words[position],
        words[position - 1]
    );
    let (good, said, wrong) =
        fed("bash", &["--norc", "-s"], &format!("{}\ncomplete -p rowhouse >&2\n{ask}", script("bash")));
    assert!(good && wrong.contains("-F _rowhouse") && wrong.lines().count() == 1, "{wrong}");
    said.lines().map(str::to_owned).collect()
}

#[test]
fn bash_completes_commands_options_and_values() {
    if !has("bash") {
        return;
    }
    let all: Vec<_> =
        commands().into_iter().filter_map(|(words, _)| Some(words.strip_prefix("rowhouse ")?.to_owned())).collect();
    let first = offered(&["rowhouse", ""]);
    for name in all.iter().filter(|name| !name.contains(' ')) {
        assert!(first.contains(name), "{name} is not in {first:?}");
    }
    assert_eq!(offered(&["rowhouse", "ser"]), ["serve"]);
    assert_eq!(offered(&["rowhouse", "serve", "--dur"]), ["--durability"]);
    assert_eq!(offered(&["rowhouse", "serve", "--durability", ""]), ["sync", "interval"]);
    assert!(offered(&["rowhouse", "sas", "table", "--pol"]).contains(&"--policy".to_owned()));
}

#[test]
fn other_shells_read_their_scripts() {
    for (shell, args) in [("zsh", ["-n", "/dev/stdin"]), ("fish", ["--no-execute", "/dev/stdin"])] {
        let script = script(shell);
        assert!(script.contains("min-free-space"));
        if has(shell) {
            let (good, _, wrong) = fed(shell, &args, &script);
            assert!(good && wrong.is_empty(), "{shell}: {wrong}");
        }
    }
}

#[test]
fn every_command_has_a_manual_page_that_renders_without_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(page(&["--dir", folder.path().to_str().unwrap()]).unwrap(), "");
    let groff = has("groff");
    for (words, command) in commands() {
        let name = format!("{}.1", words.replace(' ', "-"));
        let written = std::fs::read_to_string(folder.path().join(&name)).unwrap();
        let further: Vec<_> = words.split(' ').skip(1).collect();
        assert_eq!(page(&further).unwrap(), written, "{name}");
        if !groff {
            continue;
        }
        let (good, read, wrong) = fed("groff", &["-man", "-ww", "-Tutf8", "-P-c", "-z"], &written);
        assert!(good && wrong.is_empty() && read.is_empty(), "{name}: {wrong}");
        let (_, read, _) = fed("groff", &["-man", "-Tutf8", "-P-cbou"], &written);
        for arg in command.get_arguments().filter_map(|arg| arg.get_long()) {
            assert!(read.contains(&format!("--{arg}")), "{name} does not show --{arg}");
        }
        // Examples can be copied from the page: their lines and characters are unchanged. Text is wrapped.
        let in_one_line = read.split_whitespace().collect::<Vec<_>>().join(" ");
        for line in command.get_after_long_help().map(ToString::to_string).unwrap_or_default().lines().skip(1) {
            let is_text = !line.starts_with("  ") || line.starts_with("      ");
            let is_shown = if is_text { in_one_line.contains(line.trim()) } else { read.contains(line.trim()) };
            assert!(is_shown, "{name} does not show: {line}\n{read}");
        }
    }
    assert!(page(&["no", "such"]).is_err());
}
