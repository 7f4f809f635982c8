//! TEMP
pub fn check(_: &str, _: &[&str]) -> Result<(), String> {
    Ok(())
}
