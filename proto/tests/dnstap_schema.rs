//! The generated types of dnstap are those of `dnstap.proto`.

use std::fs;
use std::path::Path;

/// Set to anything to write the generated file instead of comparing it.
const UPDATE: &str = "UPDATE_GENERATED";

#[test]
fn the_generated_types_are_current() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/dnstap");
    let schema = protox::compile([folder.join("dnstap.proto")], [&folder]).unwrap();
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("dnstap_schema");
    fs::create_dir_all(&out).unwrap();
    prost_build::Config::new()
        .out_dir(&out)
        .compile_fds(schema)
        .unwrap();
    let generated = fs::read_to_string(out.join("dnstap.rs")).unwrap();

    let committed = folder.join("generated.rs");
    if std::env::var_os(UPDATE).is_some() {
        fs::write(&committed, &generated).unwrap();
    }
    assert!(
        fs::read_to_string(&committed).unwrap() == generated,
        "{} is not what dnstap.proto gives; run this test with {UPDATE}=1",
        committed.display(),
    );
}
