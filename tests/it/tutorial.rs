//! `docs/tutorial.md`, executed.
