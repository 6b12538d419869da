//! Processor time and memory of processes, as the system reports them.

use std::fs::{read_dir, read_to_string};

/// Ticks per second of processor time, the same on every Linux.
const TICKS: f64 = 100.0;

/// Processor seconds of a process so far, with all its threads and the children it has waited for; `None` if there is
/// no such process, or the system does not report it.
pub(crate) fn seconds(pid: u32) -> Option<f64> {
    let stat = read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name may contain any character; it ends with the last closing bracket.
    let (_, rest) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let ticks: Vec<f64> = fields.get(11..15)?.iter().map_while(|field| field.parse().ok()).collect();
    (ticks.len() == 4).then(|| ticks.iter().sum::<f64>() / TICKS)
}

/// Processor seconds of a process and of its running children.
pub(crate) fn family_seconds(pid: u32) -> Option<f64> {
    let own = seconds(pid)?;
    let children = read_dir("/proc").ok()?.filter_map(|entry| {
        let child: u32 = entry.ok()?.file_name().to_str()?.parse().ok()?;
        (parent(child)? == pid).then(|| seconds(child))?
    });
    Some(own + children.sum::<f64>())
}

fn parent(pid: u32) -> Option<u32> {
    let stat = read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

/// Memory that a process holds, in MB.
pub(crate) fn resident_mb(pid: u32) -> Option<f64> {
    let status = read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().trim_end_matches(" kB").parse::<f64>().ok().map(|kib| kib / 1_024.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process that does not exist must have no figure, rather than 0. This process has memory and processor time.
    #[test]
    fn an_unknown_process_is_not_free() {
        let me = std::process::id();
        assert!(resident_mb(me).is_some_and(|held| held > 1.0));
        let own = seconds(me);
        assert!(own.is_some() && family_seconds(me) >= own);
        assert_eq!(parent(me), Some(std::os::unix::process::parent_id()));
        assert_eq!(seconds(u32::MAX), None);
    }
}
