//! The build script of both programs: options of the linker.
//!
//! It writes the program's relocations in their short form (`DT_RELR`), which the loader reads at
//! each start: 8 bytes of memory and disk for up to 63 of them, and not 24 for each. glibc can read
//! it since 2.36; so it is used if the system that builds has such a glibc, as the images have.
//!
//! It leaves out symbols in release builds: Cargo's `strip` does not reach a package that has a
//! profile of its own, as gitwork-agent has.

use std::env;
use std::process::Command;

fn main() {
    // Cargo builds and runs it again if it changes; nothing else matters.
    println!("cargo::rerun-if-env-changed=TARGET");
    let is = |name: &str, value: &str| env::var(name).as_deref() == Ok(value);
    if is("PROFILE", "release") && is("CARGO_CFG_TARGET_OS", "linux") {
        println!("cargo::rustc-link-arg-bins=-Wl,--strip-all");
    }
    let is_native = env::var("HOST").ok() == env::var("TARGET").ok();
    if is_native && glibc_version().is_some_and(|version| version >= (2, 36)) {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}

/// The version of this system's glibc; `None` if it has another C library.
fn glibc_version() -> Option<(u32, u32)> {
    let output = Command::new("getconf").arg("GNU_LIBC_VERSION").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let (major, minor) = text.trim().strip_prefix("glibc ")?.split_once('.')?;
    Some((major.parse().ok()?, minor.split('.').next()?.parse().ok()?))
}
