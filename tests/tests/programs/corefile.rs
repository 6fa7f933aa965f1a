//! Corefiles that a stock CoreDNS loads, and those that it refuses: `egress corefile` agrees with it about each.
//!
//! `field` has the Corefiles of platforms, as they are found there. `lexical` has what Caddy's lexer and parser take or refuse; the names
//! of the latter begin with `refused-`. Faults within a plugin's own arguments are CoreDNS's alone, and have no file here.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Output,
};

use regex::{Captures, Regex};
use tests::{
    coredns::free_port,
    process::Process,
    programs::{self, tool},
    wait::eventually,
    workdir::Workdir,
};

const REFUSED: &str = "refused-";

fn files(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/programs/corefile")
        .join(folder);
    let files = fs::read_dir(folder).unwrap();
    let mut files: Vec<PathBuf> = files.map(|it| it.unwrap().path()).collect();
    files.sort();
    files
}

async fn corefile(args: &[&str]) -> Output {
    programs::run("egress", &[&["corefile"], args].concat()).await
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

async fn made(args: &[&str]) -> String {
    let output = corefile(args).await;
    let errors = text(&output.stderr);
    assert!(output.status.success(), "{args:?}: {errors}");
    text(&output.stdout)
}

fn write(path: &Path, text: &str) -> String {
    fs::write(path, text).unwrap();
    path.display().to_string()
}

/// CoreDNS's words, if it does not load the Corefile of the folder.
async fn loads(folder: &Path) -> Result<(), String> {
    let program = env::var("COREDNS_PROGRAM").map(PathBuf::from);
    let program = program.unwrap_or_else(|_| tool("coredns"));
    // Another program may take the port between the check and its use.
    for _ in 0..5 {
        let port = free_port().port().to_string();
        let args = ["-conf", "Corefile", "-dns.port", &port];
        let environment = [("DNS_PORT", port.clone())];
        let mut server = Process::start(folder, "coredns", &program, args, &environment);
        let started = eventually("CoreDNS starts or ends", async || {
            let has_ended = server.ended().is_some();
            let log = server.log();
            match (log.contains("CoreDNS-"), has_ended) {
                (true, false) => Ok(Ok(())),
                (_, true) => Ok(Err(log)),
                (false, false) => Err(log),
            }
        });
        match started.await {
            Err(log) if log.contains("address already in use") => {}
            started => return started,
        }
    }
    panic!("no port is free")
}

/// CoreDNS and the tools take the Corefile, or both refuse it. A patched one loads, too, and its removal gives the same bytes.
async fn agree(folder: &Path, name: &str, corefile_text: &str) {
    let file = write(&folder.join("Corefile"), corefile_text);
    let loaded = loads(folder).await;
    assert_eq!(
        loaded.is_err(),
        name.starts_with(REFUSED),
        "{name}: {loaded:?}"
    );
    let endpoint = folder.join("dnstap.sock").display().to_string();
    let second = format!("{endpoint}.second");
    let lines = ["--dnstap", &endpoint, "--dnstap", &second];
    let patch = [&["patch", file.as_str()], &lines[..]].concat();
    let patched = corefile(&patch).await;
    let words = text(&patched.stderr);
    if loaded.is_err() {
        assert_eq!(patched.status.code(), Some(2), "{name} is taken");
        assert!(words.contains("line "), "{name}: {words}");
        return;
    }
    assert!(patched.status.success(), "{name}: {words}");
    let after = text(&patched.stdout);
    write(&folder.join("Corefile"), &after);
    let loaded = loads(folder).await;
    assert_eq!(loaded, Ok(()), "{name}:\n{after}");
    assert_eq!(made(&patch).await, after, "{name}");
    // Blocks of imported files are patched there.
    if !after.contains("shared/") {
        made(&[&["check", file.as_str()], &lines[..]].concat()).await;
    }
    let removed = made(&["patch", &file, "--remove"]).await;
    assert_eq!(removed, corefile_text, "{name}");
}

/// Without a cluster, and with sockets on loopback only.
fn on_this_machine(corefile: &str) -> String {
    let startup = match env::var_os("COREDNS_PROGRAM") {
        // Older ones have no such word, and wait for seconds.
        Some(_) => "",
        None => "\n startup_timeout 1ms",
    };
    let kubernetes = format!("$1\n endpoint http://127.0.0.1:1{startup}");
    let steps = [
        (r"(?m)^ +bind .*\n", ""),
        (r"(?m)^([^\s(].*\{ *)$", "$1\n bind 127.0.0.1"),
        (r"(?m)^( +forward +\S+) [^{\n]*", "$1 127.0.0.1:1 "),
        (
            r"(?m)^( +(?:health|ready|prometheus))(?: +[0-9.]*:\d+)? *(\{)? *$",
            "$1 127.0.0.1:0 $2",
        ),
        (r"(?m)^( +kubernetes .*\{)$", &kubernetes),
    ];
    let all = |pattern: &str| Regex::new(pattern).unwrap();
    let replaced = |text: String, (pattern, new): (&str, &str)| {
        all(pattern).replace_all(&text, new).into_owned()
    };
    let (keys, port) = (all(r"(?m)^[^\s#].*$"), all(r":\d+"));
    let text = keys.replace_all(corefile, |keys: &Captures<'_>| {
        port.replace_all(&keys[0], ":{$$DNS_PORT}").into_owned()
    });
    steps.into_iter().fold(text.into_owned(), replaced)
}

#[tokio::test]
async fn corefiles_of_the_field_are_taken_as_by_coredns() {
    let files = files("field");
    assert!(files.len() >= 20, "{files:?}");
    for file in files {
        let workdir = Workdir::new();
        let name = file.file_name().unwrap().to_str().unwrap();
        let corefile = on_this_machine(&fs::read_to_string(&file).unwrap());
        agree(workdir.path(), name, &corefile).await;
    }
}

#[tokio::test]
async fn words_braces_and_imports_are_read_as_by_coredns() {
    let (folders, files): (Vec<_>, Vec<_>) =
        files("lexical").into_iter().partition(|it| it.is_dir());
    let [shared] = folders.as_slice() else {
        panic!("{folders:?}");
    };
    assert!(files.len() >= 20, "{files:?}");
    for file in files {
        let workdir = Workdir::new();
        fs::create_dir(workdir.join("shared")).unwrap();
        for file in fs::read_dir(shared).unwrap() {
            let file = file.unwrap();
            fs::copy(file.path(), workdir.join("shared").join(file.file_name())).unwrap();
        }
        let name = file.file_name().unwrap().to_str().unwrap();
        agree(workdir.path(), name, &fs::read_to_string(&file).unwrap()).await;
    }
}
