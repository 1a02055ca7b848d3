//! The `pombo` command. Everything is in the library.

fn main() -> std::process::ExitCode {
    pombo::cli::run()
}
