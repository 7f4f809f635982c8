use std::io::BufRead;
fn main() {
    let cluster = gitwork_schemas::Cluster {
        name: "c".into(),
        version: gitwork_schemas::KubernetesVersion::parse("1.33"),
    };
    for line in std::io::stdin().lock().lines() {
        let v: serde_json::Value = serde_json::from_str(&line.unwrap()).unwrap();
        let f = gitwork_schemas::check(&v, &cluster);
        let t: Vec<String> = f
            .iter()
            .filter(|f| {
                !f.is_uncertain
                    && !matches!(
                        f.problem,
                        gitwork_schemas::Problem::DeprecatedVersion
                            | gitwork_schemas::Problem::ServerField
                    )
            })
            .map(|f| format!("{:?} {} {}", f.problem, f.pointer, f.message))
            .collect();
        println!("{}", t.join("; "));
    }
}
