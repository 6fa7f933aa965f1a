//! The program `collector`.

fn main() -> std::process::ExitCode {
    collector::main()
}
