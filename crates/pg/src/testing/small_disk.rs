//! A small file system that can be filled, and a server's files on it.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{PrivateCluster, skip};

/// A file system in memory of a few megabytes. Unmounted when the value is dropped: after the server whose files are on
/// it.
#[derive(Debug)]
pub struct SmallDisk(PathBuf);

impl SmallDisk {
    /// Mounts one. `None`, with a line that the test is skipped, where that is not permitted.
    pub fn mount(megabytes: u32) -> Option<SmallDisk> {
        let folder = std::env::temp_dir().join(format!("reveille-disk-{}-{}", std::process::id(), fastrand::u32(..)));
        std::fs::create_dir_all(&folder).expect("a folder to mount at");
        let size = format!("size={megabytes}m,mode=0777");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(&folder).output();
        if !mounted.is_ok_and(|mounted| mounted.status.success()) {
            let _ = std::fs::remove_dir(&folder);
            return skip("a file system of its own, which it may not mount");
        }
        Some(SmallDisk(folder))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Takes all the room that is left.
    pub fn fill(&self) {
        use std::io::Write;
        let mut file = std::fs::File::create(self.0.join("filler")).expect("a file");
        let block = vec![0; 64 * 1024];
        // Whole blocks, and then what is left of the last.
        for size in [block.len(), 4096] {
            while file.write_all(&block[..size]).is_ok() {}
        }
    }

    /// Gives the room back.
    pub fn free(&self) {
        std::fs::remove_file(self.0.join("filler")).expect("it was filled");
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: the server that used it may still be closing its files.
        let _ = Command::new("umount").arg("-l").arg(&self.0).output();
        let _ = std::fs::remove_dir(&self.0);
    }
}

impl PrivateCluster {
    /// From now on new tables lie on a disk.
    pub async fn put_tables_on(&self, disk: &SmallDisk) {
        let folder = disk.path().join("tables");
        std::fs::create_dir(&folder).expect("a folder");
        self.own(&folder);
        let pool = sqlx::PgPool::connect(self.url()).await.expect("the server answers");
        for sql in [
            format!("create tablespace small location '{}'", folder.display()),
            "alter database test set default_tablespace = small".to_owned(),
        ] {
            sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(&pool).await.expect("a tablespace");
        }
        pool.close().await;
    }

    /// Moves the write-ahead log to a disk. Stops the server and starts it again.
    pub async fn put_wal_on(&self, disk: &SmallDisk) {
        self.stop().await.expect("stop the server");
        let (from, to) = (self.pgdata().join("pg_wal"), disk.path().join("pg_wal"));
        let copied = Command::new("cp").arg("-a").arg(&from).arg(&to).status().expect("copy the log");
        assert!(copied.success(), "the log fits");
        std::fs::remove_dir_all(&from).expect("remove the log");
        std::os::unix::fs::symlink(&to, &from).expect("a link to it");
        self.start_again().await.expect("start the server again");
    }

    /// Gives a folder to the user that runs the server.
    fn own(&self, folder: &Path) {
        use std::os::unix::fs::MetadataExt;
        let data = std::fs::metadata(self.pgdata()).expect("the data directory");
        std::os::unix::fs::chown(folder, Some(data.uid()), Some(data.gid())).expect("give a folder away");
    }
}
