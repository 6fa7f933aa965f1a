//! The memory limit of the process.

use std::{fs, path::Path};

/// The memory limit of the process's container or service, in bytes (cgroups(7)). Above it the kernel kills the
/// process.
pub(crate) fn limit() -> Option<u64> {
    let cgroups = fs::read_to_string("/proc/self/cgroup").ok()?;
    limit_in(Path::new("/sys/fs/cgroup"), &cgroups)
}

/// The limit of the control group that `/proc/self/cgroup` names.
fn limit_in(root: &Path, cgroups: &str) -> Option<u64> {
    cgroups.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next()?, fields.next()?);
        let (root, file) = if controllers.is_empty() {
            (root.to_owned(), "memory.max")
        } else if controllers.split(',').any(|name| name == "memory") {
            (root.join("memory"), "memory.limit_in_bytes")
        } else {
            return None;
        };
        // Inside a container its own group is mounted at the root, though the path may be that of the host.
        let folders = [root.join(path.trim_start_matches('/')), root];
        folders.iter().find_map(|folder| {
            let text = fs::read_to_string(folder.join(file)).ok()?;
            text.trim().parse().ok()
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_that_of_the_process_own_group() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let write = |path: &str, text: &str| {
            let file = root.join(path);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        };
        assert_eq!(limit_in(root, "0::/\n"), None);
        write("memory.max", "max\n");
        assert_eq!(limit_in(root, "0::/\n"), None);
        write("memory.max", "536870912\n");
        assert_eq!(limit_in(root, "0::/\n"), Some(512 << 20));
        assert_eq!(limit_in(root, "0::/kubepods/pod1/x\n"), Some(512 << 20));
        write("system.slice/x.service/memory.max", "1048576\n");
        assert_eq!(
            limit_in(root, "0::/system.slice/x.service\n"),
            Some(1 << 20)
        );
        // Control groups, version 1, as in old kernels.
        let first = "5:devices:/\n4:cpu,memory:/docker/x\n0::/unknown\n";
        fs::remove_file(root.join("memory.max")).unwrap();
        assert_eq!(limit_in(root, first), None);
        write("memory/memory.limit_in_bytes", "1073741824\n");
        assert_eq!(limit_in(root, first), Some(1 << 30));
        assert_eq!(limit_in(root, "nonsense\n\n:\n"), None);
    }
}
