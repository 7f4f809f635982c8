//! What a running program takes, from `/proc`, and what it says of itself.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The processor time of a process so far; `None` if it has ended.
pub fn cpu_of(process: u32) -> Option<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?;
    // Linux counts in hundredths of a second here.
    Some(Duration::from_millis(ticks * 10))
}

/// The memory of a process in KiB, now and at most so far; `None` if it has ended.
pub fn memory_of(process: u32) -> Option<[u64; 2]> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let of = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name))?;
        line.split_whitespace().nth(1)?.parse::<u64>().ok()
    };
    Some([of("VmRSS:")?, of("VmHWM:")?])
}

/// The files below a folder that this process has mapped into memory, sorted.
///
/// # Panics
/// If the system does not say it.
pub fn mapped_below(folder: &Path) -> BTreeSet<PathBuf> {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("Linux lists what is mapped");
    let files = maps.lines().filter_map(|line| line.find('/').map(|at| PathBuf::from(&line[at..])));
    files.filter(|file| file.starts_with(folder)).collect()
}

/// Waits until a process has used no processor for two seconds.
///
/// # Panics
/// If the process ends, or does not come to rest in time.
pub async fn until_idle(process: u32, within: Duration) {
    let now = || cpu_of(process).expect("the program has ended");
    let mut last = (now(), Instant::now());
    let deadline = Instant::now() + within;
    // A signal needs a moment to be seen, so an idle program is watched for some time.
    while last.1.elapsed() < Duration::from_secs(2) {
        assert!(Instant::now() < deadline, "the program does not come to rest");
        tokio::time::sleep(Duration::from_millis(100)).await;
        if now() != last.0 {
            last = (now(), Instant::now());
        }
    }
}

/// The text of `/metrics` of a program that listens on this port.
pub fn metrics(port: u16, within: Duration) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(within))?;
    stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}
