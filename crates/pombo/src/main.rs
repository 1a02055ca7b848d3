//! The `pombo` command. Everything is in the library.

use mimalloc::MiMalloc;

/// Most of what one thread allocates another frees, which the system's allocator is slow at.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> std::process::ExitCode {
    pombo::cli::run()
}
