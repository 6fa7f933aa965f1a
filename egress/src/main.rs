//! The program `egress`. Under the name `kubectl-egress` it is a plugin of kubectl.

fn main() -> std::process::ExitCode {
    egress::main()
}
