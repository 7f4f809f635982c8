//! What no log may hold, whatever is asked of it.

use tracing_subscriber::EnvFilter;

/// kube's client tells at `debug` what API servers answer, and they quote what they refuse: the
/// content of Secrets. What there is to know of a refusal is in our own words.
const CLIENT: &str = "kube_client::client=info";

/// Leaves that out of a filter.
pub fn without_answers(filter: EnvFilter) -> EnvFilter {
    match CLIENT.parse() {
        Ok(directive) => filter.add_directive(directive),
        Err(_) => filter,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_left_out_whatever_is_asked_for() {
        for asked in ["trace", "kube_client=trace", "kube_client::client=debug,gitwork=debug"] {
            let filter = without_answers(EnvFilter::new(asked)).to_string();
            let client: Vec<&str> =
                filter.split(',').filter(|one| one.starts_with("kube_client::client")).collect();
            assert_eq!(client, [CLIENT], "{asked}: {filter}");
        }
    }
}
