//! The program `policy-writer`.

fn main() -> std::process::ExitCode {
    policy_writer::main()
}
