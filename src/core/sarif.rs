//! sarif
