//! Hands one target of `crates/fuzz` to libFuzzer: the one that POMBO_FUZZ_TARGET names.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use pombo_fuzz::Target;

static CHOSEN: LazyLock<&Target> = LazyLock::new(|| {
    let name = std::env::var("POMBO_FUZZ_TARGET").expect("POMBO_FUZZ_TARGET names a target");
    pombo_fuzz::target(&name).unwrap_or_else(|| panic!("there is no target {name}"))
});

fuzz_target!(|bytes: &[u8]| {
    (CHOSEN.run)(bytes);
});
