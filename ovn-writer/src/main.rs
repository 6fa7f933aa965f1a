//! The program `ovn-writer`.

fn main() -> std::process::ExitCode {
    ovn_writer::main()
}
