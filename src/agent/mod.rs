//! The work agent of a managed cluster: applies the ManifestWorks of its cluster namespace on the hub and reports
//! their status. A drop-in for the work agent of OCM's klusterlet.
//!
//! [`core`] decides, the rest reads, watches and writes.

pub mod core;
